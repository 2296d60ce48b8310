"""Delta tables that many processes append to. No Spark takes part."""

from __future__ import annotations

import base64
import json
import string
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import (
    InvalidArgument,
    InvalidName,
    LakeNotFound,
    LakeNotShared,
    LakeUnreadable,
)
from penstock.spark.delta import DataFile, Table, TableLayout, live_files
from penstock.spark.history_lake import LAYOUTS, Lake
from penstock.spark.lake_files import TableFiles, write_rows
from tests.spark.synthetic_history import BEGIN, history

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def attempts(tmp_path: Path) -> Table:
    return Lake(tmp_path).table("attempts")


def files_of(table: Table, rows: int, queues: Sequence[str] = ("images", "mail")) -> list[DataFile]:
    return write_rows(history(rows, queues=queues), table, "ended_at")


def jobs_in(table: Table) -> list[str]:
    return sorted(table.existing().to_pyarrow_table()["job"].to_pylist())


def test_a_batch_becomes_part_of_the_table_in_one_step(attempts: Table) -> None:
    files = files_of(attempts, 100)

    assert attempts.append(files, "archive", 0) is True

    assert attempts.existing().version() == 1
    assert len(jobs_in(attempts)) == 100


def test_the_same_batch_twice_has_one_effect(attempts: Table) -> None:
    attempts.append(files_of(attempts, 100), "archive", 7)

    assert attempts.append(files_of(attempts, 100), "archive", 7) is False
    assert attempts.append(files_of(attempts, 100), "archive", 6) is False

    assert len(jobs_in(attempts)) == 100


def test_batches_of_different_applications_do_not_hide_each_other(attempts: Table) -> None:
    attempts.append(files_of(attempts, 10), "one", 0)

    assert attempts.append(files_of(attempts, 10), "other", 0) is True

    assert len(jobs_in(attempts)) == 20


def test_of_many_that_commit_one_batch_at_the_same_time_one_does(attempts: Table) -> None:
    attempts.open()
    batches = [files_of(attempts, 10) for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(lambda files: attempts.append(files, "archive", 0), batches))

    assert sorted(added) == [False] * 7 + [True]
    assert len(jobs_in(attempts)) == 10


def test_applications_that_make_the_table_and_commit_at_the_same_time_lose_nothing(
    attempts: Table,
) -> None:
    def make_and_commit(application: str) -> bool:
        return attempts.append(files_of(attempts, 10), application, 0)

    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(make_and_commit, "abcdefgh"))

    assert added == [True] * 8
    assert len(jobs_in(attempts)) == 80


