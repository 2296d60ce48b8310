"""What consumers did, as they wrote it down, and the proof that it was right."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Batch(NamedTuple):
    """Messages that a consumer was given."""

    partition: int
    epoch: int
    pid: int
    ids: tuple[str, ...]


class Entry(NamedTuple):
    """One line."""

    what: str
    at: float
    """on a clock that all processes of the machine share"""
    batch: Batch


class LogJournal:
    """A file that several processes write to, each line in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, what: str, batch: Batch) -> None:
        line = json.dumps([what, time.monotonic(), *batch]) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> list[Entry]:
        if not self._path.exists():
            return []
        lines = map(json.loads, self._path.read_text().splitlines())
        return [
            Entry(what, at, Batch(partition, epoch, pid, tuple(ids)))
            for what, at, partition, epoch, pid, ids in lines
        ]


def check(entries: Sequence[Entry], appended: Mapping[int, list[str]], frozen: set[int]) -> None:
    """No message was skipped, none was processed by two owners at once, and epochs never went back.
    `frozen`: processes that were stopped in mid-batch, whose last batch may end at any time.
    """
    for partition, ids in appended.items():
        mine = [entry for entry in entries if entry.batch.partition == partition]
        _check_order(mine, ids)
        _check_owners(mine, frozen)


def _check_order(entries: list[Entry], ids: list[str]) -> None:
    """Each batch begins at most right behind what has been done before, and all is done."""
    places = {id: place for place, id in enumerate(ids)}
    reached = 0
    newest = 0
    for what, _, batch in entries:
        first, last = places[batch.ids[0]], places[batch.ids[-1]]
        assert batch.ids == tuple(ids[first : last + 1]), f"not in order: {batch}"
        if what == "begin":
            assert first <= reached, f"skipped {ids[reached:first]} before {batch}"
            assert batch.epoch >= newest, f"epoch {newest} was followed by {batch}"
            newest = batch.epoch
        elif batch.epoch == newest:
            reached = max(reached, last + 1)
    assert reached == len(ids), f"never handled: {ids[reached:]}"


def _check_owners(entries: list[Entry], frozen: set[int]) -> None:
    """A batch is under way nowhere else."""
    running: dict[Batch, float] = {}
    for what, at, batch in entries:
        if what == "end":
            running.pop(batch, None)
            continue
        for other in running:
            # The last of a process that was killed never ends.
            is_over = other.epoch < batch.epoch and other.pid != batch.pid
            assert is_over, f"{other} was under way when {batch} began"
        running[batch] = at
    ends = {entry.batch: entry.at for entry in entries if entry.what == "end"}
    for what, at, batch in entries:
        for other, ended_at in ends.items():
            is_older = other.epoch < batch.epoch and other.pid not in frozen
            if what == "begin" and is_older:
                assert ended_at < at, f"{other} was under way when {batch} began"
