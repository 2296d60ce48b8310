"""An archive that goes on: it takes what comes, counts, tidies up, passes over gaps, and stops."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from penstock.cli.options import OWN_PROCESS
from penstock.cli.program import program
from penstock.errors import HistoryLost
from penstock.model.history import place_key
from penstock.spark.lake_files import write_rows
from penstock.spark.lake_stream import LakeStream
from tests.servers import wait_for
from tests.spark.archive_rig import EAGER, PATIENCE_S, Rig
from tests.spark.synthetic_history import BEGIN, history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    import penstock
    from penstock.spark.archiving import Archived
    from tests.servers import RedisServer

NINE_DAYS_S = 9 * 86400
NOON = BEGIN.replace(hour=12).timestamp()


@pytest.fixture
def rig(spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path) -> Rig:
    return Rig(spark, ps, server, tmp_path / "history")


@pytest.fixture
def signals() -> Iterator[None]:
    """What signals do is put back afterwards."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def lose_oldest(ps: penstock.Penstock, server: RedisServer, left: int) -> None:
    """Write entries again behind the last one, and trim all but a few, in one step."""
    key = ps.keys.queue("mail").history
    client: Any = server.client
    [(_, fields)] = client.xrevrange(key, count=1)
    pipeline = client.pipeline(transaction=True)
    for _ in range(left + 5):
        pipeline.xadd(key, fields)
    pipeline.xtrim(key, maxlen=left, approximate=False)
    pipeline.execute()


def test_what_ends_while_it_runs_is_archived_also_in_a_queue_that_comes_later(
    rig: Rig, ps: penstock.Penstock
) -> None:
    ids = rig.world.end_jobs(10)
    with rig.going_on("mail", "images") as running:
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        ids += rig.world.end_jobs(5)
        ids += rig.world.end_jobs(7, queue="images")
        running.wait_until(lambda: rig.jobs() == Counter(ids))

    assert running.error is None
    assert running.done is not None
    assert running.done.rows == {"mail": 15, "images": 7}
    (mark,) = ps.jobs("mail").history_bounds().marks
    places = dict(zip(rig.rows("attempts", "place"), rig.rows("attempts", "queue"), strict=True))
    last = max((place for place, queue in places.items() if queue == "mail"), key=place_key)
    assert (mark.reader, mark.place) == ("lake", last)


class Clock:
    """Stands still until the test moves it, and knows how often somebody has looked."""

    def __init__(self) -> None:
        self.time = NOON
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.time


def test_queues_are_counted_once_in_each_minute(rig: Rig, ps: penstock.Penstock) -> None:
    ps.jobs("mail").add("email")
    clock = Clock()

    with rig.going_on("mail", housekeeping=replace(EAGER, clock=clock)) as running:
        running.wait_until(lambda: rig.rows("counts", "ready") == [1])
        ps.jobs("mail").add("email")
        looks = clock.looks
        clock.time = NOON + 59
        running.wait_until(lambda: clock.looks > looks + 1)
        clock.time = NOON + 60
        running.wait_until(lambda: sorted(rig.rows("counts", "ready")) == [1, 2])

    assert running.done is not None
    assert running.done.counted == 2
    assert sorted(at.timestamp() for at in rig.rows("counts", "at")) == [NOON, NOON + 60]


def test_small_files_are_joined_and_what_dead_writers_left_is_deleted(
    rig: Rig, ps: penstock.Penstock
) -> None:
    ps.jobs("mail").add("email")
    table = rig.lake.table("attempts")
    rows = history(50, queues=["images", "letters"], hours=1)
    for version in range(4):
        table.append(write_rows(rows, table, "ended_at"), "archive", version)
    before = rig.jobs()
    fresh, old = (write_rows(rows, table, "ended_at")[0].path for _ in range(2))
    orphan = Path(table.uri, old)
    os.utime(orphan, (orphan.stat().st_mtime - NINE_DAYS_S,) * 2)
    assert len(table.existing().file_uris()) == 8

    tidy = replace(EAGER, tidy_every_s=0, many_files=4)
    with rig.going_on("mail", housekeeping=tidy) as running:
        running.wait_until(lambda: not orphan.exists())

    assert running.error is None
    assert len(table.existing().file_uris()) == 2
    assert rig.jobs() == before
    assert Path(table.uri, fresh).exists()  # its writer may still be at work


