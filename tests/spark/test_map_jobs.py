"""Rows become jobs, and their results come back beside the keys of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import penstock
from penstock.client.fsck import check
from penstock.errors import InvalidArgument
from penstock.spark import BatchProgress, map_jobs
from penstock.worker.handlers import collect_handlers
from tests.running_worker import RunningWorker, stopped_in_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.servers import RedisServer


@penstock.job(queue="images", attempts=2, backoff=0)
def resize(path: str, width: int) -> dict[str, Any]:
    if path == "bad.png":
        raise ValueError("not an image")
    return {"name": f"{path}@{width}", "size": 2 * width}


@pytest.fixture
def work(ps: penstock.Penstock) -> Iterator[Callable[[], None]]:
    """Starts a worker for the function above."""
    with stopped_in_the_end() as started:
        yield lambda: started.append(
            RunningWorker(ps.settings, collect_handlers([resize]), concurrency=4).start()
        )


@pytest.fixture
def images(spark: SparkSession) -> DataFrame:
    rows = [(f"{number}.png", number) for number in range(300)]
    return spark.createDataFrame([*rows, ("bad.png", 1)], "path string, width int").repartition(3)


def test_each_row_gets_the_result_of_its_job_and_a_second_run_sends_nothing(
    images: DataFrame,
    work: Callable[[], None],
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
) -> None:
    work()
    seen: list[BatchProgress] = []
    for _ in range(2):
        results = map_jobs(
            images,
            resize,
            key="path",
            batch_id="today",
            result_schema="name string, size int",
            timeout=100,
            url=server.url,
            namespace=namespace,
            on_progress=seen.append,
        ).collect()

    by_path = {row["path"]: row for row in results}
    assert len(results) == len(by_path) == 301
    assert by_path["7.png"]["state"] == "done"
    assert by_path["7.png"]["result"].asDict() == {"name": "7.png@7", "size": 14}
    assert by_path["7.png"]["attempts"] == 1
    assert by_path["7.png"]["finished_at"] >= by_path["7.png"]["created_at"]
    bad = by_path["bad.png"]
    assert (bad["state"], bad["attempts"], bad["error_type"]) == (
        "dead",
        2,
        "builtins.ValueError",
    )
    assert "not an image" in bad["error_message"]
    assert seen[-1] == (301, 1, 301)
    counts = ps.jobs("images").counts()
    assert (counts["done"], counts["dead"]) == (300, 1)
    assert check(ps).violations == []


def test_what_has_not_ended_in_time_is_waiting(
    images: DataFrame, server: RedisServer, namespace: str, ps: penstock.Penstock
) -> None:
    ps.jobs("images").configure(max_length=10)

    results = map_jobs(
        images,
        resize.options(tenant="acme", tags=["red"]),
        key=["path", "width"],
        batch_id="today",
        timeout=0,
        url=server.url,
        namespace=namespace,
    )

    assert {row["state"] for row in results.collect()} == {"waiting"}
    assert results.columns[:4] == ["path", "width", "job", "state"]
    [first, *_] = ps.jobs("images").page("ready").jobs
    assert (first.tenant, first.tags) == ("acme", ("red", "batch today"))


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ("path, width from given, values (1), (2)", "path", "several rows have the same key"),
        (
            "cast(null as string) as path, width from given",
            "path",
            "is null, so its row",
        ),
        ("path, width, 1 as other from given", "path", "unexpected keyword argument 'other'"),
        ("path from given", "path", "missing 1 required positional argument: 'width'"),
        (
            "path, width from given",
            "name",
            "column 'name' is not there; the",
        ),
    ],
)
def test_what_cannot_be_told_apart_or_called_is_refused_before_anything_is_sent(
    spark: SparkSession,
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    change: str,
    key: str,
    message: str,
) -> None:
    rows = spark.sql(f"with given as (select 'a.png' as path, 1 as width) select {change}")

    with pytest.raises(InvalidArgument, match=message):
        map_jobs(rows, resize, key=key, batch_id="b", url=server.url, namespace=namespace)

    assert ps.queues() == []


def test_a_key_needs_a_batch(spark: SparkSession, server: RedisServer, namespace: str) -> None:
    rows = spark.createDataFrame([("a.png", 1)], "path string, width int")
    writer = rows.write.format("penstock").option("url", server.url).mode("append")

    with pytest.raises(PySparkException, match="need the option batch_id as well"):
        writer.options(jobs="images", type="resize", key_columns="path").save()
