"""A DataFrame is written to a queue once, however often Spark tries."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pyspark.errors import PySparkException

import penstock
from penstock.client.fsck import check
from tests.multisets import assert_each_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from tests.servers import RedisServer

ROWS = 5_000


@pytest.fixture
def write(server: RedisServer, namespace: str) -> Callable[[DataFrame], DataFrameWriter]:
    """Begins to write a DataFrame to penstock on the shared server."""

    def begin(rows: DataFrame) -> DataFrameWriter:
        writer = rows.write.format("penstock").option("url", server.url)
        return writer.option("namespace", namespace).mode("append")

    return begin


def assert_each_row_is_there_once(ps: penstock.Penstock) -> None:
    queue = ps.queue("mail")
    assert queue.count() == ROWS
    tasks = {task for at in range(0, ROWS, 1000) for task in queue.page(at, 1000).tasks}
    assert tasks == {b"%d" % number for number in range(ROWS)}
    assert check(ps).violations == []


def tasks_of(ps: penstock.Penstock) -> list[bytes]:
    queue = ps.queue("mail")
    return [task for at in range(0, queue.count(), 1000) for task in queue.page(at, 1000).tasks]


def test_rows_become_tasks_once(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id as string) as payload").repartition(3)

    for _ in range(2):
        write(rows).option("queue", "mail").option("batch_id", "today").save()

    assert_each_row_is_there_once(ps)


def test_a_write_without_a_batch_id_is_a_batch_of_its_own(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.range(10).selectExpr("cast(cast(id as string) as binary) as body")

    for _ in range(2):
        write(rows).option("queue", "mail").option("payload", "body").save()

    assert ps.queue("mail").count() == 20


def test_rows_become_jobs_whose_data_is_their_columns(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.createDataFrame([("a.png", 100), ("b.png", 200)], "path string, width int")

    write(rows).option("jobs", "images").option("type", "resize").option("attempts", "5").save()

    found = ps.jobs("images").page("ready").jobs
    assert sorted(json.loads(job.data)["path"] for job in found) == ["a.png", "b.png"]
    assert {(job.type, job.attempts) for job in found} == {("resize", 5)}
    assert json.loads(found[0].data).keys() == {"path", "width"}


def test_columns_say_what_differs_from_job_to_job(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.createDataFrame(
        [
            ("email", -5, 0.0, "acme", "x", ["red"], '{"a":1}'),
            ("sms", 7, 60.0, None, "y", [], '{"a":2}'),
            ("sms", 7, 60.0, None, "y", [], '{"a":3}'),
        ],
        "kind string, urgency int, later double, who string, once string, labels array<string>, "
        "body string",
    ).coalesce(1)
    columns = {"type": "kind", "priority": "urgency", "delay": "later", "tenant": "who"}
    columns |= {"unique": "once", "tags": "labels", "data": "body"}
    writer = write(rows).option("jobs", "mail")
    for option, column in columns.items():
        writer = writer.option(f"{option}_column", column)

    writer.save()

    [ready] = ps.jobs("mail").page("ready").jobs
    assert (ready.type, ready.priority, ready.tenant, ready.tags) == ("email", -5, "acme", ("red",))
    assert (ready.unique, ready.data) == ("x", b'{"a":1}')
    [scheduled] = ps.jobs("mail").page("scheduled").jobs
    assert (scheduled.type, scheduled.data, scheduled.tenant) == ("sms", b'{"a":2}', "")


def test_a_stream_writes_each_of_its_batches_once(
    spark: SparkSession,
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id as string) as payload").repartition(4)
    rows.write.parquet(str(tmp_path / "source"))
    checkpoint = tmp_path / "checkpoint"

    def run(partitions: int) -> None:
        source = spark.readStream.schema("payload string").option("maxFilesPerTrigger", 1)
        stream = source.parquet(str(tmp_path / "source")).repartition(partitions)
        query = (
            stream.writeStream.format("penstock")
            .option("url", server.url)
            .option("namespace", namespace)
            .option("queue", "mail")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(2)
    # As if the driver had died before it could note that the last batch was committed.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    run(3)  # so its partitions hold other rows than the first time

    assert last.exists()

    assert_each_row_is_there_once(ps)


def test_a_task_that_fails_half_way_and_is_tried_again_sends_its_rows_once(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    has_failed = tmp_path / "has failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, 1_500)
            if not has_failed.exists():
                has_failed.touch()
                raise RuntimeError("half way")
            yield batch.slice(1_500)

    numbers = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as payload")
    rows = numbers.mapInArrow(fail_once, "payload string")

    write(rows).option("queue", "mail").save()

    assert has_failed.exists()
    assert_each_row_is_there_once(ps)


def test_a_task_that_fails_after_it_has_staged_sends_its_rows_once(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    server: RedisServer,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    has_failed, socket = tmp_path / "has failed", str(server.socket)
    staged = ps.keys.queue("mail").stage("*")

    def fail_once_staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not has_failed.exists():
            has_failed.touch()
            client, deadline = redis.Redis(unix_socket_path=socket), time.monotonic() + 60
            while not any(client.scan_iter(staged, 1000)) and time.monotonic() < deadline:
                time.sleep(0.01)
            raise RuntimeError("after it has staged")

    # More than the pipe from the JVM to the task holds, or nothing is staged before the end.
    numbers = spark.range(0, 20_000, 1, 1).selectExpr("concat(repeat('x', 100), id) as payload")
    rows = numbers.mapInArrow(fail_once_staged, "payload string")

    write(rows).option("queue", "mail").save()

    assert has_failed.exists()
    assert_each_once(tasks_of(ps), (b"x" * 100 + b"%d" % number for number in range(20_000)))
    assert any(server.client.scan_iter(staged, 1000))  # of the first attempt; it expires
    assert check(ps).violations == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "mail"}, "which is not there; the columns are path, width; name another one"),
        ({"queue": "mail", "payload": "width"}, "which has the type int"),
        ({"jobs": "mail"}, "give the option 'type' for all rows, or 'type_column'"),
        ({"jobs": "mail", "type": "t", "type_column": "path"}, "say the same thing in two ways"),
        ({"jobs": "mail", "type": "t", "tenant_column": "who"}, "which is not there"),
        ({"jobs": "mail", "type": "t", "data_column": "width"}, "give a column of JSON text"),
        ({"jobs": "mail", "type": "t", "priority": "soon"}, "there is no priority 'soon'"),
        ({"jobs": "mail", "type": "t", "wait": "never"}, "give moved or decided"),
        ({"jobs": "mail", "typ": "t"}, "there is no option 'typ' to write jobs to a queue"),
        ({}, "give exactly one of the options queue, jobs"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
    options: dict[str, str],
    message: str,
) -> None:
    rows = spark.createDataFrame([("a.png", 100)], "path string, width int")

    with pytest.raises(PySparkException, match=message):
        write(rows).options(**options).save()

    assert ps.queues() == []


def test_a_queue_is_never_overwritten(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) as payload")

    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        write(rows).mode("overwrite").option("queue", "mail").save()


def test_a_row_that_cannot_be_sent_refuses_the_batch(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.createDataFrame([("good",), (None,)], "payload string").coalesce(1)

    with pytest.raises(PySparkException, match=r"column 'payload' is null.*option 'bad_rows'"):
        write(rows).option("queue", "mail").save()

    assert ps.queues() == []


def test_rows_that_cannot_be_sent_go_to_a_folder_with_the_reason(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    rows = spark.createDataFrame(
        [("good", 1.0, 5), ("not a number", float("nan"), 5), ("not a priority", 1.0, 2**40)],
        "name string, value double, urgency long",
    ).coalesce(1)
    writer = write(rows).option("jobs", "mail").option("type", "t").option("batch_id", "b 1")

    for _ in range(2):
        writer.option("priority_column", "urgency").option("bad_rows", str(tmp_path)).save()

    [sent] = ps.jobs("mail").page("ready").jobs
    assert json.loads(sent.data) == {"name": "good", "value": 1.0}
    [file] = tmp_path.glob("*.jsonl")
    reasons = {
        line["row"]["name"]: line["reason"]
        for line in map(json.loads, file.read_text().splitlines())
    }
    assert reasons.keys() == {"not a number", "not a priority"}
    assert "priority is 1099511627776" in reasons["not a priority"]
    assert "'value'" in reasons["not a number"]
    assert list((tmp_path / "_pending").iterdir()) == []


def test_a_write_can_end_when_the_batch_is_decided(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) as payload").coalesce(1)

    write(rows).option("queue", "mail").option("wait", "decided").save()
    before = ps.queue("mail").count()
    write(rows).option("queue", "mail").save()

    assert (before, ps.queue("mail").count()) == (0, 6)


def test_a_full_queue_takes_what_it_has_room_for_and_the_write_ends_in_time(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    ps.queue("mail").configure(max_length=2)
    rows = spark.range(5).selectExpr("cast(id as string) as payload").coalesce(1)

    write(rows).option("queue", "mail").option("wait_timeout", "0").save()
    ps.queue("mail").configure(max_length=None)
    write(rows.limit(0)).option("queue", "mail").save()

    assert [int(task) for task in ps.queue("mail").page().tasks] == [0, 1, 2, 3, 4]


def test_a_full_queue_of_jobs_takes_the_rest_of_a_batch_when_the_write_is_run_again(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    orders = ps.jobs("orders")
    orders.configure(max_length=2)
    writer = write(spark.range(5).coalesce(1)).option("jobs", "orders").option("type", "bill")
    writer = writer.option("batch_id", "today").option("wait_timeout", "0")

    writer.save()
    moved = [json.loads(job.data)["id"] for job in orders.page("ready").jobs]
    orders.configure(max_length=None)
    writer.save()

    assert moved == [0, 1]
    found = [json.loads(job.data)["id"] for job in orders.page("ready").jobs]
    assert found == [0, 1, 2, 3, 4]
    assert check(ps).violations == []


def test_a_full_store_refuses_a_batch_as_a_whole_and_takes_it_when_there_is_room(
    spark: SparkSession, own_server: RedisServer, namespace: str
) -> None:
    rows = spark.range(0, 40_000, 1, 2).selectExpr("concat(repeat('x', 100), id) as payload")
    options = {"url": own_server.url, "namespace": namespace, "queue": "mail"}
    writer = rows.write.format("penstock").mode("append").options(**options)
    writer = writer.option("batch_id", "today")
    client: Any = own_server.client
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 2_500_000)

        with pytest.raises(
            PySparkException, match=r"StoreFull: the store at .* is out of memory \(max"
        ):
            writer.save()
        queues, is_staged = ps.queues(), any(client.scan_iter("*}:stage:*", 1000))
        client.config_set("maxmemory", 0)
        writer.save()

        assert queues == []
        assert is_staged  # so it was refused half way
        assert_each_once(tasks_of(ps), (b"x" * 100 + b"%d" % number for number in range(40_000)))
        assert check(ps).violations == []


def test_a_batch_larger_than_may_be_staged_is_refused_as_a_whole(
    spark: SparkSession,
    write: Callable[[DataFrame], DataFrameWriter],
    ps: penstock.Penstock,
) -> None:
    rows = spark.range(1000).selectExpr("repeat('x', 100) as payload").repartition(4)

    with pytest.raises(PySparkException, match="more than 20000 bytes"):
        write(rows).option("queue", "mail").option("max_staged_bytes", "20000").save()

    assert ps.queues() == []
