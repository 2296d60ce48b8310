"""How long it takes until the tasks of a lost worker are back."""

from __future__ import annotations

import threading
import time
from statistics import quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    import penstock


class RecoveryWatch:
    """Looks at who holds tasks, many times a second, for the time of a `with` block."""

    def __init__(self, queue: penstock.Queue) -> None:
        self.times_s: list[float] = []
        self._queue = queue
        self._lost_at: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recovery-watch")

    def lost(self, worker: str) -> None:
        """A worker that holds tasks has just been killed or frozen."""
        self._lost_at[worker] = time.monotonic()

    @property
    def pending(self) -> int:
        return len(self._lost_at)

    def __enter__(self) -> RecoveryWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            lost = list(self._lost_at)
            held = self._queue.inspect().held
            for worker in lost:
                if worker not in held:
                    self.times_s.append(time.monotonic() - self._lost_at.pop(worker))


def summary(times_s: list[float]) -> str:
    if len(times_s) < 2:
        return f"{times_s} s"
    cuts = quantiles(times_s, n=100, method="inclusive")
    return f"p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, max {max(times_s):.2f} s"
