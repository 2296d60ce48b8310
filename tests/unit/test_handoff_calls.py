"""A thread that waits for jobs is called when the others do not suffice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from penstock.executors.context import Context
from penstock.executors.threads import ThreadExecutor
from penstock.model.workers import Lease, lease_clock
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable


class QuietHandoff:
    """Nothing ever comes in here."""

    def __init__(self) -> None:
        self.is_closed = self.is_let_go = False
        self._is_called = threading.Event()

    def wait(self) -> None:
        self._is_called.wait(60)
        self._is_called.clear()

    def call(self) -> None:
        self._is_called.set()

    def close(self) -> None:
        self.is_closed = True
        self.call()

    def let_go(self) -> None:
        self.is_let_go = True


class Work:
    """Tasks that say when they have begun, and end when they may."""

    queue, worker, max_payload, is_closed = "mail", "ant", 1000, False
    resources = None

    def __init__(self) -> None:
        self.lease = Lease(60_000)
        self.lease.renewed(lease_clock())
        self.begun: list[bytes] = []
        self.may_end = threading.Event()

        self.handle: Callable[[bytes, Context], None] = self._handle

    def _handle(self, task: bytes, context: Context) -> None:
        self.begun.append(task)
        self.may_end.wait(60)

    def done(self, context: Context) -> None: ...


class LateSet(set[Any]):
    """Tasks that are counted as running a while after they were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.is_adding, self.may_add = threading.Event(), threading.Event()

    def add(self, item: Any) -> None:
        self.is_adding.set()
        self.may_add.wait(20)
        super().add(item)


def test_every_slot_is_used() -> None:
    executor, handoff, work = ThreadExecutor(2), QuietHandoff(), Work()
    late = executor._running = LateSet()
    executor.start()
    executor.attend(handoff)
    wait_for(lambda: executor._is_attended and not executor.waiting)
    try:
        executor.submit([Context(work, 1, b"first")])
        assert late.is_adding.wait(20)
        executor.submit([Context(work, 2, b"second")])
        late.may_add.set()

        wait_for(lambda: sorted(work.begun) == [b"first", b"second"])
    finally:
        work.may_end.set()
        executor.dismiss(handoff)
        executor.close()
    wait_for(lambda: handoff.is_let_go)
