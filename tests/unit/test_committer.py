"""How far a partition has come is written behind the work: one write at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from penstock.worker.committer import Committer


class Slow:
    """A coordinator whose writes wait until they are let through."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def commit(self, offset: str) -> None:
        self.begun.append(offset)
        self.has_begun.set()
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1


def test_what_comes_while_a_write_is_under_way_goes_with_the_next() -> None:
    async def work() -> None:
        slow = Slow()
        committer = Committer(slow.commit, 0.0, "0-0")
        keeping = asyncio.create_task(committer.keep())
        committer.advanced("1-0")
        await slow.has_begun.wait()
        for number in range(2, 9):
            committer.advanced(f"{number}-0")
        flushing = asyncio.create_task(committer.flush())
        slow.gate.set()
        await flushing
        assert slow.begun == ["1-0", "8-0"]
        assert slow.most == 1
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(work())


def test_where_batches_are_quicker_than_writes_there_is_one_write_in_each_period() -> None:
    async def work() -> None:
        begun: list[str] = []

        async def commit(offset: str) -> None:
            begun.append(offset)
            committer.advanced(f"{len(begun) + 1}-0")  # the next batch ends meanwhile
            await asyncio.sleep(0)

        committer = Committer(commit, 3600.0, "0-0")
        keeping = asyncio.create_task(committer.keep())
        committer.advanced("1-0")
        for _ in range(100):
            await asyncio.sleep(0)
        assert begun == ["1-0"]
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(work())


def test_what_is_written_is_not_written_again_but_to_say_that_the_group_is_alive() -> None:
    async def work() -> None:
        slow = Slow()
        slow.gate.set()
        committer = Committer(slow.commit, 0.0, "5-0", alive_s=0.01)
        await committer.flush()
        assert slow.begun == []
        keeping = asyncio.create_task(committer.keep())
        await slow.has_begun.wait()
        assert set(slow.begun) == {"5-0"}
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(work())
