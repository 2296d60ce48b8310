"""`format("penstock")` with the option `queue`: waiting tasks and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader

    import penstock


def test_waiting_tasks_are_read_with_their_positions(
    read: DataFrameReader, queue: penstock.Queue
) -> None:
    queue.enqueue_many([b"first", b"second", b"\xff third"])
    queue.enqueue_unique(b"fourth", "key")

    rows = read.option("queue", "mail").load().orderBy("position").collect()

    assert [(bytes(row.payload), row.position, row.queue) for row in rows] == [
        (b"first", 0, "mail"),
        (b"second", 1, "mail"),
        (b"\xff third", 2, "mail"),
        (b"fourth", 3, "mail"),
    ]


def test_more_tasks_than_a_page_has_are_read_once_each(
    read: DataFrameReader, queue: penstock.Queue
) -> None:
    tasks = [b"%d" % number for number in range(2500)]
    queue.enqueue_many(tasks)

    rows = read.option("queue", "mail").load().collect()

    assert sorted((row.position, bytes(row.payload)) for row in rows) == list(enumerate(tasks))


def test_dead_letters_are_read(
    read: DataFrameReader, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue(b"bad")
    queue.configure(max_failures=1)
    with ps.worker() as worker:
        worker.start_work("mail")
        [process] = worker.start_tasks("mail")
        process.fail()

    rows = read.option("queue", "mail").option("state", "dead").load().collect()

    assert [(bytes(row.payload), row.position) for row in rows] == [(b"bad", 0)]


def test_a_queue_that_does_not_exist_is_an_error(read: DataFrameReader) -> None:
    with pytest.raises(Exception, match="there is no queue 'mail' in namespace"):
        read.option("queue", "mail").load().collect()


def test_a_queue_of_jobs_is_not_read_as_tasks(read: DataFrameReader, ps: penstock.Penstock) -> None:
    ps.jobs("mail").add("email")

    with pytest.raises(
        Exception, match="holds jobs, not plain tasks; read it with the option 'jobs'"
    ):
        read.option("queue", "mail").load().collect()
