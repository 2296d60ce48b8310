"""What consumers did, as they noted it themselves in a file, and what is wrong with it.

Every record has one size and is appended by one write, so those of several processes never mix, a
process killed at any instant leaves whole records only, and their order is the order in time.
"""

from __future__ import annotations

import os
import struct
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Step = Literal[b"begun", b"ended", b"refused"]

_RECORD = struct.Struct("<7sBHQIII")


class Batch(NamedTuple):
    """Messages that a consumer was given, by their numbers in the partition, from 0 on."""

    partition: int
    epoch: int
    first: int
    last: int
    size: int


class Record(NamedTuple):
    """One step of one batch."""

    step: bytes
    worker: int
    batch: Batch


class Notebook:
    """Where the consumers of one worker write."""

    def __init__(self, path: Path, worker: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._worker = worker

    def note(self, step: Step, batch: Batch) -> None:
        os.write(self._file, _RECORD.pack(step, self._worker, *batch))

    def close(self) -> None:
        os.close(self._file)


class Ledger:
    """All records so far. It keeps up with a growing file."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._file = path.open("rb", buffering=0)
        self.records: dict[int, list[Record]] = defaultdict(list)
        """by partition, in the order in which they were written"""
        self.refused: Counter[int] = Counter()
        """worker -> commits of it that the store refused"""
        self.under_way: dict[int, set[Batch]] = defaultdict(set)
        """worker -> batches that it has begun and not ended"""
        self.handled: Counter[int] = Counter()
        """partition -> messages up to the greatest that was handled"""

    def read_on(self) -> None:
        """Take in what has been written since the last time."""
        new = self._file.read()
        whole = len(new) // _RECORD.size * _RECORD.size
        # A reader can meet a write half way; the rest of that record is read next time.
        self._file.seek(whole - len(new), os.SEEK_CUR)
        for step, worker, *numbers in _RECORD.iter_unpack(new[:whole]):
            self._take(Record(step.rstrip(b"\0"), worker, Batch(*numbers)))

    def _take(self, record: Record) -> None:
        step, worker, batch = record
        self.records[batch.partition].append(record)
        if step == b"begun":
            self.under_way[worker].add(batch)
        elif step == b"ended":
            self.under_way[worker].discard(batch)
            self.handled[batch.partition] = max(self.handled[batch.partition], batch.last + 1)
        else:
            self.refused[worker] += 1

    def close(self) -> None:
        self._file.close()


class Reading(NamedTuple):
    """How one partition was read."""

    handled: int
    """messages, each counted once"""
    skipped: int
    """messages that no consumer handled, or that were passed over and handled later"""
    repeated: int
    """messages that were handled more than once"""
    problems: tuple[str, ...]


def examine(records: list[Record], appended: int, frozen: int) -> Reading:
    """Whether a partition was read from its first to its last message, by one owner at a time.

    `frozen` is the worker that was stopped in mid-batch: what it had begun may end at any time.
    """
    problems: list[str] = []
    handled = [0] * appended
    passed: set[int] = set()
    reached = newest = 0
    for step, worker, batch in records:
        if batch.last - batch.first + 1 != batch.size or batch.last >= appended:
            problems.append(f"worker {worker} was given messages that do not follow: {batch}")
        elif step == b"begun":
            passed.update(range(reached, batch.first))
            if batch.epoch < newest:
                problems.append(f"worker {worker} began after a newer owner: {batch}")
            newest = max(newest, batch.epoch)
        elif step == b"ended":
            if batch.epoch == newest:
                reached = max(reached, batch.last + 1)
            elif worker != frozen:
                problems.append(f"worker {worker} was at work beside the next owner: {batch}")
            for number in range(batch.first, batch.last + 1):
                handled[number] += 1
    unhandled = {number for number, times in enumerate(handled) if not times}
    repeated = sum(times > 1 for times in handled)
    return Reading(appended - len(unhandled), len(passed | unhandled), repeated, tuple(problems))
