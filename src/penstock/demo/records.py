"""What handlers did, as they noted it themselves in a file: the store is not asked about the store.

Every record has one size and is appended by one write, so those of several processes never mix and
a process killed at any instant leaves whole records only.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Step = Literal[b"begun", b"ended"]

_RECORD = struct.Struct("<5sBxxI")


class Notebook:
    """Where the handlers of one worker write."""

    def __init__(self, path: Path, worker: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._worker = worker

    def note(self, step: Step, task: int) -> None:
        os.write(self._file, _RECORD.pack(step, self._worker, task))

    def close(self) -> None:
        os.close(self._file)


class Ledger:
    """All records so far, counted. It keeps up with a growing file."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._file = path.open("rb", buffering=0)
        self.begun: Counter[int] = Counter()
        """task -> how often a handler began it"""
        self.ended: Counter[int] = Counter()
        """task -> how often a handler came to its end"""
        self.ended_by: Counter[int] = Counter()
        """worker -> how often one of its handlers came to its end"""

    def read_on(self) -> None:
        """Count what has been written since the last time."""
        new = self._file.read()
        whole = len(new) // _RECORD.size * _RECORD.size
        # A reader can meet a write half way; the rest of that record is read next time.
        self._file.seek(whole - len(new), os.SEEK_CUR)
        for step, worker, task in _RECORD.iter_unpack(new[:whole]):
            if step == b"begun":
                self.begun[task] += 1
            else:
                self.ended[task] += 1
                self.ended_by[worker] += 1

    @property
    def repeated(self) -> int:
        """Tasks that were begun more than once."""
        return sum(times > 1 for times in self.begun.values())

    def close(self) -> None:
        self._file.close()
