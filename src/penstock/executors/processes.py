"""Runs jobs in child processes, which can be ended."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, cast

from penstock.executors.backlog import Backlog
from penstock.executors.process_slot import Closing, ProcessSlot

if TYPE_CHECKING:
    from penstock.executors.context import Context
    from penstock.executors.process_slot import ProcessJob

CANCEL_GRACE_S = 5.0
_CLOSE_S = 5.0


class ProcessExecutor(Backlog):
    """A fixed number of slots, each with a child process that runs one job at a time.

    A child is started when its slot gets its first job, and kept; it imports `modules` first. When
    it dies, or had to be ended because of a timeout or a cancel, the next job gets a new one.
    """

    def __init__(
        self, slots: int, modules: list[str], cancel_grace_s: float = CANCEL_GRACE_S
    ) -> None:
        super().__init__(slots)
        self._modules = modules
        self._cancel_grace_s = cancel_grace_s
        self._slots: list[ProcessSlot] = []
        self._threads: list[threading.Thread] = []
        self._is_closing = False

    def start(self) -> None:
        for n in range(self.slots):
            slot = ProcessSlot(self._modules, self._cancel_grace_s)
            name = f"penstock-process-{n}"
            thread = threading.Thread(target=self._serve, args=(slot,), name=name, daemon=True)
            self._slots.append(slot)
            self._threads.append(thread)
            thread.start()

    def cancel(self, context: Context) -> None:
        """Tell the job, and end its process if it still runs after the grace time."""
        context.cancel()
        for slot in self._slots:
            slot.cancel(context)

    def close(self) -> None:
        """End the processes at once, with everything that they have started. Nothing more is told
        of their jobs.
        """
        self._is_closing = True
        for slot in self._slots:
            slot.close()
        self._call_threads(len(self._slots))
        deadline = perf_counter() + _CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - perf_counter()))

    def _serve(self, slot: ProcessSlot) -> None:
        try:
            while not self._is_closing:
                context = self._wait_and_take()
                if context is None:
                    continue
                self._running.add(context)
                tell = slot.perform(cast("ProcessJob", context))
                self.moved_at = perf_counter()
                # The slot is free before the outcome is told, so that the worker can fill it at
                # once.
                self._running.discard(context)
                tell()
        except Closing:
            pass
        finally:
            slot.end()
