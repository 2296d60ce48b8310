"""The history of how much is in each queue. No Spark takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.counting import count_queues
from penstock.spark.history_lake import Lake
from tests.contract.job_workers import Hand
from tests.spark.synthetic_history import BEGIN

if TYPE_CHECKING:
    from pathlib import Path

    import penstock

NOON = BEGIN.replace(hour=12, minute=0).timestamp()


@pytest.fixture
def place(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows_of(place: Lake) -> list[dict[str, Any]]:
    rows = place.table("counts").existing().to_pyarrow_table()
    found: list[dict[str, Any]] = rows.sort_by(
        [("at", "ascending"), ("queue", "ascending")]
    ).to_pylist()
    return found


def test_each_queue_of_any_kind_has_a_row(ps: penstock.Penstock, place: Lake) -> None:
    ps.queue("letters").enqueue_many([b"a", b"b", b"c"])
    ps.jobs("mail").add_many("email", [{}] * 5)
    ps.jobs("mail").add("email", delay=1000)
    hand = Hand(ps)
    hand.take(2)

    assert count_queues(ps, place, NOON + 42) is True

    letters, mail = rows_of(place)
    assert (letters["queue"], letters["kind"], letters["ready"]) == ("letters", "tasks", 3)
    assert (letters["enqueued"], letters["started"], letters["workers"]) == (3, 0, 0)
    assert (mail["queue"], mail["kind"], mail["ready"]) == ("mail", "jobs", 3)
    assert (mail["scheduled"], mail["running"], mail["dead"]) == (1, 2, 0)
    assert (mail["enqueued"], mail["started"], mail["finished"]) == (6, 2, 0)
    assert letters["at"] == mail["at"] == BEGIN.replace(hour=12, minute=0)
    assert letters["day"] == BEGIN.date()


def test_a_minute_is_counted_once(ps: penstock.Penstock, place: Lake) -> None:
    ps.queue("letters").enqueue(b"a")
    count_queues(ps, place, NOON)
    ps.queue("letters").enqueue(b"b")

    assert count_queues(ps, place, NOON + 59) is False
    assert count_queues(ps, place, NOON - 60) is False
    assert count_queues(ps, place, NOON + 60) is True

    assert [row["ready"] for row in rows_of(place)] == [1, 2]


def test_a_namespace_without_queues_leaves_no_rows(ps: penstock.Penstock, place: Lake) -> None:
    assert count_queues(ps, place, NOON) is False

    assert rows_of(place) == []
