"""The client for tests: its namespace, its clock, and what it says about jobs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from penstock import job
from penstock.client.default import default_async_client, default_client
from penstock.errors import InvalidArgument, InvalidUrl
from penstock.testing import AsyncTestPenstock, Call, TestPenstock
from tests.testing import shop

if TYPE_CHECKING:
    from tests.servers import RedisServer


@job
def resize(name: str, width: int = 100) -> str:
    return f"{name}@{width}"


@job
async def fetch(url: str) -> str:
    await asyncio.sleep(0)
    await resize.asend(url)
    return url


def test_the_clock_stands_still_until_it_is_moved(penstock: TestPenstock) -> None:
    began_at = penstock.now

    penstock.jobs("default").add("work")
    penstock.advance(90)
    penstock.advance(timedelta(days=1))

    assert penstock.now == began_at + timedelta(days=1, seconds=90)
    assert penstock.sent()[0].created_at == began_at.timestamp()


def test_the_clock_begins_where_the_real_one_is(penstock: TestPenstock) -> None:
    assert abs(datetime.now(UTC) - penstock.now) < timedelta(minutes=1)


def test_a_time_without_a_zone_is_refused(penstock: TestPenstock) -> None:
    with pytest.raises(InvalidArgument, match="has no time zone; give one"):
        penstock.set_clock(datetime(2030, 1, 1))


def test_clients_on_one_server_have_clocks_of_their_own(penstock_server: str) -> None:
    with TestPenstock(penstock_server).open() as one, TestPenstock(penstock_server).open() as other:
        one.jobs("mail").add("work", delay=60)
        other.jobs("mail").add("work", delay=60)

        one.advance(3600)

        assert one.jobs("mail").add("work").info().created_at == one.now.timestamp()
        assert other.jobs("mail").add("work").info().created_at == other.now.timestamp()


def test_functions_send_here_while_the_client_is_open(penstock_server: str) -> None:
    with TestPenstock(penstock_server).open() as outer:
        with TestPenstock(penstock_server).open() as inner:
            assert default_client() is inner
            assert asyncio.run(default_async_client()) is inner.async_client
        assert default_client() is outer


def test_nothing_is_left_of_a_closed_client(server: RedisServer) -> None:
    with TestPenstock(server.url).open() as client:
        resize.send("a.png")
        client.run_all(resize)
        namespace = client.settings.namespace

    assert server.client.keys(f"*{namespace}*") == []


def test_a_cluster_cannot_have_a_clock_of_its_own() -> None:
    with pytest.raises(InvalidUrl, match="is a cluster; give redis://"):
        TestPenstock("redis+cluster://localhost:7000")


def test_jobs_are_listed_in_the_order_in_which_they_were_sent(penstock: TestPenstock) -> None:
    later = resize.options(delay=60).send("a.png")
    packed = shop.pack.send(2)
    done = resize.send("b.png", width=5)

    penstock.run_all(until=0)

    assert [info.id for info in penstock.sent()] == [later.id, packed.id, done.id]
    assert [info.id for info in penstock.sent("resize")] == [later.id, done.id]
    assert [info.id for info in penstock.pending()] == [later.id, packed.id]
    assert [info.id for info in penstock.pending(shop.pack)] == [packed.id]


def test_the_arguments_of_what_was_sent_can_be_compared(penstock: TestPenstock) -> None:
    resize.send("a.png")
    resize.send("b.png", width=5)

    assert penstock.calls(resize) == [Call(("a.png",), {}), Call(("b.png",), {"width": 5})]


def test_more_jobs_than_fit_on_a_page_are_listed(penstock: TestPenstock) -> None:
    sent = resize.send_many([(str(index),) for index in range(1100)])

    assert [info.id for info in penstock.pending()] == [each.id for each in sent]


def test_plain_tasks_can_be_taken_by_hand(penstock: TestPenstock) -> None:
    penstock.queue("mail").enqueue(b"hello")

    with penstock.worker() as worker:
        worker.start_work("mail")
        process = worker.start_task("mail")
        assert process is not None
        process.finish()

    assert penstock.queue("mail").count() == 0


def test_coroutines_have_the_same(apenstock: AsyncTestPenstock) -> None:
    async def test() -> None:
        began_at = apenstock.now
        sent = await fetch.options(delay=60).asend("x")
        apenstock.crash(sent)
        apenstock.lose_reply("start_jobs")

        summary = await apenstock.run_all()

        assert await sent.result(timeout=5) == "x"
        assert (len(summary.done), summary.crashed) == (2, [sent.id])
        assert [info.type for info in await apenstock.sent()] == ["fetch", "resize"]
        assert await apenstock.pending() == []
        assert await apenstock.calls(fetch) == [Call(("x",), {})]
        assert await apenstock.advance(5) > began_at + timedelta(seconds=68)
        apenstock.register(shop)
        await apenstock.jobs("shop").add("pack", {"items": 2})
        assert len((await apenstock.run_all()).done) == 1
        assert await apenstock.set_clock(began_at) == began_at

    asyncio.run(test())


def test_coroutines_of_several_loops_can_use_one_client(apenstock: AsyncTestPenstock) -> None:
    for name in ("a", "b"):
        asyncio.run(apenstock.jobs("default").add("resize", {"name": name}))

    assert len(asyncio.run(apenstock.run_all()).done) == 2


def test_coroutine_functions_run_on_the_loop_of_the_test(apenstock: AsyncTestPenstock) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @job
    async def look() -> None:
        loops.append(asyncio.get_running_loop())

    async def test() -> None:
        loops.append(asyncio.get_running_loop())
        await look.asend()
        await apenstock.run_all(look)

    asyncio.run(test())

    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_a_run_that_is_cancelled_gives_its_job_back(apenstock: AsyncTestPenstock) -> None:
    @job
    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    async def test() -> None:
        sent = await wait.asend()
        run = asyncio.create_task(apenstock.run_all(wait))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await sent.state == "ready"

    began = asyncio.Event()
    asyncio.run(test())


def test_the_blocking_client_says_so_where_a_loop_runs(penstock: TestPenstock) -> None:
    async def test() -> None:
        fetch.send("x")
        with pytest.raises(InvalidArgument, match=r"await apenstock.run_all\(\)"):
            penstock.run_all()

    asyncio.run(test())
