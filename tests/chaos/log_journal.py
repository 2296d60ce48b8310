"""What consumers did, as they wrote it down, and the proof that it was right."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.log_promises import Batch, PartitionReading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


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
    ended = {entry.batch for entry in entries if entry.what == "end"}

    def may_go_on(batch: Batch, other: Batch) -> bool:
        is_older = batch.epoch < other.epoch and batch.pid != other.pid
        # The last of a process that was killed never ends.
        return is_older and (batch.pid in frozen or batch not in ended)

    for partition, ids in appended.items():
        reading = PartitionReading(may_go_on)
        reading.appended(ids)
        for what, _, batch in entries:
            if batch.partition == partition and what == "begin":
                reading.began(batch)
            elif batch.partition == partition:
                reading.ended(batch)
        assert not reading.left, f"never handled: {reading.left}"
