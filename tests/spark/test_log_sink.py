"""What becomes of attempts to write to a log that die, are repeated, or meet each other. No JVM."""

from __future__ import annotations

import pickle
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

import penstock
import penstock.spark
from penstock.client.fsck import check, repair
from penstock.errors import BatchTooLarge, InvalidArgument, RowRefused, StageLost
from penstock.model.staging import STAGE_MS
from penstock.spark.log_sink import LogStaged
from penstock.store.commands import log_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.spark.sink import BatchSink
    from tests.servers import RedisServer

BODY = StructType().add("body", StringType())
FULL = (
    StructType()
    .add("body", BinaryType())
    .add("key", StringType())
    .add("headers", MapType(StringType(), StringType()))
    .add("partition", IntegerType())
    .add("timestamp", TimestampType())
)
COUNTS = [3, 4, 5]


class Died(Exception):
    """Instead of the process."""


@pytest.fixture
def sink(server: RedisServer, namespace: str) -> Callable[..., BatchSink]:
    """The writer that Spark would pickle for one `df.write`."""

    def make(schema: StructType = BODY, **options: str) -> BatchSink:
        given = {"url": server.url, "namespace": namespace, "log": "clicks", **options}
        return penstock.spark.PenstockSource(given).writer(schema, overwrite=False)

    return make


@pytest.fixture
def log(ps: penstock.Penstock) -> penstock.Log:
    log = ps.log("clicks", partitions=3)
    log.configure(partitions=3)
    return log


def rows(*bodies: str) -> Any:
    return iter([pa.record_batch({"body": list(bodies)})])


def write(sink: BatchSink, prefix: str = "") -> list[Any]:
    """Three tasks of a batch, of several rows each."""
    return [
        sink.write(rows(*(f"{prefix}{task}{row}" for row in range(count))))
        for task, count in enumerate(COUNTS)
    ]


def expected(prefix: str = "") -> list[bytes]:
    return sorted(
        f"{prefix}{task}{row}".encode() for task, n in enumerate(COUNTS) for row in range(n)
    )


def stored(log: penstock.Log) -> list[bytes]:
    return sorted(message.body for message in log.read())


def die_at(monkeypatch: pytest.MonkeyPatch, name: str, after: int) -> None:
    """Let the process that decides die at its so-many-th command of this name."""
    ran = 0
    command = getattr(log_batches, name)

    def run(*given: Any) -> Any:
        nonlocal ran
        ran += 1
        if ran > after:
            raise Died
        return command(*given)

    monkeypatch.setattr(log_batches, name, run)


def test_rows_are_appended_when_the_batch_is_committed(
    sink: Callable[..., BatchSink], log: penstock.Log, ps: penstock.Penstock
) -> None:
    batch = sink()
    messages = write(batch)
    assert stored(log) == []

    batch.commit(pickle.loads(pickle.dumps(messages)))

    assert stored(log) == expected()
    assert {message.partition for message in log.read()} == {0, 1, 2}
    assert check(ps).violations == []


