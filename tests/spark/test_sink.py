"""What becomes of attempts that Spark does not commit, commits twice, or gives up. No JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import penstock
import penstock.spark
from penstock.client.fsck import check
from penstock.connection.staging import move_batches
from penstock.errors import BatchTooLarge, ProtocolError, StageLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.spark.sink import BatchSink, Staged, StreamSink
    from tests.servers import RedisServer

SCHEMA = StructType().add("payload", "string")


@pytest.fixture
def sink(server: RedisServer, namespace: str) -> Callable[..., BatchSink]:
    """The writer that Spark would pickle for one `df.write`."""

    def make(**options: str) -> BatchSink:
        given = {"url": server.url, "namespace": namespace, "queue": "mail", **options}
        return penstock.spark.PenstockSource(given).writer(SCHEMA, overwrite=False)

    return make


def rows(*tasks: str) -> Any:
    return iter([pa.record_batch({"payload": list(tasks)})])


def test_only_the_attempts_that_are_committed_get_in(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    writer = sink(batch_id="b")
    first = writer.write(rows("a", "b"))
    writer.write(rows("a", "b"))  # a speculative twin
    second = writer.write(rows("c"))

    writer.commit([first, second])
    writer.write(rows("a", "b"))  # a zombie, after all is over

    assert ps.queue("mail").page().tasks == [b"a", b"b", b"c"]
    assert move_batches(ps.store, ps.keys.queue("mail"), "tasks").moved == 0
    assert check(ps).violations == []


def test_a_commit_that_is_repeated_has_one_effect(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    writer = sink()
    staged = writer.write(rows("a"))

    writer.commit([staged])
    writer.commit([staged])

    assert ps.queue("mail").count() == 1


def test_a_batch_that_is_given_up_leaves_nothing_behind(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    writer = sink()
    staged = writer.write(rows("a"))

    writer.abort([staged, None])

    with pytest.raises(StageLost, match="write the batch again"):
        writer.commit([staged])
    assert ps.queues() == []


def test_giving_up_after_the_decision_takes_nothing_back(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    """As when the driver loses the store between the decision and the move."""
    writer = sink(wait="decided")
    staged = writer.write(rows("a"))
    writer.commit([staged])

    writer.abort([staged])

    assert move_batches(ps.store, ps.keys.queue("mail"), "tasks").moved == 1


def test_a_commit_without_all_partitions_decides_nothing(
    sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    writer = sink()
    staged = writer.write(rows("a"))

    with pytest.raises(ProtocolError, match="1 partitions that were not written"):
        writer.commit([staged, None])

    assert ps.queues() == []


def test_what_finds_no_room_in_time_is_said_and_moved_later(
    sink: Callable[..., BatchSink], ps: penstock.Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    ps.queue("mail").configure(max_length=2)
    writer = sink(wait_timeout="0", batch_id="b")

    writer.commit([writer.write(rows("a", "b", "c"))])

    assert ps.queue("mail").page().tasks == [b"a", b"b"]
    [said] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said == (
        "the queue has no room, so the rest of the batch is moved when it has, by workers and "
        "later writes queue=mail batch=batch b left=1"
    )
    assert check(ps).violations == []
    ps.queue("mail").configure(max_length=None)
    assert move_batches(ps.store, ps.keys.queue("mail"), "tasks").left == 0
    assert ps.queue("mail").page().tasks == [b"a", b"b", b"c"]


def test_what_is_staged_is_limited_over_all_partitions(sink: Callable[..., BatchSink]) -> None:
    writer = sink(max_staged_bytes="100")
    writer.write(rows("x" * 60))

    with pytest.raises(BatchTooLarge, match="more than 100 bytes"):
        writer.write(rows("x" * 60))


def test_a_micro_batch_is_decided_once_whatever_its_rows(
    server: RedisServer, namespace: str, sink: Callable[..., BatchSink], ps: penstock.Penstock
) -> None:
    given = {"url": server.url, "namespace": namespace, "queue": "mail"}
    writer: StreamSink = penstock.spark.PenstockSource(given).streamWriter(SCHEMA, overwrite=False)

    def staged(*tasks: str) -> Staged:
        return writer._target.write(rows(*tasks), "query.0", "query")

    writer.commit([staged("a"), staged("b")], 0)
    writer.commit([staged("other", "rows")], 0)  # the same batch after a restart
    writer.commit([staged("c")], 1)
    writer.commit([], 2)

    assert ps.queue("mail").page().tasks == [b"a", b"b", b"c"]
