"""Signals that stop a worker, while it runs."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.worker.stop_requests import StopRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import FrameType

    from penstock.worker.event_loop import WorkerLoop
    from penstock.worker.shared_memory import SharedMemory
    from penstock.worker.worker import Worker


@contextmanager
def stopped_by(
    signals: Collection[signal.Signals],
    worker: Worker,
    loop: WorkerLoop,
    shared: SharedMemory,
    at_once: Callable[[], None] = lambda: None,
    restores: bool = True,
) -> Iterator[None]:
    """Signals only set a flag; the worker acts on it where nothing is half done. `at_once` is
    called in the signal handler, as the loop may be blocked.
    """
    requests = StopRequests(shared)

    def stop() -> None:
        for _ in range(requests.heard()):
            worker.stop()

    def hear(signum: int, frame: FrameType | None) -> None:
        at_once()
        loop.call(stop)

    _keep_from_children(signals)
    before = {signum: signal.signal(signum, hear) for signum in signals}
    try:
        yield
    finally:
        if restores:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def _keep_from_children(signals: Collection[signal.Signals]) -> None:
    """A process that a handler forks would tell its signals to this worker's event loop.

    So it forgets that it ever listened, and signals wait until it has.
    """
    masks: list[set[signal.Signals]] = []

    def hold_back() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, signals))  # type: ignore[arg-type]

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    def forget() -> None:
        signal.set_wakeup_fd(-1)
        for signum in signals:
            is_key = signum == signal.SIGINT
            signal.signal(signum, signal.default_int_handler if is_key else signal.SIG_DFL)
        let_through()

    if signals:
        os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=forget)