def test_a_log_is_made_for_the_first_batch(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    batch = sink(partitions="4")

    batch.commit(write(batch))

    assert ps.log("clicks").facts().partitions == 4
    assert stored(ps.log("clicks")) == expected()


def test_a_batch_of_many_chunks_keeps_the_order_of_each_task(
    sink: Callable[..., BatchSink], log: penstock.Log
) -> None:
    batch = sink()
    messages: list[Any] = [batch.write(rows(*(f"{number:05}" for number in range(7000))))]

    batch.commit(messages)

    for number in range(3):
        found = [message.body for message in log.page(number, limit=10_000)]
        assert found == sorted(found)
    assert len(stored(log)) == 7000


def test_all_of_a_row_is_appended(sink: Callable[..., BatchSink], log: penstock.Log) -> None:
    at = datetime(2026, 11, 15, 0, 0, 0, 250_000, UTC)
    headers = pa.array([[("a", "b")], None, None], pa.map_(pa.string(), pa.string()))
    times = pa.array([at, None, None], pa.timestamp("us", "UTC"))
    values = {
        "body": pa.array([b"\xff\x00", b"2", b"3"], pa.binary()),
        "key": pa.array(["user-ü", "user-ü", None]),
        "headers": headers,
        "partition": pa.array([2, None, 1], pa.int32()),
        "timestamp": times,
    }
    batch = sink(FULL)

    batch.commit([batch.write(iter([pa.record_batch(values)]))])

    [first] = [message for message in log.read() if message.body == b"\xff\x00"]
    assert (first.partition, first.key, first.headers, first.at) == (
        *(2, "user-ü", {"a": "b"}),
        at.timestamp(),
    )
    [second] = [message for message in log.read() if message.body == b"2"]
    where = log.append(b"other", key="user-ü")
    assert (second.partition, second.key, second.headers) == (where.partition, "user-ü", {})
    assert [message.body for message in log.page(1) if not message.key] == [b"3"]


def test_attempts_that_are_not_committed_leave_nothing(
    sink: Callable[..., BatchSink], log: penstock.Log, ps: penstock.Penstock
) -> None:
    batch = sink()
    twins = write(batch)
    batch.commit(write(batch))
    batch.abort(twins)

    assert stored(log) == expected()
    assert [batch.write(rows("late")).stage.rows] == [1]
    assert stored(log) == expected()
    assert check(ps).violations == []


def test_a_batch_with_a_name_is_appended_once(
    sink: Callable[..., BatchSink], log: penstock.Log, ps: penstock.Penstock
) -> None:
    for prefix in ("first", "again"):
        batch = sink(batch_id="2026-11-15")
        batch.commit(write(batch, prefix))

    assert stored(log) == expected("first")
    assert ps.store.call("x", "KEYS", f"*{ps.keys.namespace}*stage:*") == []


@pytest.mark.parametrize(
    ("name", "after"),
    [
        *[("prepare_stages", number) for number in range(3)],
        *[("decide_append", 0)],
        *[("move_messages", number) for number in range(9)],
    ],
)
def test_a_batch_whose_driver_died_is_appended_once_when_it_is_repeated(
    sink: Callable[..., BatchSink],
    log: penstock.Log,
    ps: penstock.Penstock,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    after: int,
) -> None:
    first = sink(batch_id="b")
    messages = write(first, "first")
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, name, after)
        first.commit(messages)
    again = sink(batch_id="b")
    again.commit(write(again, "again"))

    is_decided = name == "move_messages"
    assert stored(log) == expected("first" if is_decided else "again")
    assert check(ps).violations == []
    # One that was taken for dead goes on: nothing changes, whether or not it finds its stages.
    with suppress(StageLost):
        first.commit(messages)
    assert stored(log) == expected("first" if is_decided else "again")
    stages = ps.store.call("x", "KEYS", f"*{ps.keys.namespace}*stage:*")
    assert all(ps.store.call(key.decode(), "PTTL", key.decode()) > 0 for key in stages)


def test_what_a_dead_driver_has_decided_is_moved_by_the_next_write(
    sink: Callable[..., BatchSink], log: penstock.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, other = sink(batch_id="b"), sink(batch_id="c")
    messages = write(dead)
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, "move_messages", 2)
        dead.commit(messages)
    assert stored(log) != expected()

    other.commit([other.write(rows("next"))])

    assert stored(log) == sorted([*expected(), b"next"])


@pytest.mark.parametrize("is_decided", [True, False])
def test_fsck_finishes_what_a_dead_driver_has_left(
    sink: Callable[..., BatchSink],
    log: penstock.Log,
    ps: penstock.Penstock,
    monkeypatch: pytest.MonkeyPatch,
    is_decided: bool,
) -> None:
    dead = sink(batch_id="b")
    messages = write(dead)
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, "move_messages" if is_decided else "decide_append", 0)
        dead.commit(messages)
    assert check(ps).violations == []
    age(ps)

    assert {violation.kind for violation in check(ps).violations} == {"batch_is_not_finished"}
    assert repair(ps, check(ps)).violations == []
    assert stored(log) == (expected() if is_decided else [])
    assert ps.store.call("x", "KEYS", f"*{ps.keys.namespace}*stage:*") == []


def test_fsck_names_a_stage_whose_batch_cannot_be_read(
    log: penstock.Log, ps: penstock.Penstock
) -> None:
    key = ps.keys.queue("clicks").partition(1).prepared
    ps.store.call(key, "HSET", key, "s1", "garbage")

    [violation] = repair(ps, check(ps)).violations

    assert violation.kind == "stage_of_no_batch"
    assert violation.message.endswith("for which batch stage s1 of partition 1 is")


