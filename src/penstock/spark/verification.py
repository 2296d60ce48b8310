"""Whether a lake still has what its log says: each file there, whole, and with all its rows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType, PyFileSystem

from penstock.errors import LakeNotFound
from penstock.spark.history_lake import LAYOUTS, Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.spark.delta import Table


class Finding(NamedTuple):
    """A file that is not as the log says."""

    table: str
    file: str
    wrong: str


class Verification(NamedTuple):
    """What was read, and what is wrong with it."""

    files: int
    rows: int
    """in files that are as they should be"""
    findings: list[Finding]


def verify(
    path: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Read every file of a lake, and compare it with the log; no Spark takes part.

    A flipped bit is found by the checksums that an archive puts into its files; compaction writes
    files without, in which it is found if it makes them unreadable. `progress` is told how many of
    how many files were read. Raises LakeNotFound if nothing is there.
    """
    lake = Lake(path, storage_options)
    tables = {}
    for name in LAYOUTS:
        with suppress(LakeNotFound):
            tables[name] = (lake.table(name), _logged(lake.table(name)))
    if not tables:
        lake.table("attempts").existing()  # says that nothing is there
    total = sum(len(logged) for _, logged in tables.values())
    files = rows = 0
    findings: list[Finding] = []
    for name, (table, logged) in tables.items():
        storage = PyFileSystem(DeltaStorageHandler(table.uri, dict(table.storage_options)))
        for file in logged:
            wrong = _wrong_with(storage, file)
            if wrong:
                findings.append(Finding(name, file.path, wrong))
            else:
                rows += file.rows
            files += 1
            if progress is not None:
                progress(files, total)
    return Verification(files, rows, findings)


class _Logged(NamedTuple):
    """What the log says about a file."""

    path: str
    size: int
    rows: int


def _logged(table: Table) -> list[_Logged]:
    actions = pa.table(table.existing().get_add_actions(flatten=True))
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    # The log has paths as a URL does.
    return [_Logged(unquote(path), size, rows) for path, size, rows in zip(*columns, strict=True)]


def _wrong_with(storage: PyFileSystem, file: _Logged) -> str:
    """Empty if nothing is."""
    found = storage.get_file_info(file.path)
    if found.type != FileType.File:
        return "is missing"
    if found.size != file.size:
        return f"has {found.size:,} bytes, not {file.size:,}"
    try:
        with storage.open_input_file(file.path) as source:
            opened = pq.ParquetFile(source, page_checksum_verification=True)
            rows = sum(batch.num_rows for batch in opened.iter_batches())
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    return "" if rows == file.rows else f"has {rows:,} rows, not {file.rows:,}"
