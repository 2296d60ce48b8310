"""A lake in a bucket: a server on this machine speaks the protocol of S3."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import boto3  # type: ignore[import-untyped]
import pytest

from penstock.errors import LakeUnreadable
from penstock.spark.history_lake import Lake, lake
from penstock.spark.verification import verify
from tests.cli.conftest import CommandLine
from tests.servers import wait_for
from tests.spark.history_worlds import HistoryWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    import penstock
    from tests.servers import RedisServer

SECRET = "open-sesame-2718"
PLACE = "s3://bucket/history"


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    """How the bucket is reached."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _is_open(port), 60)
        options = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        boto3.client(
            "s3",
            endpoint_url=options["AWS_ENDPOINT_URL"],
            region_name=options["AWS_REGION"],
            aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=SECRET,
        ).create_bucket(Bucket="bucket")
        yield options
    finally:
        server.kill()
        server.wait()


def _is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_an_archive_fills_a_bucket_once_and_tells_its_secret_to_nobody(
    spark: SparkSession,
    server: RedisServer,
    ps: penstock.Penstock,
    storage: dict[str, str],
    tmp_path: Path,
    event_log: Path,
) -> None:
    cli = CommandLine(server.url, ps.settings.namespace)
    world = HistoryWorld(ps, server)
    ids = world.end_jobs(40)
    given = [part for pair in storage.items() for part in ("--storage", "=".join(pair))]
    place = ["--to", PLACE, "--checkpoint", str(tmp_path / "checkpoint")]
    archive = ["spark", "archive", "-q", "mail", "--once", *given]

    first = cli.json(*archive, *place)
    ids += world.end_jobs(10)
    second = cli.json(*archive, *place)
    third = cli.json(*archive, *place)
    lost = cli(*archive, *place[:-1], str(tmp_path / "another"))
    nowhere = cli(*archive, "--to", "s3://none/history", "--checkpoint", str(tmp_path / "none"))

    assert [run["attempts"] for run in (first, second, third)] == [{"mail": 40}, {"mail": 10}, {}]
    table = Lake(PLACE, storage).table("attempts")
    assert Counter(table.existing().to_pyarrow_table()["job"].to_pylist()) == Counter(ids)
    assert verify(PLACE, storage_options=storage).findings == []
    assert "is gone, so some would be archived twice" in " ".join(lost.stderr.split())
    assert "404 Not Found" in nowhere.stderr
    assert (lost.exit_code, nowhere.exit_code) == (1, 1)
    with pytest.raises(LakeUnreadable, match=r"no file system for s3://.* deltalake, pyarrow or"):
        lake(PLACE, spark=spark, storage_options=storage)
    logged = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    said = [lost.output, nowhere.output, repr(table), repr(Lake(PLACE, storage)), *logged]
    assert not any(SECRET in text for text in said)
