"""Groups of consumers as people look at them: each partition with its owner, offset and lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import GroupNotFound, InvalidArgument, WrongKind
from penstock.model.workers import worker_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.client import Penstock
    from penstock.client.log import Log
    from penstock.model.logs import Lag, LogInfo, Reader


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a group has to do with one partition. None: it has not begun to read it."""

    partition: int
    owner: str | None
    worker: str
    """alive, lapsed: its lease has run out; gone: it is not registered; empty: no owner"""
    epoch: int | None
    offset: str | None
    messages: int | None
    seconds: float | None
    is_paused: bool
    errors: int
    crashes: int
    """of owners at this offset"""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group in all partitions of its log."""

    log: str
    group: str
    partitions: tuple[PartitionState, ...]

    @property
    def workers(self) -> int:
        """Living workers that own a partition."""
        return len({one.owner for one in self.partitions if one.worker == "alive"})

    @property
    def messages(self) -> int:
        return sum(one.messages or 0 for one in self.partitions)

    @property
    def seconds(self) -> float:
        return max((one.seconds or 0.0 for one in self.partitions), default=0.0)

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.partitions)

    @property
    def paused(self) -> int:
        return sum(one.is_paused for one in self.partitions)


def group_names(info: LogInfo) -> list[str]:
    """All groups of a log; a reader without an epoch is none."""
    readers = {one.name for part in info.partitions for one in part.readers if one.epoch}
    return sorted(readers.union(info.groups))


def check_reader(info: LogInfo, reader: str) -> None:
    """Raises GroupNotFound if nobody of this name has ever read the log."""
    known = {one.name for part in info.partitions for one in part.readers}.union(info.groups)
    if reader not in known:
        raise GroupNotFound(
            f"no group {reader!r} reads log {info.name!r} (those that do: "
            f"{', '.join(sorted(known)) or 'none'}); check the name, or start a worker with a "
            "consumer of this group"
        )


def check_group(info: LogInfo, name: str) -> None:
    """Raises GroupNotFound, or WrongKind if it is another kind of reader."""
    check_reader(info, name)
    if name not in group_names(info):
        raise WrongKind(
            f"{name!r} reads log {info.name!r} by itself, such as an archive or a query of Spark, "
            "and says itself how far it has come; this is for groups of consumers"
        )


def chosen_partitions(info: LogInfo, partition: int | None) -> list[int]:
    """The numbers of one partition or of all. Raises InvalidArgument if there is no such one."""
    count = len(info.partitions)
    if partition is not None and partition >= count:
        raise InvalidArgument(
            f"partition is {partition}; log {info.name!r} has partitions 0 to {count - 1}"
        )
    return list(range(count)) if partition is None else [partition]


def known_workers(client: Penstock) -> dict[str, str]:
    """Worker -> alive or lapsed."""
    return {info.id: "alive" if info.is_alive else "lapsed" for info in client.workers()}


def living_workers(client: Penstock) -> set[str]:
    return {id for id, state in known_workers(client).items() if state == "alive"}


def look_at_group(log: Log, info: LogInfo, name: str, workers: Mapping[str, str]) -> GroupState:
    """A group that is known. Its partitions are looked at one after the other."""
    group = log.group(name)
    paused = set(group.paused())
    lags = {lag.partition: lag for lag in group.lag()}
    found = []
    for part in info.partitions:
        reader = next((one for one in part.readers if one.name == name), None)
        about = lags.get(part.number), part.number in paused, group.count_errors(part.number)
        found.append(_state(part.number, reader, workers, *about))
    return GroupState(info.name, name, tuple(found))


def _state(
    number: int,
    reader: Reader | None,
    workers: Mapping[str, str],
    lag: Lag | None,
    is_paused: bool,
    errors: int,
) -> PartitionState:
    owner = (reader.owner or None) if reader else None
    return PartitionState(
        partition=number,
        owner=owner,
        # A member of a group is named after its worker, with a number behind it.
        worker=workers.get(worker_name(owner), "gone") if owner else "",
        epoch=reader.epoch if reader else None,
        offset=reader.offset if reader else None,
        messages=lag.messages if lag else None,
        seconds=lag.seconds if lag else None,
        is_paused=is_paused,
        errors=errors,
        crashes=reader.deaths.crashes if reader else 0,
    )
