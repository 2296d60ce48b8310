"""Logs go into a lake, as the history of queues does."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock.spark
from penstock.errors import LakeConflict, LogTrimmed, WrongKind
from penstock.spark.delta import Table
from penstock.spark.verification import verify
from tests.cli.conftest import CommandLine
from tests.proxy import Fault, FaultProxy
from tests.spark.archive_rig import PATIENCE_S, Rig, Running
from tests.spark.log_worlds import LogWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark import Archived
    from tests.servers import RedisServer


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def rig(spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path) -> Rig:
    return Rig(spark, ps, server, tmp_path / "lake")


@pytest.fixture
def clicks(ps: penstock.Penstock, server: RedisServer) -> LogWorld:
    return LogWorld(ps, server)


def archive(rig: Rig, **options: Any) -> Archived:
    return rig.archive(logs=["clicks"], **options)


def bodies(rig: Rig) -> Counter[bytes]:
    return Counter(rig.rows("messages", "body"))


def lags(clicks: LogWorld) -> dict[tuple[str, int], int]:
    return {(lag.reader, lag.partition): lag.messages for lag in clicks.log.lag()}


def test_messages_are_archived_once_with_all_they_have_and_then_forgotten_by_redis(
    rig: Rig, spark: SparkSession, clicks: LogWorld
) -> None:
    clicks.log.configure(keep_count=1)
    at = datetime(2020, 2, 3, tzinfo=UTC)
    sent = clicks.append(1, partition=0)
    first = archive(rig)
    sent += clicks.append(2000)
    clicks.log.append(b"last", key="user-1", headers={"a": "b"}, at=at)
    behind = lags(clicks)
    second = archive(rig)
    caught_up = lags(clicks)
    third = archive(rig)
    clicks.log.configure(partitions=3)
    sent += clicks.append(5, partition=2)
    fourth = archive(rig)

    done = [first, second, third, fourth]
    assert [each.messages.get("clicks", 0) for each in done] == [1, 2001, 0, 5]
    assert sum(behind.values()) == 2001  # although the log keeps one message of each partition
    assert caught_up == {("lake", 0): 0, ("lake", 1): 0}
    assert bodies(rig) == Counter([*sent, b"last"])
    rows = penstock.spark.lake(rig.lake.uri, "messages", spark=spark)
    [last] = rows.filter("key = 'user-1'").collect()
    assert (last.log, last.headers, bytes(last.body)) == ("clicks", {"a": "b"}, b"last")
    [instants] = (
        rows.filter("key = 'user-1'")
        .selectExpr(
            "unix_seconds(timestamp)", "unix_millis(appended_at)", "day = date(appended_at)"
        )
        .collect()
    )
    assert tuple(instants) == (at.timestamp(), int(last.offset.partition("-")[0]), True)
    assert last.born == clicks.log.facts().born
    assert rows.select("partition", "offset").distinct().count() == rows.count() == 2007
    assert verify(rig.lake.uri).findings == []
    clicks.append(2)
    for number in range(3):
        clicks.log.trim(id="9999999999999-0", partition=number)
    assert clicks.log.info().messages == 2  # all but those that are not in the lake


def test_a_log_and_a_partition_that_come_later_are_archived_beside_the_history_of_a_queue(
    rig: Rig, clicks: LogWorld
) -> None:
    ids = rig.world.end_jobs(3)
    with rig.going_on("mail", logs=["clicks"]) as running:
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        sent = clicks.append(10)
        running.wait_until(lambda: bodies(rig) == Counter(sent))
        clicks.log.configure(partitions=3)
        sent += clicks.append(5, partition=2)
        ids += rig.world.end_jobs(4)
        running.wait_until(lambda: bodies(rig) == Counter(sent) and rig.jobs() == Counter(ids))

    assert running.error is None
    assert running.done is not None
    assert (running.done.rows, running.done.messages) == ({"mail": 7}, {"clicks": 15})
    assert lags(clicks) == {("lake", number): 0 for number in range(3)}


def test_an_archive_that_dies_around_a_commit_loses_and_doubles_no_message(
    rig: Rig, clicks: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks.log.configure(keep_count=1)
    clicks.append(2)
    archive(rig)
    sent = clicks.append(1000)
    append = Table.append

    def die(table: Table, *batch: Any) -> bool:
        raise Killed("before the commit")

    def commit_and_die(table: Table, *batch: Any) -> bool:
        append(table, *batch)
        raise Killed("after the commit")

    behind = []
    for deadly in (die, commit_and_die):
        with monkeypatch.context() as patch:
            patch.setattr(Table, "append", deadly)
            with pytest.raises(Killed):
                archive(rig)
        behind.append(sum(lags(clicks).values()))
    sent += clicks.append(5)
    archive(rig)

    assert behind == [1000, 1000]  # the store is told after the commit
    assert bodies(rig) == Counter([b"000000", b"000001", *sent])
    assert sum(lags(clicks).values()) == 0


def test_a_python_worker_that_is_killed_while_it_copies_a_log_costs_and_doubles_nothing(
    rig: Rig, spark: SparkSession, clicks: LogWorld, server: RedisServer, namespace: str
) -> None:
    sent = clicks.append(2)
    archive(rig)
    sent += clicks.append(10_000)
    tracker = spark.sparkContext.statusTracker()
    pages = count()
    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        held = proxy.plan(
            Fault.DELAY, match=lambda request: request[0] == b"XRANGE" and next(pages) == 2
        )
        running = Running(lambda stop: archive(rig, stop=stop, url=f"unix://{proxy.path}"))
        running.start()
        held.wait_for_hits(1, PATIENCE_S)
        (stage,) = tracker.getActiveStageIds()
        # Not those that are idle: Spark would go on to them one by one, and fail with each.
        os.kill(held.clients[0], signal.SIGKILL)
        running.wait_until(lambda: tracker.getStageInfo(stage).numFailedTasks)  # type: ignore[union-attr]
        held.release()
        running.join(PATIENCE_S)

    assert running.error is None
    assert bodies(rig) == Counter(sent)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("trimmed", "messages of partition 0 of log 'clicks' after .* were removed before they"),
        ("made anew", "log 'clicks' was deleted and made anew"),
        ("put back", "does not have message .*, which it had: the store was emptied, or is an"),
    ],
)
def test_messages_that_are_gone_are_an_error_and_the_gap_can_be_passed_over(
    rig: Rig, clicks: LogWorld, how: str, message: str
) -> None:
    sent = clicks.append(10, partition=0) + clicks.append(1, partition=1)
    archive(rig)
    places = clicks.ids(0)[-1], clicks.ids(1)[-1]
    clicks.append(10, partition=0)
    if how == "trimmed":
        clicks.log.trim(id=clicks.ids()[15], partition=0, force=True)
        sent += [b"%06d" % number for number in range(16, 21)]
    elif how == "made anew":
        clicks.log.delete()
    else:
        clicks.empty()
    sent += clicks.append(4, partition=0)

    with pytest.raises(LogTrimmed, match=rf"{message}.*--skip-gap on the command line"):
        archive(rig)
    done = archive(rig, skip_gap=True)
    again = archive(rig, skip_gap=True)

    assert (done.gaps, again.gaps, again.messages) == (["clicks"], [], {})
    assert bodies(rig) == Counter(sent)
    lost = [0, 1] if how == "made anew" else [0]
    assert rig.rows("gaps", "log") == ["clicks"] * len(lost)
    assert sorted(rig.rows("gaps", "partition")) == lost
    assert sorted(rig.rows("gaps", "after_place")) == sorted(places[number] for number in lost)
    assert clicks.ids()[0] in rig.rows("gaps", "next_place")
    assert rig.rows("gaps", "queue") == [None] * len(lost)


def test_a_run_without_messages_for_everybody_is_noted_too(rig: Rig, clicks: LogWorld) -> None:
    sent = clicks.append(3, partition=0)
    group = clicks.log.group("billing")
    failed = clicks.log.page(0)[0]
    clicks.log.trim(id="9999999999999-0", partition=0, force=True)
    emptied = archive(rig), archive(rig)
    sent = clicks.append(1, partition=0)
    archive(rig)
    group.note_error(0, group.take(0, "w1").epoch, failed, "no", 5)
    group.replay()
    replayed = archive(rig), archive(rig)
    sent += clicks.append(2, partition=0)
    archive(rig)

    assert [done.messages for done in emptied + replayed] == [{}] * 4
    assert bodies(rig) == Counter(sent)
    assert lags(clicks)["lake", 0] == 0


def test_a_lake_of_a_log_without_its_checkpoint_and_an_older_copy_are_refused(
    rig: Rig, clicks: LogWorld, tmp_path: Path
) -> None:
    checkpoint, table = tmp_path / "checkpoint", Path(rig.lake.table("messages").uri)
    sent = clicks.append(5)
    archive(rig, checkpoint=checkpoint)
    for folder in (checkpoint, table):
        shutil.copytree(folder, tmp_path / f"{folder.name} copy")
    sent += clicks.append(5)
    archive(rig, checkpoint=checkpoint)

    with pytest.raises(LakeConflict, match=r"messages of log 'clicks', but .* is gone, so some"):
        archive(rig, checkpoint=tmp_path / "another")
    with pytest.raises(LakeConflict, match="older copy, so some messages would be left out"):
        archive(rig, checkpoint=tmp_path / "checkpoint copy")
    assert bodies(rig) == Counter(sent)
    shutil.rmtree(table)
    shutil.copytree(tmp_path / "messages copy", table)
    with pytest.raises(LakeConflict, match=r"lacks messages of log 'clicks' which .* says were"):
        archive(rig, checkpoint=checkpoint)


def test_a_queue_is_no_log_and_a_log_no_queue(
    rig: Rig, clicks: LogWorld, ps: penstock.Penstock
) -> None:
    clicks.append(1)
    ps.jobs("mail").add("email")

    with pytest.raises(WrongKind, match=r"'mail' is a queue of jobs, and not a log; .* -q mail"):
        rig.archive(logs=["mail"])
    with pytest.raises(WrongKind, match=r"'clicks' is a log, and not a queue; .* --log clicks"):
        rig.archive("clicks")


@pytest.mark.usefixtures("spark")
def test_the_command_says_how_many_messages_it_has_archived(
    rig: Rig, clicks: LogWorld, server: RedisServer, ps: penstock.Penstock
) -> None:
    clicks.append(1200)
    rig.world.end_jobs(3)
    cli = CommandLine(server.url, ps.settings.namespace)
    command = ("spark", "archive", "--log", "clicks", "--to", rig.lake.uri, "--once")

    said = cli(*command)
    again = cli.json(*command, "-q", "mail", "--log", "click")

    told = said.stdout.replace("\n", "").replace(" ", "")
    assert told == f"archived1,200messagesin{rig.lake.uri}:1,200of'clicks'"
    assert (again["messages"], again["attempts"]) == ({}, {"mail": 3})
    assert again["absent"] == ["log 'click'"]
    assert "lake" in cli("log", "lag", "clicks").stdout
