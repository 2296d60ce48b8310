"""What handlers did, in a file: executions are counted without asking the store under test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_RECORD_BYTES = 192


class Record(NamedTuple):
    """One handler began or ended one task."""

    kind: str
    """start or end"""
    task: str
    token: int
    worker: str


class Journal:
    """Records of one size, each appended with one write, so that no crash leaves half of one and
    no two writers mix theirs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, record: tuple[object, ...]) -> None:
        line = " ".join(map(str, record)).encode()
        assert len(line) < _RECORD_BYTES, "a record must have room for the worker's id"
        os.write(self._file, line.ljust(_RECORD_BYTES - 1) + b"\n")

    def read(self) -> list[Record]:
        records = []
        for line in self.path.read_text().splitlines():
            kind, task, token, worker = line.split()
            records.append(Record(kind, task, int(token), worker))
        return records

    def started(self) -> list[Record]:
        return [record for record in self.read() if record.kind == "start"]

    def ended(self) -> list[Record]:
        return [record for record in self.read() if record.kind == "end"]

    def close(self) -> None:
        os.close(self._file)
