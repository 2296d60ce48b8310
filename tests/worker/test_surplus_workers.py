"""A worker that has no partition waits for one, and costs nothing but its heartbeats."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.worker.handlers import collect_handlers
from tests.proxy import FaultProxy
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer

pytestmark = pytest.mark.stores("debian")

BEATS_A_SECOND = 1 + 2
"""of the worker, and of the member of the group"""


def test_a_surplus_worker_sends_its_heartbeats_and_nothing_else(
    ps: penstock.Penstock,
    server: RedisServer,
    start_worker: Callable[..., RunningWorker],
    tmp_path: Path,
) -> None:
    log = ps.log("clicks")
    log.append(b"first")
    read: list[bytes] = []

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    start_worker(collect_handlers([consumer]))
    wait_for(lambda: read == [b"first"])

    with FaultProxy(tmp_path, server.socket, record=1000) as proxy:
        surplus = start_worker(collect_handlers([consumer]), url=f"unix://{proxy.path}")
        wait_for(lambda: has_joined(ps, surplus.id))
        before = len(proxy.requests)
        began_at = time.monotonic()
        log.append_many([b"%d" % number for number in range(50)])
        wait_for(lambda: len(read) == 51)
        wait_for(lambda: len(proxy.requests) >= before + 10)
        took_s = time.monotonic() - began_at
        sent = proxy.requests[before:]
        surplus.stop()
        surplus.join()

    assert took_s > 10 / BEATS_A_SECOND / 2, f"it asks for more than heartbeats: {sent}"
    messages = ps.keys.queue("clicks").partition(0).messages
    assert not any(messages.encode() in request for request in sent)


def has_joined(ps: penstock.Penstock, id: str) -> bool:
    [about] = [info.about for info in ps.workers() if info.id == id]
    told: Any = about.get("logs") or {}
    return bool(told and told["connecting"]["times"] == 1)
