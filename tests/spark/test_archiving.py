"""The history of queues in Redis goes into a lake."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import penstock.spark
from penstock.errors import HistoryLost, InvalidArgument, InvalidName, LakeConflict, WrongKind
from penstock.model.history import place_key
from penstock.spark.delta import Table
from tests.cli.conftest import CommandLine
from tests.spark.archive_rig import Rig

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers import RedisServer


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def rig(spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path) -> Rig:
    return Rig(spark, ps, server, tmp_path / "history")


def test_what_has_ended_is_archived_once_also_if_asked_again(
    rig: Rig, ps: penstock.Penstock
) -> None:
    ids = rig.world.end_jobs(30)

    first = rig.archive("mail")
    more = rig.world.end_jobs(12)
    second = rig.archive("mail")
    third = rig.archive("mail")

    assert (first.rows, second.rows, third.rows) == ({"mail": 30}, {"mail": 12}, {})
    assert rig.jobs() == Counter(ids + more)
    (mark,) = ps.jobs("mail").history_bounds().marks
    assert (mark.reader, mark.place) == ("lake", max(rig.rows("attempts", "place"), key=place_key))


def test_without_names_all_queues_of_jobs_are_archived_and_those_of_any_kind_counted(
    rig: Rig, ps: penstock.Penstock
) -> None:
    rig.world.end_jobs(3)
    rig.world.end_jobs(4, queue="images")
    ps.queue("letters").enqueue(b"a")

    done = rig.archive()

    assert done.rows == {"mail": 3, "images": 4}
    assert done.counted == 1
    assert sorted(rig.rows("counts", "queue")) == ["images", "letters", "mail"]


def test_an_archive_that_dies_around_a_commit_loses_and_doubles_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = rig.world.end_jobs(20)
    append = Table.append

    def die(table: Table, *batch: Any) -> bool:
        raise Killed("before the commit")

    def commit_and_die(table: Table, *batch: Any) -> bool:
        append(table, *batch)
        raise Killed("after the commit")

    for deadly in (die, commit_and_die):
        with monkeypatch.context() as patch:
            patch.setattr(Table, "append", deadly)
            with pytest.raises(Killed):
                rig.archive("mail")
    ids += rig.world.end_jobs(5)
    rig.archive("mail")

    assert rig.jobs() == Counter(ids)


def test_history_that_is_gone_is_an_error_and_the_gap_can_be_passed_over(rig: Rig) -> None:
    ids = rig.world.end_jobs(10)
    rig.archive("mail")
    rig.world.end_jobs(10)
    rig.world.reset()
    later = rig.world.end_jobs(7)

    with pytest.raises(HistoryLost, match="was deleted and made anew"):
        rig.archive("mail")
    done = rig.archive("mail", skip_gap=True)
    rig.archive("mail", skip_gap=True)

    assert (done.rows, done.gaps) == ({"mail": 7}, ["mail"])
    assert rig.jobs() == Counter(ids + later)
    assert rig.rows("gaps", "queue") == ["mail"]
    (reason,) = rig.rows("gaps", "reason")
    assert reason.startswith("queue 'mail' was deleted and made anew, and its history with it")


def test_a_lake_without_its_checkpoint_is_not_filled_again(rig: Rig, tmp_path: Path) -> None:
    rig.world.end_jobs(5)
    rig.archive("mail")

    with pytest.raises(LakeConflict, match="is gone, so some would be archived twice"):
        rig.archive("mail", checkpoint=tmp_path / "another")

    assert rig.jobs().total() == 5


def test_what_has_no_history_that_can_be_read_is_refused(rig: Rig, ps: penstock.Penstock) -> None:
    ps.queue("letters").enqueue(b"a")

    with pytest.raises(WrongKind, match="plain tasks, which leave no history"):
        rig.archive("letters")
    with pytest.raises(InvalidArgument, match="has no queue of jobs"):
        rig.archive()
    with pytest.raises(InvalidName, match="'a, b' has a comma"):
        rig.archive("a, b")


def test_a_lake_elsewhere_needs_a_checkpoint(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match="name a checkpoint that Spark can write to"):
        penstock.spark.archive(["mail"], "s3://bucket/history", spark=spark)


@pytest.mark.usefixtures("spark")
def test_the_command_says_what_it_has_archived(
    rig: Rig, server: RedisServer, ps: penstock.Penstock
) -> None:
    rig.world.end_jobs(1200)
    cli = CommandLine(server.url, ps.settings.namespace)

    said = cli("spark", "archive", "-q", "mail", "--to", rig.lake.uri, "--once")
    again = cli.json("spark", "archive", "-q", "mail", "--to", rig.lake.uri, "--once")

    # A line is as wide as a terminal is.
    told = said.stdout.replace("\n", "").replace(" ", "")
    assert told == f"archived1,200attemptsin{rig.lake.uri}:1,200of'mail'"
    assert (again["lake"], again["attempts"], again["gaps"]) == (rig.lake.uri, {}, [])
