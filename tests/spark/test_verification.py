"""A lake is compared with its log. No Spark takes part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from penstock.errors import LakeNotFound
from penstock.spark.history_lake import Lake
from penstock.spark.lake_files import write_rows
from penstock.spark.verification import Finding, verify
from tests.cli.conftest import CommandLine
from tests.spark.synthetic_history import history

if TYPE_CHECKING:
    from penstock.spark.delta import Table

QUEUES = ["images", "a b/c%:é"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Lake(tmp_path).table("attempts")
    table.append(write_rows(history(400, queues=QUEUES, hours=1), table, "ended_at"), "archive", 0)
    return table


@pytest.fixture
def file(table: Table) -> Path:
    """One of its files."""
    return Path(sorted(table.existing().file_uris())[0])


def found_in(table: Table) -> list[Finding]:
    return verify(Path(table.uri).parent).findings


def test_a_lake_that_is_whole_has_no_findings_also_beside_files_of_dead_writers(
    table: Table,
) -> None:
    table.append(write_rows(history(100, queues=QUEUES, hours=1), table, "ended_at"), "archive", 1)
    table.compact()
    write_rows(history(10), table, "ended_at")
    seen: list[tuple[int, int]] = []

    done = verify(Path(table.uri).parent, progress=lambda *read: seen.append(read))

    assert done == (2, 500, [])
    assert seen == [(1, 2), (2, 2)]


def test_a_missing_file_is_named(table: Table, file: Path) -> None:
    file.unlink()

    (finding,) = found_in(table)

    assert (finding.table, finding.wrong) == ("attempts", "is missing")
    assert Path(table.uri, finding.file) == file


def test_a_file_that_was_cut_off_is_named_with_both_sizes(table: Table, file: Path) -> None:
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:1000])

    (finding,) = found_in(table)

    assert finding.wrong == f"has 1,000 bytes, not {size:,}"


def test_a_file_that_is_no_parquet_any_more_is_named(table: Table, file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-4:] = b"????"
    file.write_bytes(data)

    (finding,) = found_in(table)

    assert finding.wrong.startswith("cannot be read: ")


def test_a_flipped_bit_is_found_by_the_checksums_of_a_file(table: Table, file: Path) -> None:
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    end = column.dictionary_page_offset + column.total_compressed_size
    whole = file.read_bytes()

    found = []
    for place in range(end - 20, end):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        found.append([finding.wrong.partition(":")[0] for finding in found_in(table)])

    assert found == [["cannot be read"]] * 20


def test_rows_that_are_fewer_than_the_log_says_are_counted(table: Table, file: Path) -> None:
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    _log_size(table, file)

    (finding,) = found_in(table)

    assert finding.wrong == "has 199 rows, not 200"


def test_the_command_says_what_is_wrong_and_fails(table: Table, file: Path) -> None:
    cli = CommandLine("unix:///nowhere", "none", columns=300)
    lake = str(Path(table.uri).parent)

    whole = cli("spark", "verify", lake)
    file.unlink()
    broken = cli("spark", "verify", lake)
    document = json.loads(cli("spark", "verify", lake, "--json").stdout)

    assert (whole.exit_code, whole.stdout) == (0, "2 files, 400 rows: all whole\n")
    assert broken.exit_code == 1
    assert file.name in broken.stdout
    assert broken.stdout.endswith("2 files, 200 rows: 1 file wrong\n")
    assert document["is_whole"] is False
    assert [finding["wrong"] for finding in document["findings"]] == ["is missing"]


def test_a_place_without_a_lake_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match="there is no table at"):
        verify(tmp_path)


def _log_size(table: Table, file: Path) -> None:
    """Let the log have the size that a file has now."""
    (log,) = Path(table.uri, "_delta_log").glob("*1.json")
    lines = []
    for line in log.read_text().splitlines():
        action = json.loads(line)
        if "add" in action and file.name in action["add"]["path"]:
            action["add"]["size"] = file.stat().st_size
        lines.append(json.dumps(action))
    log.write_text("\n".join(lines))
