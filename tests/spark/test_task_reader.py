"""What the reader of tasks returns while the queue is in use, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import WrongKind
from penstock.spark.clients import find_connection
from penstock.spark.kinds import READ_QUEUE
from penstock.spark.options import parse_request
from penstock.spark.task_reader import TaskReader

if TYPE_CHECKING:
    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def reader(server: RedisServer, namespace: str) -> TaskReader:
    request = parse_request([READ_QUEUE], {"queue": "mail"})
    return TaskReader(request, find_connection(server.url, namespace))


def test_no_task_that_waits_is_passed_over_while_others_come_and_go(
    reader: TaskReader, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    tasks = [b"%d" % number for number in range(3000)]
    queue.enqueue_many(tasks)
    [partition] = reader.partitions()

    batches = reader.read(partition)
    seen = next(batches).to_pylist()
    with ps.worker() as worker:
        worker.start_work("mail")
        started = {process.task for process in worker.start_tasks("mail", 10)}
        queue.enqueue_many([b"new"] * 5)
        for batch in batches:
            seen += batch.to_pylist()

    counts = {task: sum(row["payload"] == task for row in seen) for task in (b"2000", b"1999")}
    assert {row["payload"] for row in seen} >= set(tasks) - started
    assert counts == {b"2000": 2, b"1999": 1}  # what was read last moved into the next page
    assert min(row["position"] for row in seen) == 0


def test_an_empty_queue_has_no_rows(reader: TaskReader, queue: penstock.Queue) -> None:
    queue.configure(max_length=10)

    [partition] = reader.partitions()

    assert list(reader.read(partition)) == []


def test_a_log_is_not_read_as_a_queue(reader: TaskReader, ps: penstock.Penstock) -> None:
    ps.log("mail").append(b"x")

    with pytest.raises(WrongKind, match=r"'mail' is a log, .*; read it with the option 'log' inst"):
        reader.partitions()
