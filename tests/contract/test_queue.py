"""Queues from the producer's side, on every kind of store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisCluster, RedisServer


@pytest.fixture
def ps(any_store: RedisServer | RedisCluster, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(any_store.url, namespace=namespace) as client:
        yield client


def test_tasks_come_out_in_the_order_they_went_in(ps: penstock.Penstock) -> None:
    queue = ps.queue("mail")
    queue.enqueue(b"first")
    queue.enqueue_many([b"second", b"third"])

    with ps.worker() as worker:
        worker.start_work("mail")
        started = worker.start_tasks("mail", 10)

        assert [process.task for process in started] == [b"first", b"second", b"third"]
        for process in started:
            process.finish()
    assert queue.count() == 0


def test_a_stopped_task_is_the_next_to_start(ps: penstock.Penstock) -> None:
    queue = ps.queue("mail")
    queue.enqueue_many([b"first", b"second"])
    with ps.worker() as worker:
        worker.start_work("mail")
        process = worker.start_task("mail")
        assert process is not None
        process.stop()

        again = worker.start_task("mail")

        assert again is not None and again.task == b"first"