def age(ps: penstock.Penstock) -> None:
    """Let what is prepared be older than a day."""
    for number in range(3):
        key = ps.keys.queue("clicks").partition(number).prepared
        flat = ps.store.call(key, "HGETALL", key)
        for stage, entry in zip(flat[::2], flat[1::2], strict=True):
            token, version, at, rest = entry.decode().split(" ", 3)
            old = f"{token} {version} {int(at) - STAGE_MS - 1000} {rest}"
            ps.store.call(key, "HSET", key, stage.decode(), old)


def test_what_was_prepared_too_long_ago_is_prepared_again_before_it_is_decided(
    sink: Callable[..., BatchSink], log: penstock.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    decide = log_batches.decide_append

    def late(*given: Any) -> Any:
        *others, prepared_ms = given
        times.append(prepared_ms)
        command: Any = decide
        return command(*others, prepared_ms if len(times) > 1 else 5)

    monkeypatch.setattr(log_batches, "decide_append", late)
    batch = sink()
    batch.commit(write(batch))

    assert len(times) == 2
    assert stored(log) == expected()


def test_a_stream_appends_each_micro_batch_once(
    sink: Callable[..., BatchSink],
    log: penstock.Log,
    ps: penstock.Penstock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = sink()._target

    def commit(version: int, prefix: str) -> None:
        target.decide(write(sink(), prefix), "query q", version)

    commit(0, "a")
    zombie = write(sink(), "zombie")
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_at(patch, "move_messages", 1)
        commit(1, "b")
    commit(1, "again")
    commit(2, "c")
    target.decide(zombie, "query q", 1)

    assert stored(log) == sorted(chain(expected("a"), expected("b"), expected("c")))
    assert check(ps).violations == []
    assert ps.store.call("x", "KEYS", f"*{ps.keys.namespace}*stage:*") == []


def test_a_log_that_was_made_anew_takes_nothing_that_was_staged_before(
    sink: Callable[..., BatchSink], log: penstock.Log, ps: penstock.Penstock
) -> None:
    batch = sink()
    messages = write(batch)
    log.delete()
    log.append(b"new")

    with pytest.raises(StageLost, match=r"was deleted while batch .* was written"):
        batch.commit(messages)
    assert stored(log) == [b"new"]


def test_a_batch_that_is_too_large_is_refused(
    sink: Callable[..., BatchSink], log: penstock.Log
) -> None:
    batch = sink(max_staged_bytes="20")

    with pytest.raises(BatchTooLarge, match=r"partition \d of log 'clicks'"):
        write(batch)
    assert stored(log) == []


@pytest.mark.parametrize(
    ("body", "key", "partition", "reason"),
    [
        (None, "k", 0, "column 'body' is null"),
        ("x" * 20_000_000, "k", 0, "the message has 20000000 bytes and"),
        ("x", "k" * 2000, 0, "the key of a message is"),
        ("x", "k", 3, "partition is 3; the log has partitions 0 to 2"),
    ],
)
def test_a_row_that_cannot_be_appended_refuses_the_batch(
    sink: Callable[..., BatchSink],
    log: penstock.Log,
    body: str | None,
    key: str,
    partition: int,
    reason: str,
) -> None:
    schema = StructType().add("body", StringType()).add("key", StringType())
    batch = sink(schema.add("partition", LongType()))
    values = {
        "body": pa.array([body], pa.string()),
        "key": pa.array([key]),
        "partition": pa.array([partition], pa.int64()),
    }

    with pytest.raises(RowRefused, match=reason):
        batch.write(iter([pa.record_batch(values)]))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("value", StringType()), "a message is taken from column 'body'"),
        (
            StructType().add("body", StringType()).add("key", LongType()),
            "column 'key' of a message has the type bigint",
        ),
    ],
)
def test_a_dataframe_that_has_no_messages_is_refused(
    sink: Callable[..., BatchSink], schema: StructType, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        sink(schema)


def test_a_log_is_not_overwritten(server: RedisServer) -> None:
    source = penstock.spark.PenstockSource({"url": server.url, "log": "clicks"})

    with pytest.raises(InvalidArgument, match="a log cannot be overwritten"):
        source.writer(BODY, overwrite=True)


def test_an_attempt_says_what_it_has_staged(
    sink: Callable[..., BatchSink], log: penstock.Log
) -> None:
    [message] = [sink().write(rows("a", "b", "c", "d"))]

    assert isinstance(message, LogStaged)
    assert (message.stage.rows, message.stage.chunks) == (4, 3)
    assert sorted(message.stages) == [0, 1, 2]
