"""A log through clients: what is lost on the way is sent again once, and async does the same."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client.fsck import check
from penstock.store.script import load
from tests.proxy import Fault, FaultProxy, match_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisCluster, RedisServer

FAULTS = (Fault.LOSE_REPLY, Fault.LOSE_REQUEST, Fault.CUT_MID_REPLY, Fault.DUPLICATE)


@pytest.fixture
def proxy(server: RedisServer, namespace: str) -> Iterator[FaultProxy]:
    with FaultProxy(server.folder, server.socket, record=1000, name=f"{namespace}.sock") as proxy:
        yield proxy


@pytest.mark.stores("debian")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("path", ["put_log", "open_partition", "append_messages"])
def test_a_message_is_one_whatever_was_lost_on_its_way(
    path: str, fault: Fault, proxy: FaultProxy, ps: penstock.Penstock, namespace: str
) -> None:
    rule = proxy.plan(fault, 2, match_script(load(f"logs/{path}").text()))
    with penstock.connect(f"unix://{proxy.path}", namespace=namespace) as client:
        log = client.log("clicks", partitions=2)
        log.append(b"one", partition=1)
        log.append_many([b"two", b"three"])

    assert rule.hits > 0
    assert sorted(message.body for message in ps.log("clicks").read()) == [b"one", b"three", b"two"]
    assert ps.queues() == ["clicks"]
    assert check(ps).violations == []


def test_the_async_client_does_the_same(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    async def act() -> None:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as ps:
            log = ps.log("clicks", partitions=2)
            await log.append(b"one", key="k")
            assert await log.append_many([b"two", b"three"]) == 2
            assert len([message async for message in await log.read()]) == 3
            group = log.group("sessions")
            await group.join()
            taken = await group.take(0, "w1")
            found = await log.page(0, after=taken.offset)
            await group.commit(0, taken.epoch, found[-1].id)
            assert [lag.messages for lag in await group.lag()] == [0]
            await log.configure(keep_count=1)
            assert (await log.trim()).messages == 0
            assert await log.delete() == 3

    asyncio.run(act())


def test_a_reader_that_follows_gets_what_is_appended_meanwhile(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=3)
    log.append(b"before")
    following = log.follow(timeout_s=20)
    found: list[bytes] = []

    def follow() -> None:
        for message in following:
            found.append(message.body)
            if len(found) == 30:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    for index in range(30):
        log.append(b"%d" % index)
    reader.join(20)
    following.close()

    assert sorted(found) == sorted(b"%d" % index for index in range(30))
