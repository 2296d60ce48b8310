"""Queues are taken up and given up while a worker runs, and the others notice nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.model.retries import fixed
from penstock.worker.feed import Feed
from penstock.worker.pump import Pump
from penstock.worker.sources.tasks import TaskSource
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import penstock
    from penstock.client.session import AsyncWorkerSession
    from tests.running_worker import RunningWorker
    from tests.worker.conftest import Recorder


class Visitor:
    """Takes up a second queue in the name of a running worker."""

    def __init__(self, running: RunningWorker) -> None:
        self._running = running
        self._pump: Pump | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def take_up(self, queue: str, handle: Callable[..., Any]) -> None:
        self._run(self._take_up(queue, handle))

    def give_up(self) -> None:
        worker = self._running.worker
        assert worker is not None and self._pump is not None
        self._run(worker.serving.withdraw([self._pump], self._tasks))

    async def _take_up(self, queue: str, handle: Callable[..., Any]) -> None:
        worker = self._running.worker
        assert worker is not None
        client, executor = worker._client, worker._executor.threads
        session: AsyncWorkerSession = client.worker()
        session.id, session.lease = worker.id, worker.serving.pumps[0].source.lease
        await session.start_work(queue)
        source = TaskSource(
            *(client.keys.queue(queue), worker.id, session.lease, handle, 1000, fixed(0), {})
        )
        self._pump = Pump(Feed(source, executor), client, executor, worker.serving)
        self._tasks = worker.serving.serve([self._pump])

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._running._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._running._loop).result(20)


def test_a_queue_comes_and_goes_while_another_is_served(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker], recorder: Recorder
) -> None:
    mail, extra = ps.queue("mail"), ps.queue("extra")
    running = start_worker({"mail": recorder})
    visitor = Visitor(running)
    extra.enqueue(b"waits")

    visitor.take_up("extra", recorder)
    wait_for(lambda: recorder.tasks == [b"waits"])
    extra.enqueue(b"wakes it")
    mail.enqueue(b"mail")
    wait_for(lambda: set(recorder.tasks) == {b"waits", b"wakes it", b"mail"})

    visitor.give_up()
    extra.enqueue(b"nobody's")
    mail.enqueue(b"more mail")
    wait_for(lambda: b"more mail" in recorder.tasks)

    assert extra.page().tasks == [b"nobody's"]
    assert running.worker is not None
    wait_for(lambda: running.worker and running.worker.totals.finished == 4)
