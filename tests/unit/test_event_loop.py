"""The event loop of a worker, and what jobs may leave on it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from penstock.errors import WorkerBroken
from penstock.worker.event_loop import WorkerLoop


async def catch_everything() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            continue


@pytest.mark.timeout(30)
def test_a_task_that_catches_everything_is_left_where_it_is() -> None:
    async def work() -> None:
        task = asyncio.create_task(catch_everything(), name="deaf")
        await asyncio.wait([task], timeout=0.01)

    loop = WorkerLoop()
    loop.run(work())

    assert loop.close() == ["task 'deaf'"]

    gc.collect()  # would go on for ever if it ran the task again


def test_what_the_work_raises_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise SystemError("of the work itself")

    loop = WorkerLoop()
    with pytest.raises(SystemError, match="of the work itself"):
        loop.run(work())

    assert loop.close() == []


def test_an_end_of_the_loop_is_not_an_end_of_the_work() -> None:
    async def work() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)

    loop = WorkerLoop()
    with pytest.raises(WorkerBroken, match="Event loop stopped before Future completed"):
        loop.run(work())

    assert loop.close() == []
