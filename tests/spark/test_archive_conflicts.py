"""A lake, its checkpoint and the store that do not fit together: an archive stops, and says why."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ArchiveFailed, LakeConflict
from tests.cli.conftest import CommandLine
from tests.servers import wait_for
from tests.spark.archive_rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def rig(spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path) -> Rig:
    return Rig(spark, ps, server, tmp_path / "history")


@pytest.mark.parametrize("address", [str, Path.as_uri], ids=["path", "uri"])
def test_an_older_copy_of_the_checkpoint_is_refused(
    rig: Rig, tmp_path: Path, address: Callable[[Path], str]
) -> None:
    folder = tmp_path / "checkpoint"
    ids = rig.world.end_jobs(5)
    rig.archive("mail", checkpoint=address(folder))
    shutil.copytree(folder, tmp_path / "copy")
    ids += rig.world.end_jobs(4)
    rig.archive("mail", checkpoint=address(folder))
    rig.world.end_jobs(3)

    with pytest.raises(LakeConflict, match="that is an older copy, so some attempts would be left"):
        rig.archive("mail", checkpoint=address(tmp_path / "copy"))

    assert rig.jobs() == Counter(ids)


def test_an_older_copy_of_the_lake_and_another_lake_are_refused(rig: Rig, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    rig.world.end_jobs(5)
    rig.archive("mail", checkpoint=checkpoint)
    table = Path(rig.lake.table("attempts").uri)
    shutil.copytree(table, tmp_path / "copy")
    rig.world.end_jobs(4)
    rig.archive("mail", checkpoint=checkpoint)
    newest = table.rename(tmp_path / "newest")

    with pytest.raises(LakeConflict, match=r"lacks attempts .* it is an older copy, or another"):
        rig.archive("mail", checkpoint=checkpoint)
    shutil.rmtree(table)
    shutil.copytree(tmp_path / "copy", table)
    with pytest.raises(LakeConflict, match=r"lacks attempts of queue 'mail' which .*/checkpoint/m"):
        rig.archive("mail", checkpoint=checkpoint)
    shutil.rmtree(table)
    newest.rename(table)

    assert rig.archive("mail", checkpoint=checkpoint).rows == {}


def test_the_checkpoint_of_another_lake_is_refused(rig: Rig, tmp_path: Path) -> None:
    rig.world.end_jobs(5)
    rig.archive("mail")
    checkpoint = Path(rig.lake.uri, "_penstock")
    checkpoint.rename(tmp_path / "first")
    shutil.move(rig.lake.uri, tmp_path / "other")
    rig.archive("mail")
    shutil.rmtree(Path(rig.lake.uri, "attempts"))
    shutil.move(tmp_path / "other" / "attempts", rig.lake.uri)

    with pytest.raises(LakeConflict, match="is of another one, so some would be archived twice"):
        rig.archive("mail")


def test_what_is_gone_from_the_store_stops_the_command_which_says_what_and_what_to_do(
    rig: Rig, server: RedisServer, ps: penstock.Penstock
) -> None:
    client: Any = server.client
    key = ps.keys.queue("mail").history
    cli = CommandLine(server.url, ps.settings.namespace)
    ids = rig.world.end_jobs(10)
    rig.archive("mail")
    rig.world.end_jobs(10)

    def said() -> str:
        result = cli("spark", "archive", "-q", "mail", "--to", rig.lake.uri, "--once")
        assert result.exit_code == 1
        assert result.stdout == ""
        return " ".join(result.stderr.split())

    client.xtrim(key, maxlen=3, approximate=False)
    trimmed = said()
    client.delete(key)
    emptied = said()
    ps.jobs("mail").delete()
    absent = said()
    ps.jobs("mail").add("email")
    made_anew = said()

    assert "were removed before they were read; the oldest is" in trimmed
    assert "is empty, before" in emptied
    assert "the store was emptied, or is an older copy" in emptied
    assert "queue 'mail' is gone, and its history with it, which was read up to" in absent
    assert "queue 'mail' was deleted and made anew" in made_anew
    for text in (trimmed, emptied, absent, made_anew):
        assert "--skip-gap on the command line" in text
    assert rig.jobs() == Counter(ids)


def test_of_two_archives_of_a_queue_in_one_session_the_second_has_no_effect(rig: Rig) -> None:
    ids = rig.world.end_jobs(10)
    with rig.going_on("mail") as first:
        first.wait_until(lambda: rig.jobs() == Counter(ids))
        with pytest.raises(ArchiveFailed, match="already active"):
            rig.archive("mail")
        ids += rig.world.end_jobs(10)
        first.wait_until(lambda: rig.jobs() == Counter(ids))

    assert first.error is None


def test_an_archive_whose_query_is_stopped_from_elsewhere_says_so(
    rig: Rig, spark: SparkSession
) -> None:
    ids = rig.world.end_jobs(10)
    with rig.going_on("mail") as running:
        running.wait_until(lambda: rig.jobs() == Counter(ids))
        (query,) = spark.streams.active
        query.stop()
        wait_for(lambda: not running.is_alive(), PATIENCE_S)

    assert isinstance(running.error, LakeConflict)
    assert "was stopped from elsewhere" in str(running.error)
