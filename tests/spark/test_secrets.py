"""The password of a store stands in no plan, no error and no event log."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

import penstock
import penstock.spark
from penstock.errors import HistoryLost

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers import RedisServer

PASSWORD = "open-sesame-7351"


@pytest.fixture
def secret_url(own_server: RedisServer) -> str:
    """A store that asks for a password."""
    own_server.command("ACL", "SETUSER", "canary", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    return f"unix://canary:{PASSWORD}@{own_server.socket}"


def test_a_password_given_as_an_option_is_shown_nowhere(
    spark: SparkSession, secret_url: str, event_log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with penstock.connect(secret_url, namespace="canary") as ps:
        ps.queue("mail").enqueue(b"a")
    frame = (
        spark.read.format("penstock")
        .options(url=secret_url, namespace="canary", queue="mail")
        .load()
        .selectExpr("payload AS seen_by_the_canary")
    )

    assert frame.count() == 1
    frame.collect()
    frame.explain(True)
    frame.explain("formatted")
    frame.createOrReplaceTempView("canaries")
    spark.sql("DESCRIBE EXTENDED canaries").show(100, truncate=False)

    _check_what_was_said(event_log, capfd)


def test_a_password_of_a_stream_that_writes_is_shown_nowhere(
    spark: SparkSession,
    secret_url: str,
    event_log: Path,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    spark.range(3).selectExpr("CAST(id AS STRING) AS seen_by_the_canary").write.parquet(
        str(tmp_path / "source")
    )
    source = spark.readStream.schema("seen_by_the_canary STRING").parquet(str(tmp_path / "source"))
    options = {"url": secret_url, "namespace": "canary", "queue": "mail"}

    query = (
        source.writeStream.format("penstock")
        .options(**options, payload="seen_by_the_canary")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(True)

    with penstock.connect(secret_url, namespace="canary") as ps:
        assert ps.queue("mail").count() == 3
    progress = [str(part.json) for part in query.recentProgress]
    assert progress and not any(PASSWORD in text for text in progress)
    assert not any(
        PASSWORD in path.read_text(errors="replace")
        for path in (tmp_path / "checkpoint").rglob("*")
        if path.is_file()
    )
    _check_what_was_said(event_log, capfd)


def test_a_password_of_an_archive_is_shown_nowhere_also_if_it_fails(
    spark: SparkSession,
    own_server: RedisServer,
    secret_url: str,
    event_log: Path,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def archive() -> None:
        penstock.spark.archive(
            ["mail"],
            tmp_path / "history",
            url=secret_url,
            namespace="canary",
            spark=spark,
            progress=lambda done: seen.append(repr(done)),
        )

    with penstock.connect(secret_url, namespace="canary") as ps:
        ps.jobs("mail").add("email").cancel()
        archive()
        key = ps.keys.queue("mail").history
    own_server.command("XADD", key, "*", "attempt", b"\x01 no entry")
    with pytest.raises(HistoryLost) as failure:
        archive()

    said = [*seen, "".join(traceback.format_exception(failure.value)), *capfd.readouterr()]
    texts = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    kept = (tmp_path / "history").rglob("*")
    texts += [path.read_text(errors="replace") for path in kept if path.is_file()]
    assert seen
    assert not any(PASSWORD in text for text in said + texts)


def _check_what_was_said(event_log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = "".join(capfd.readouterr())
    assert "seen_by_the_canary" in printed
    assert PASSWORD not in printed
    logged = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert any("seen_by_the_canary" in text for text in logged)
    assert not any(PASSWORD in text for text in logged)
