"""A Delta table that many processes append to, each batch of files once.

The library delta-rs reads and writes the log of the table: no jar, and no Spark, is needed.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from penstock.errors import LakeBusy, LakeNotFound, LakeUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

# Each failure means that another writer committed; more writers than this do not share a lake.
_MAX_TRIES = 50

_HALF = re.compile(r".+\.(?:parquet|json)#\d+")

# Features of a table that change neither which rows its files hold nor how they are named.
_HARMLESS_FEATURES = {"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file in the folder of a table, which is no part of it until it is committed."""

    path: str
    """relative to the table, as it is named on disk"""
    size: int
    partition: dict[str, str]
    stats: str
    """number of rows, least and greatest values, as Delta's log has them"""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table, and by which of them its files are kept apart."""

    schema: pa.Schema
    partition_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table: a folder, or a place such as `s3://...` that `storage_options` reach."""

    uri: str
    layout: TableLayout
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def append(self, files: Iterable[DataFile], application: str, version: int) -> bool:
        """Add the files as one step, unless `application` has committed `version` or a later one.

        Returns whether they were added. The same version may be sent any number of times, also by
        two processes at once: the files of one of them become part of the table.
        """
        actions: list[AddAction | RemoveAction] = [_add(file) for file in files]
        for _ in range(_MAX_TRIES):
            table = self.open()
            known = table.transaction_version(application)
            if known is not None and known >= version:
                return False
            try:
                # On the handle that was asked, so that a commit in between makes this one fail.
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    list(self.layout.partition_by),
                    commit_properties=CommitProperties(
                        app_transactions=[Transaction(application, version)]
                    ),
                )
            except CommitFailedError:
                continue
            return True
        raise LakeBusy(
            f"{_MAX_TRIES} commits to the table {self.uri} failed because others committed at the "
            "same time; let fewer programs write to it"
        )

    def open(self) -> DeltaTable:
        """The table as it is now; made if it is not there, and given the columns it lacks."""
        for _ in range(_MAX_TRIES):
            try:
                return self._with_all_columns(self._made())
            except CommitFailedError:
                continue  # another process made or changed it
        raise LakeBusy(f"the table {self.uri} could not be made: others change it all the time")

    def existing(self) -> DeltaTable:
        """The table as it is now, for readers. Raises LakeNotFound if there is none."""
        try:
            return DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except TableNotFoundError:
            raise LakeNotFound(
                f"there is no table at {self.uri}; `penstock spark archive` makes one"
            ) from None

    def compact(self) -> int:
        """Join small files into large ones. Returns how many became fewer.

        Writers go on meanwhile. The small files stay for readers that still use them, until
        `vacuum`.
        """
        for _ in range(_MAX_TRIES):
            try:
                done = self.existing().optimize.compact()
            except CommitFailedError:
                continue  # two compactions at once: the other one has joined the same files
            return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])
        raise LakeBusy(
            f"the table {self.uri} is compacted by others all the time; leave it to them"
        )

    def vacuum(self, retention_hours: int = 168) -> list[str]:
        """Delete files that have been no part of the table for this long: compacted ones, and those
        of writers that died before they committed. Returns their paths.

        The time must be longer than any reader reads and any batch takes to be written.
        """
        deleted = self.existing().vacuum(
            retention_hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        return deleted + self._delete_halves(time.time() - retention_hours * 3600)

    def _delete_halves(self, before: float) -> list[str]:
        """In a folder a file has another name until it is whole, by which the library passes over
        it for ever if its writer dies.
        """
        if "://" in self.uri:
            return []
        folder = Path(self.uri)
        found = [path for path in folder.rglob("*#*") if _HALF.fullmatch(path.name)]
        old = [path for path in found if path.stat().st_mtime <= before]
        for path in old:
            path.unlink(missing_ok=True)
        return [str(path.relative_to(folder)) for path in old]

    def _made(self) -> DeltaTable:
        try:
            return DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except TableNotFoundError:
            return DeltaTable.create(
                self.uri,
                Schema.from_arrow(self.layout.schema),
                mode="ignore",
                partition_by=list(self.layout.partition_by),
                storage_options=dict(self.storage_options),
            )

    def _with_all_columns(self, table: DeltaTable) -> DeltaTable:
        there: dict[str, Any] = {column.name: column.type for column in table.schema().fields}
        wanted = Schema.from_arrow(self.layout.schema).fields
        for column in wanted:
            if column.name in there and there[column.name] != column.type:
                raise LakeUnreadable(
                    f"column {column.name!r} of the table {self.uri} has the type "
                    f"{there[column.name]}, not {column.type}; archive into another folder"
                )
        missing = [column for column in wanted if column.name not in there]
        if not missing:
            return table
        table.alter.add_columns(missing)
        return self.existing()


def live_files(table: DeltaTable) -> list[str]:
    """The files that hold the rows of the table, and no other rows.

    Raises LakeUnreadable if rows of these files were deleted without writing the files anew, or if
    the columns in them have other names: a program that reads the files would see other rows than
    the table has.
    """
    features = set(table.protocol().reader_features or ())
    strange = features - _HARMLESS_FEATURES
    if strange:
        raise LakeUnreadable(
            f"the table {table.table_uri} uses {', '.join(sorted(strange))}, so its files alone do "
            "not tell its rows; read it with a library for Delta tables"
        )
    if "deletionVectors" in features and table.deletion_vectors().read_all().num_rows:
        raise LakeUnreadable(
            f"rows of the table {table.table_uri} were deleted by deletion vectors, so its files "
            "still hold them; run REORG TABLE ... APPLY (PURGE) where they were deleted"
        )
    return table.file_uris()


def _add(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.partition,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=file.stats,
    )
