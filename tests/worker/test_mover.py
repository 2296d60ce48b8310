"""Workers finish what a writer that died has decided."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.connection.log_batches import append_batch
from penstock.connection.staging import adecide_batch, astage_chunk
from penstock.model.staging import Stage
from penstock.store.commands import log_batches
from penstock.store.commands.staging import stage_chunk
from penstock.worker.handlers import collect_handlers
from penstock.worker.mover import finish_batches, finish_log_batches
from tests.running_worker import RunningWorker, stopped_in_the_end
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import RedisServer


async def leave_a_batch(ps: penstock.AsyncPenstock, rows: int) -> None:
    """Decides a batch of chunks of two tasks, and moves nothing."""
    keys = ps.keys.queue("mail")
    for index in range(rows // 2):
        chunk = pack_chunk([b"%d" % row for row in (2 * index, 2 * index + 1)])
        await astage_chunk(ps.store, keys, "batch", "stage", index, chunk, 10_000)
    stages = [Stage("stage", rows // 2, rows, 1)]
    await adecide_batch(ps.store, ps.keys, "mail", "tasks", "batch", 0, stages)


def test_what_was_decided_and_left_is_moved_as_room_comes(
    server: RedisServer, namespace: str
) -> None:
    async def story() -> list[bytes]:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            queue = ps.queue("mail")
            await queue.configure(max_length=3)
            await leave_a_batch(ps, 10)
            mover = asyncio.create_task(
                finish_batches(ps.store, ps.keys.queue("mail"), "tasks", every_s=0.01)
            )
            done: list[bytes] = []
            async with ps.worker() as worker:
                await worker.start_work("mail")
                while len(done) < 10:
                    for process in await worker.start_tasks("mail", 2):
                        done.append(process.task)
                        await process.finish()
                    await asyncio.sleep(0)
            mover.cancel()
            with suppress(asyncio.CancelledError):
                await mover
            return done

    assert asyncio.run(asyncio.wait_for(story(), 60)) == [b"%d" % row for row in range(10)]


def test_a_batch_that_cannot_be_read_does_not_end_the_worker(
    server: RedisServer, namespace: str
) -> None:
    async def story() -> bool:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            await leave_a_batch(ps, 2)
            stage = ps.keys.queue("mail").stage("stage")
            await ps.store.call(stage, "HSET", stage, "0", "no chunk")
            mover = asyncio.create_task(
                finish_batches(ps.store, ps.keys.queue("mail"), "tasks", every_s=0.001)
            )
            await asyncio.wait([mover], timeout=0.3)
            is_alive = not mover.done()
            mover.cancel()
            return is_alive

    assert asyncio.run(story())


def test_a_running_worker_moves_what_was_left(
    server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried = partial(finish_batches, every_s=0.01)
    monkeypatch.setattr("penstock.worker.serving.finish_batches", hurried)
    done: list[bytes] = []

    async def prepare() -> None:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            await leave_a_batch(ps, 4)

    def handle(task: bytes, context: penstock.Context) -> None:
        done.append(task)

    asyncio.run(prepare())
    with (
        penstock.connect(server.url, namespace=namespace) as ps,
        stopped_in_the_end() as started,
    ):
        started.append(RunningWorker(ps.settings, {"mail": handle}).start())
        wait_for(lambda: len(done) == 4, 60)

    assert sorted(done) == [b"0", b"1", b"2", b"3"]


class Died(Exception):
    """Instead of the writer."""


def test_a_worker_that_reads_a_log_moves_what_was_left(
    ps: penstock.Penstock,
    start_worker: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurried = partial(finish_log_batches, every_s=0.01)
    monkeypatch.setattr("penstock.worker.group_reading.finish_log_batches", hurried)
    clicks = ps.log("clicks", partitions=3)
    clicks.configure(partitions=3)
    leave_messages(ps, monkeypatch)
    assert [message.body for message in clicks.read()] == []
    read: list[bytes] = []

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    start_worker(collect_handlers([consumer]))

    wait_for(lambda: len(read) == 6, 60)
    assert sorted(read) == [b"00", b"01", b"10", b"11", b"20", b"21"]


def leave_messages(ps: penstock.Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decides a batch of two chunks of each partition of a log, and moves nothing."""
    keys, born = ps.keys.queue("clicks"), ps.log("clicks").facts().born
    for number in range(3):
        for index in range(2):
            chunk = pack_chunk([b"%d%d" % (number, index), b"", b"", b""])
            part = keys.partition(number)
            ps.store.run(stage_chunk(part, "batch", "stage", index, chunk, 10_000))

    def die(*given: object) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(log_batches, "move_messages", die)
        stages = {number: {"stage": 2} for number in range(3)}
        append_batch(ps.store, keys, born, "batch", 0, stages)