def test_a_batch_survives_a_compaction_of_the_table_it_was_checked_against(
    attempts: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(4):
        attempts.append(files_of(attempts, 10), "archive", version)
    late = files_of(attempts, 10)
    opened = DeltaTable(attempts.uri)
    attempts.compact()
    handles = iter([opened])
    monkeypatch.setattr(Table, "open", lambda table: next(handles, table.existing()))

    assert attempts.append(late, "archive", 4) is True

    assert len(jobs_in(attempts)) == 50


def test_compaction_joins_files_and_vacuum_deletes_what_nobody_reads(attempts: Table) -> None:
    for version in range(4):
        attempts.append(files_of(attempts, 50), "archive", version)
    before = jobs_in(attempts)
    orphans = files_of(attempts, 50)

    assert attempts.compact() > 0
    assert attempts.vacuum() == []
    deleted = attempts.vacuum(retention_hours=0)

    assert jobs_in(attempts) == before
    assert {file.path for file in orphans} <= set(deleted)
    on_disk = {str(path) for path in Path(attempts.uri).rglob("*.parquet")}
    assert on_disk == set(attempts.existing().file_uris())


def test_half_a_file_of_a_writer_that_died_is_no_part_of_the_table_and_is_deleted(
    attempts: Table,
) -> None:
    attempts.append(files_of(attempts, 50, ["images"]), "archive", 0)
    before = jobs_in(attempts)
    whole = Path(attempts.uri, files_of(attempts, 50, ["images"])[0].path)
    halves = [whole.with_name("half.parquet"), whole.with_name("half.parquet#1")]
    for half in halves:
        half.write_bytes(whole.read_bytes()[:1000])
    whole.unlink()

    attempts.append(files_of(attempts, 50, ["images"]), "archive", 1)
    attempts.vacuum(retention_hours=0)

    assert jobs_in(attempts) == sorted(before * 2)
    assert [half.exists() for half in halves] == [False, False]


def test_a_table_of_an_older_version_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    newer = LAYOUTS["attempts"]
    older = newer.schema.remove(newer.schema.get_field_index("error_type"))
    old = Table(str(tmp_path), TableLayout(older, newer.partition_by))
    old.append(files_of(old, 10), "archive", 0)

    new = Table(str(tmp_path), newer)
    new.append(files_of(new, 10), "archive", 1)

    errors = new.existing().to_pyarrow_table()["error_type"]
    assert len(errors) == 20
    assert errors.null_count >= 10


def test_an_older_version_goes_on_with_a_table_that_has_more_columns(tmp_path: Path) -> None:
    newer = LAYOUTS["attempts"]
    new = Table(str(tmp_path), newer)
    new.append(files_of(new, 10), "archive", 0)
    older = newer.schema.remove(newer.schema.get_field_index("error_type"))

    old = Table(str(tmp_path), TableLayout(older, newer.partition_by))
    old.append(files_of(old, 10), "archive", 1)

    assert len(jobs_in(new)) == 20


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    layout = LAYOUTS["attempts"]
    position = layout.schema.get_field_index("ran_us")
    other = layout.schema.set(position, pa.field("ran_us", pa.string()))
    Table(str(tmp_path), TableLayout(other, layout.partition_by)).open()

    with pytest.raises(LakeUnreadable, match=r"'ran_us' .* archive into another folder"):
        Table(str(tmp_path), layout).open()


def test_rows_are_kept_apart_by_day_in_utc_and_by_queue(attempts: Table) -> None:
    attempts.append(files_of(attempts, 1000, ["images", "a b/c%:é", "01"]), "archive", 0)

    rows = attempts.existing().to_pyarrow_table()

    assert {
        (at.date(), queue)
        for at, queue in zip(rows["ended_at"].to_pylist(), rows["queue"].to_pylist(), strict=True)
    } == set(zip(rows["day"].to_pylist(), rows["queue"].to_pylist(), strict=True))
    assert len(set(rows["day"].to_pylist())) == 2
    assert sorted(set(rows["queue"].to_pylist())) == ["01", "a b/c%:é", "images"]


def test_statistics_let_readers_leave_out_files_of_other_times(attempts: Table) -> None:
    (file,) = files_of(attempts, 10, ["images"])[:1]

    stats = json.loads(file.stats)

    assert stats["numRecords"] > 0
    assert stats["minValues"]["ended_at"].startswith(f"{BEGIN:%Y-%m-%d}")
    assert stats["minValues"]["ended_at"] <= stats["maxValues"]["ended_at"]


def test_rows_of_many_partitions_use_few_open_files(attempts: Table) -> None:
    names = [f"queue-{number}" for number in range(40)]
    attempts.open()
    files = TableFiles(attempts, "ended_at")
    for batch in history(200, queues=names, hours=1).to_batches(max_chunksize=50):
        files.write(batch)
    parts = files.close()

    attempts.append([part.file for part in parts], "archive", 0)

    assert len(jobs_in(attempts)) == 200


def test_a_queue_with_a_name_too_long_for_a_folder_is_refused(attempts: Table) -> None:
    with pytest.raises(
        InvalidName, match=r"255 is the limit; archive queues and logs with shorter names"
    ):
        files_of(attempts, 10, ["é" * 100])


def test_a_machine_that_does_not_see_the_folder_says_so(attempts: Table) -> None:
    with pytest.raises(LakeNotShared, match=r"do not see the same files in .* or s3://"):
        TableFiles(attempts, "ended_at")


def test_a_place_without_a_table_is_an_error_that_says_what_makes_one(attempts: Table) -> None:
    with pytest.raises(LakeNotFound, match="`penstock spark archive` makes one"):
        attempts.existing()


def test_a_table_that_is_not_in_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=r"no table 'jobs'; it has attempts, messages, counts, gaps"
    ):
        Lake(tmp_path).table("jobs")  # type: ignore[arg-type]


def test_a_table_with_deletion_vectors_is_refused(attempts: Table) -> None:
    attempts.append(files_of(attempts, 10), "archive", 0)
    _log(attempts, with_deletion_vectors(attempts))

    with pytest.raises(LakeUnreadable, match="were deleted by deletion vectors"):
        live_files(attempts.existing())


def test_a_table_whose_columns_have_other_names_in_its_files_is_refused(attempts: Table) -> None:
    attempts.append(files_of(attempts, 10), "archive", 0)
    _log(attempts, [protocol("columnMapping")])

    with pytest.raises(LakeUnreadable, match="uses columnMapping"):
        live_files(attempts.existing())


def protocol(feature: str) -> dict[str, object]:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [feature],
            "writerFeatures": [feature],
        }
    }


def with_deletion_vectors(table: Table) -> list[dict[str, object]]:
    """What another program writes that deletes the first two rows of a file."""
    log = Path(table.uri, "_delta_log", f"{1:020d}.json").read_text().splitlines()
    (add, *_) = (json.loads(line) for line in log if '"add"' in line)
    remove = {"path": add["add"]["path"], "dataChange": True, "deletionTimestamp": 1}
    # A magic number, one bitmap for the high word 0, in it one container with the values 0 and 1.
    bitmap = struct.pack("<IQIIIHHIHH", 1681511377, 1, 0, 12346, 1, 0, 1, 16, 0, 1)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": base64.b85encode(bitmap).translate(bytes.maketrans(B85, Z85)).decode(),
        "sizeInBytes": len(bitmap),
        "cardinality": 2,
    }
    added = {**add["add"], "deletionVector": vector}
    return [protocol("deletionVectors"), {"remove": remove}, {"add": added}]


# Delta's log has base 85 with the characters of ZeroMQ, Python writes those of Git.
_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
B85 = (_LETTERS + "!#$%&()*+-;<=>?@^_`{|}~").encode()
Z85 = (string.digits + string.ascii_lowercase + string.ascii_uppercase).encode()
Z85 += b".-:+=^!/*?&<>()[]{}@%$#"


def _log(table: Table, actions: Sequence[dict[str, object]]) -> None:
    version = table.existing().version() + 1
    path = Path(table.uri, "_delta_log", f"{version:020d}.json")
    path.write_text("\n".join(json.dumps(action) for action in actions))
