# Generated from _async/job_reading.py by tools/generate_sync.py. Edit that file instead.

"""Reads job records of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client._sync.job import Job
from penstock.store.commands import job_records
from penstock.store.commands.job_records import CHUNK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client._sync.client import Penstock
    from penstock.model.jobs import JobInfo


class JobReading:
    """The jobs of one queue: reads their records, and makes a handle of each."""

    def __init__(self, client: Penstock, name: str) -> None:
        self._client = client
        self._store = client.store
        self._keys = client.keys.queue(name)
        self.name = name

    def _job(self, number: int, type: str, is_new: bool = True) -> Job[Any]:
        return Job(self._client, self._keys, number, type, is_new)

    def _read(self, numbers: Sequence[int], with_data: bool) -> list[JobInfo | None]:
        found: list[JobInfo | None] = []
        for first in range(0, len(numbers), CHUNK):
            chunk = numbers[first : first + CHUNK]
            command = job_records.read_jobs(self._keys, chunk, with_data)
            infos = self._store.run(command)
            found += infos
        return found
