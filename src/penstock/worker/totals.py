"""What a worker has done since it was started."""

from __future__ import annotations

import asyncio
import json
import logging
import platform
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from penstock.worker.worker import Worker

log = logging.getLogger("penstock.worker")

_WRITE_EVERY_S = 1.0


class Totals(NamedTuple):
    """Tasks and jobs of all queues, under all ids that the worker has had."""

    finished: int = 0
    failed: int = 0
    """attempts that ended with an error"""
    refused: int = 0
    """results that came too late, as the task had been taken away"""

    def plus(self, finished: int, failed: int, refused: int) -> Totals:
        return Totals(self.finished + finished, self.failed + failed, self.refused + refused)


class Report:
    """A file that says what a worker has done, as JSON: there from the moment when the worker has
    joined its queues, renewed every second, and complete when the worker has ended. It is always
    whole, as each version replaces the one before in one step.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began_at = time.monotonic()
        self._written: Totals | None = None

    async def keep_while(self, worker: Worker, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a worker, and write what comes of it."""
        worker.events.joined = lambda: self._write(worker)
        keeping = asyncio.create_task(self._keep(worker))
        try:
            await work
        finally:
            keeping.cancel()
            if worker.id:
                self._write(worker)

    async def _keep(self, worker: Worker) -> None:
        while True:
            await asyncio.sleep(_WRITE_EVERY_S)
            if worker.id and worker.totals != self._written:
                self._write(worker)

    def _write(self, worker: Worker) -> None:
        document = {
            "worker": worker.id,
            "host": platform.node(),
            **worker.totals._asdict(),
            "seconds": round(time.monotonic() - self._began_at, 3),
        }
        draft = self._path.with_name(self._path.name + ".new")
        try:
            draft.write_text(json.dumps(document))
            draft.replace(self._path)
        except OSError as error:
            # Work matters more than its report.
            log.warning("report not written path=%s error=%s", self._path, error)
        else:
            self._written = worker.totals
