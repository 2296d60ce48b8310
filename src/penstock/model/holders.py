"""Who holds what a queue has handed out, and how much of that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.model.workers import WorkerInfo


class Holders(NamedTuple):
    """The workers of a queue, and what they hold of it."""

    living: int
    lapsed: list[str]
    """workers that are not known to be alive: their leases have lapsed, or they were given up"""
    running: int
    """at most: a worker that serves several queues has its slots for all of them"""
    prefetched: int
    """held by workers that have not begun it, as all their slots are taken"""


def holders_of(held: Mapping[str, int], workers: Iterable[WorkerInfo]) -> Holders:
    """`held` is worker -> how much it holds; a worker that has not said how many slots it has runs
    all of it.
    """
    registered = {info.id: info for info in workers}
    alive = {id for id, info in registered.items() if info.is_alive}
    slots = {id: info.slots or held.get(id, 0) for id, info in registered.items()}
    running = sum(min(count, slots.get(worker, count)) for worker, count in held.items())
    return Holders(
        living=len(alive & held.keys()),
        lapsed=sorted(held.keys() - alive),
        running=running,
        prefetched=sum(held.values()) - running,
    )
