"""`format("penstock")` with the option `jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader

    import penstock


def test_jobs_are_a_data_frame(read: DataFrameReader, ps: penstock.Penstock) -> None:
    jobs = ps.jobs("mail").add_many("email", [{"to": "ann"}, {"to": "bob"}], tags=["new"])
    hand = Hand(ps)
    for handed in hand.take(2):
        hand.finish(handed, len(handed.data))

    frame = read.options(jobs="mail", state="done").load()
    rows = (
        frame.selectExpr("id", "get_json_object(data, '$.to') AS to", "int(result)", "tags")
        .orderBy("to")
        .collect()
    )

    assert [tuple(row) for row in rows] == [
        (jobs[0].id, "ann", 12, ["new"]),
        (jobs[1].id, "bob", 12, ["new"]),
    ]
    took = frame.selectExpr("finished_at >= created_at AND started_at IS NOT NULL").distinct()
    assert [row[0] for row in took.collect()] == [True]


def test_jobs_are_read_by_several_tasks(read: DataFrameReader, ps: penstock.Penstock) -> None:
    ps.jobs("mail").add_many("email", range(2500))

    frame = read.options(jobs="mail", state="ready", pagesPerPartition=1).load()

    assert frame.selectExpr("spark_partition_id() AS part").distinct().count() == 5
    assert frame.selectExpr("sum(int(data))").collect()[0][0] == sum(range(2500))


def test_no_jobs_are_an_empty_data_frame(read: DataFrameReader, ps: penstock.Penstock) -> None:
    ps.jobs("mail").add("email")

    assert read.options(jobs="mail", state="dead").load().collect() == []


def test_a_state_must_be_given(read: DataFrameReader) -> None:
    with pytest.raises(AnalysisException, match="option 'state' is missing"):
        read.options(jobs="mail").load()