def test_gaps_in_mid_stream_are_passed_over_one_by_one_and_noted(
    rig: Rig, ps: penstock.Penstock, server: RedisServer
) -> None:
    ids = rig.world.end_jobs(10)
    with rig.going_on("mail", skip_gap=True) as running:
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        last = max(rig.rows("attempts", "place"), key=place_key)
        lose_oldest(ps, server, left=3)
        running.wait_until(lambda: rig.jobs().total() == 13)
        first = ps.jobs("mail").history_bounds().first
        ids = [*rig.jobs().elements()]
        rig.world.reset()
        ids += rig.world.end_jobs(6)
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        ids += rig.world.end_jobs(2)
        running.wait_until(lambda: rig.jobs() == Counter(ids))

    assert running.done is not None
    assert (running.done.rows, running.done.gaps) == ({"mail": 21}, ["mail", "mail"])
    reasons = rig.rows("gaps", "reason")
    assert [" were removed before they were read" in reason for reason in sorted(reasons)] == [
        True,
        False,
    ]
    assert [" was deleted and made anew" in reason for reason in sorted(reasons)] == [False, True]
    at = rig.rows("gaps", "after_place").index(last)
    assert rig.rows("gaps", "next_place")[at] == first


def test_a_gap_in_mid_stream_ends_an_archive_that_may_not_pass_over_it(
    rig: Rig, ps: penstock.Penstock, server: RedisServer
) -> None:
    ids = rig.world.end_jobs(10)
    with rig.going_on("mail") as running:
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        lose_oldest(ps, server, left=3)
        wait_for(lambda: not running.is_alive(), PATIENCE_S)

    assert isinstance(running.error, HistoryLost)
    assert "--skip-gap" in str(running.error)
    assert rig.jobs() == Counter(ids)
    assert rig.rows("gaps", "queue") == []


def test_it_stops_while_a_batch_is_under_way_and_the_next_run_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = rig.world.end_jobs(30)
    is_committed, may_go_on = Event(), Event()
    stop = LakeStream.stop

    def hold_up(_: Archived) -> None:
        is_committed.set()
        may_go_on.wait(PATIENCE_S)

    def stop_slowly(stream: LakeStream) -> None:
        Timer(1, may_go_on.set).start()  # Spark is asked to stop the query before that
        stop(stream)

    monkeypatch.setattr(LakeStream, "stop", stop_slowly)

    with rig.going_on("mail", progress=hold_up) as running:
        running.wait_until(is_committed.is_set)
        running.stop.set()

    assert running.error is None
    rig.archive("mail")
    assert rig.jobs() == Counter(ids)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_which_says_what_it_has_done(
    rig: Rig, server: RedisServer, ps: penstock.Penstock, number: signal.Signals
) -> None:
    ids = rig.world.end_jobs(12)

    def send() -> None:
        wait_for(lambda: rig.jobs() == Counter(ids), PATIENCE_S)
        os.kill(os.getpid(), number)

    sender = Thread(target=send, daemon=True)
    sender.start()
    ended = CliRunner().invoke(
        program,
        [
            *("spark", "archive", "-q", "mail", "--to", rig.lake.uri, "--json"),
            *("--url", server.url, "--namespace", ps.settings.namespace),
        ],
        obj=OWN_PROCESS,
        catch_exceptions=False,
    )
    sender.join()

    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["attempts"] == {"mail": 12}
    assert ended.stderr == ""
