"""Values that JSON has no word for, on their way to a real worker and back."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.functions import JobFunction
    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer

    Serve = Callable[..., RunningWorker]

DAY = timedelta(days=1)


@penstock.job(queue="mail", type="thread")
def in_thread(day: date, data: bytes) -> tuple[date, bytes]:
    return day + DAY, data + b"\xff"


@penstock.job(queue="mail", type="coroutine")
async def in_coroutine(day: date, data: bytes) -> tuple[date, bytes]:
    await asyncio.sleep(0)
    return day + DAY, data + b"\xff"


@penstock.job(queue="mail", type="process", process=True)
def in_process(day: date, data: bytes) -> tuple[date, bytes]:
    return day + DAY, data + b"\xff"


@penstock.job(queue="mail", type="raw", raw=True)
def raw(data: bytes) -> bytes:
    return data[::-1]


@pytest.mark.parametrize(
    "function", (in_thread, in_coroutine, in_process), ids=lambda function: function.type
)
def test_arguments_and_results_are_what_the_annotations_say(
    ps: penstock.Penstock, serve: Serve, function: JobFunction[..., Any]
) -> None:
    serve(function)

    job = function.on(ps).send(date(2026, 12, 31), b"\x00")
    by_name = ps.jobs("mail").add(function.type, {"day": date(2026, 1, 1), "data": "AA=="})

    assert job.result(20) == (date(2027, 1, 1), b"\x00\xff")
    assert by_name.result(20) == ["2026-01-02", "AP8="]  # the sender knows no annotations


def test_a_raw_job_gets_the_bytes_that_were_sent(ps: penstock.Penstock, serve: Serve) -> None:
    serve(raw)

    job = raw.on(ps).send(b"\x00\xff{")
    by_name = ps.jobs("mail").add("raw", b"[[1]]")

    assert job.info().data == b"\x00\xff{"
    assert job.result(20) == b"{\xff\x00"
    assert by_name.result(20) == b"]]1[["


def test_async_senders_read_results_alike(
    server: RedisServer, namespace: str, serve: Serve
) -> None:
    async def send() -> list[tuple[date, bytes]]:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            one = await in_thread.on(ps).send(date(2026, 1, 1), b"")
            (many,) = await in_thread.on(ps).send_many([(date(2026, 1, 2), b"")])
            return [await one.result(20), await many.result(20)]

    serve(in_thread)

    assert asyncio.run(send()) == [(date(2026, 1, 2), b"\xff"), (date(2026, 1, 3), b"\xff")]
