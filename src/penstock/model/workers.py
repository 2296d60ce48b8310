"""What can be known about a worker, and its lease as it counts it itself."""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.names import check_worker_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LEASE_MS = 3_000
HEARTBEAT_MS = 1_000


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A registered worker."""

    id: str
    lease_left_ms: int | None
    """None for a worker that has been failed and not yet been recovered everywhere."""
    about: dict[str, object] = field(default_factory=dict)
    """host, pid, started_at and what else the worker said about itself"""
    is_paused: bool = False
    """It starts nothing for now, as all workers of its name are paused."""

    @property
    def name(self) -> str:
        return worker_name(self.id)

    @property
    def stuck_slots(self) -> int:
        """Slots taken by jobs past their timeout, whose threads cannot be ended."""
        stuck = self.about.get("stuck_slots")
        return stuck if isinstance(stuck, int) else 0

    @property
    def is_stuck(self) -> bool:
        """All its slots are taken by such jobs: it starts nothing before one of them has ended."""
        return 0 < self.slots <= self.stuck_slots

    @property
    def slots(self) -> int:
        """How many tasks or jobs it runs at a time; 0 if it has not said."""
        slots = self.about.get("concurrency")
        return slots if isinstance(slots, int) else 0

    @property
    def is_alive(self) -> bool:
        return self.lease_left_ms is not None and self.lease_left_ms >= 0


def new_worker_id(name: str | None = None) -> str:
    """An id never used before. A worker that lost its lease is dead under its id for ever, so
    each start gets a new one.
    """
    if name is None:
        host = "".join(
            c if (c.isascii() and c.isalnum()) or c in "-." else "-" for c in platform.node()
        )
        name = f"{host[:100]}.{os.getpid()}"
    return f"{check_worker_name(name)[:240]}.{secrets.token_hex(4)}"


def worker_name(worker: str) -> str:
    """How an id begins: what is the same for every start of a worker that was given a name."""
    return worker.rpartition(".")[0] or worker


def pausable_name(worker: str) -> str:
    """Workers are paused by name, as ids change with every start. The name in an id is the part
    before the random one.
    """
    check_worker_name(worker)
    begins, _, ends = worker.rpartition(".")
    is_id = len(ends) == 8 and all(c in "0123456789abcdef" for c in ends) and begins
    return worker_name(worker) if is_id else worker


class Served(NamedTuple):
    """A queue on the list of a worker."""

    queue: str
    kind: str
    """what it held when the worker joined it; empty if the list does not say"""


class Beat(list[str]):
    """The answer to a heartbeat: the dead peers that are now this worker's to recover."""

    def __init__(self, peers: Iterable[str] = (), is_paused: bool = False) -> None:
        super().__init__(peers)
        self.is_paused = is_paused
        """the worker is to start nothing for now"""


def describe_worker(**more: object) -> str:
    """What a worker says about itself when it registers."""
    return json.dumps(
        {"host": platform.node(), "pid": os.getpid(), "started_at": time.time(), **more}
    )


def with_news(about: str, news: dict[str, object]) -> str:
    """The same as it is now, with what changes while the worker lives."""
    return json.dumps({**json.loads(about), **news})


class Lease:
    """A worker's own view of its lease, on a clock that also counts while the machine sleeps.

    It counts from before each renewal was sent, so it never believes in a lease that the store has
    already ended.
    """

    def __init__(self, lease_ms: int) -> None:
        self._lease_s = lease_ms / 1000
        self._ends_at = 0.0
        self._is_lost = False

    def renewed(self, sent_at: float) -> None:
        self._ends_at = sent_at + self._lease_s

    def lose(self) -> None:
        """The store has said that the worker was failed. There is no way back from here."""
        self._is_lost = True

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def is_valid(self) -> bool:
        return not self._is_lost and lease_clock() < self._ends_at


# Asked before and after every job, so there is no function of ours around it.
if hasattr(time, "CLOCK_BOOTTIME"):
    lease_clock: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:  # macOS: its monotonic clock stops in sleep, and nothing better is offered
    lease_clock = time.monotonic
