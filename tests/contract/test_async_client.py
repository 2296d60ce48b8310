"""The async client: the same flow as everywhere, once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.servers import RedisCluster, RedisServer


@pytest.fixture
def flow(
    any_store: RedisServer | RedisCluster, namespace: str
) -> Callable[[Callable[[penstock.AsyncPenstock], Any]], Any]:
    """Runs a coroutine with a client."""

    def run(act: Callable[[penstock.AsyncPenstock], Any]) -> Any:
        async def connected() -> Any:
            async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
                return await act(client)

        return asyncio.run(connected())

    return run


def test_a_task_goes_all_the_way(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> None:
        queue = ps.queue("mail")
        await queue.enqueue(b"a")
        assert await queue.enqueue_many([b"b", b"c", b"d"]) == 3
        assert (await queue.enqueue_unique(b"e")).is_new
        assert await queue.cancel(b"c") == 1
        async with ps.worker("bee") as worker:
            await worker.start_work("mail")
            first, second, third = await worker.start_tasks("mail", 3)
            assert [first.task, second.task, third.task] == [b"a", b"b", b"d"]
            await first.finish(b"result")
            await second.stop()
            assert await third.fail() is False
            assert await queue.page() == ([b"b", b"e", b"d"], 3)
            with pytest.raises(penstock.LeaseLost):
                await first.finish()
            [info] = await ps.workers()
            assert info.id == worker.id
            await worker.start_task("mail")

        assert await queue.peek() == b"b"
        assert await ps.queues() == ["mail"]
        state = await queue.inspect()
        assert (state.ready, state.running, state.counters.finished) == (3, 0, 1)
        assert (await queue.delete()).removed == 3
        assert await ps.inspect() == []

    flow(act)


def test_requests_of_one_client_run_beside_each_other(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> penstock.QueueState:
        queue = ps.queue("mail")
        await asyncio.gather(*(queue.enqueue(b"%d" % number) for number in range(100)))
        async with ps.worker() as worker:
            await worker.start_work("mail")
            batches = await asyncio.gather(*(worker.start_tasks("mail", 7) for _ in range(10)))
            started = [process for batch in batches for process in batch]
            assert len({process.task for process in started}) == 70
            await asyncio.gather(*(process.finish() for process in started))
        return await queue.inspect()

    state = flow(act)

    assert (state.ready, state.counters.enqueued, state.counters.finished) == (30, 100, 70)


def test_a_failed_worker_learns_it_and_its_task_goes_back(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> list[bytes]:
        queue = ps.queue("mail")
        await queue.enqueue(b"a")
        async with ps.worker() as worker:
            await worker.start_work("mail")
            [process] = await worker.start_tasks("mail")
            assert await ps.fail_worker(worker.id) == (1, 0)
            with pytest.raises(penstock.LeaseLost):
                await process.finish()
        return (await queue.page()).tasks

    assert flow(act) == [b"a"]


def test_events_arrive(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> penstock.Event:
        queue = ps.queue("mail")
        events = await queue.events("work")
        await queue.enqueue(b"a")
        event = await anext(events)
        await events.aclose()
        return event

    assert flow(act) == penstock.Event("work", "mail", count=1)


def test_a_function_is_scheduled_with_its_options(flow: Callable[..., Any]) -> None:
    @penstock.job(queue="mail", attempts=5)
    def email(to: str) -> None: ...

    async def act(ps: penstock.AsyncPenstock) -> tuple[object, ...]:
        schedules = ps.schedules("mail")
        await schedules.add("hourly", email, {"to": "ann"}, every=3600, priority="high")
        job = await (await schedules.run("hourly")).info()
        return job.type, job.attempts, job.priority

    assert flow(act) == ("email", 5, -10)


def test_events_of_jobs_are_heard_from_the_call_on(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> list[object]:
        mail = ps.jobs("mail")
        events = await mail.events(timeout_s=5)
        job = await mail.add("email")
        await job.cancel()
        heard: list[object] = [(await anext(events)).kind for _ in range(2)]
        await events.aclose()
        return heard

    assert flow(act) == ["enqueued", "cancelled"]


def test_properties_of_a_job_are_awaited(flow: Callable[..., Any]) -> None:
    async def act(ps: penstock.AsyncPenstock) -> None:
        job = await ps.jobs("mail").add("email")
        assert await job.state == "ready"
        assert await job.progress is None
        with pytest.raises(TypeError, match=r"write `await job.state`"):
            assert job.state == "ready"  # type: ignore[comparison-overlap]

    flow(act)
