"""The lake: a folder of Delta tables with what happened in queues, and with logs.

`attempts` has a row for each attempt that ended, `messages` one for each message of a log, `counts`
one for each minute and queue, and `gaps` one for each piece of a history or of a partition that was
gone before it could be archived.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from deltalake import Schema
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import decode, encode
from pyspark.sql.types import StructType

from penstock.errors import InvalidArgument, LakeNotFound, LakeUnreadable
from penstock.spark.delta import Table, TableLayout, live_files
from penstock.spark.failures import reason_of
from penstock.spark.schemas import HISTORY, MESSAGES, arrow_schema
from penstock.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

TableName = Literal["attempts", "messages", "counts", "gaps"]

_DAY = pa.field("day", pa.date32())
_TIME = pa.timestamp("us", "UTC")

# How Spark names a file in which it met an error; the error itself may not.
_FILE = re.compile(r"while reading file (\S+\.parquet)")

DEPTHS = ("ready", "scheduled", "blocked", "running", "dead")
"""What is in a queue at one instant."""

COUNTERS = ("enqueued", "started", "finished", "stopped", "failed", "lost", "cancelled", "deleted")
"""What has happened in a queue since it was made, as `penstock.model.queues.Counters` has it. They
only grow, and begin anew with a new incarnation."""

LAYOUTS: dict[TableName, TableLayout] = {
    "attempts": TableLayout(arrow_schema(HISTORY).append(_DAY), ("day", "queue")),
    "messages": TableLayout(
        pa.schema(
            [
                ("log", pa.string()),
                ("born", pa.string()),
                *arrow_schema(MESSAGES),
                ("appended_at", _TIME),
                _DAY,
            ]
        ),
        ("day", "log"),
    ),
    "counts": TableLayout(
        pa.schema(
            [
                ("at", _TIME),
                ("queue", pa.string()),
                ("kind", pa.string()),
                ("incarnation", pa.string()),
                ("is_paused", pa.bool_()),
                ("workers", pa.int32()),
                ("idle_workers", pa.int32()),
                *((name, pa.int64()) for name in DEPTHS),
                *((name, pa.int64()) for name in COUNTERS),
                _DAY,
            ]
        ),
        ("day",),
    ),
    "gaps": TableLayout(
        pa.schema(
            [
                ("found_at", _TIME),
                ("queue", pa.string()),
                ("reader", pa.string()),
                ("reason", pa.string()),
                ("after_place", pa.string()),
                ("next_place", pa.string()),
                ("log", pa.string()),
                ("partition", pa.int32()),
                _DAY,
            ]
        ),
        ("day",),
    ),
}


class Lake:
    """The tables of one lake. Tables are made when something is first put into them."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = _uri_of(path)
        self._storage_options = dict(storage_options or {})

    def table(self, name: TableName) -> Table:
        if name not in LAYOUTS:
            raise InvalidArgument(f"a lake has no table {name!r}; it has {', '.join(LAYOUTS)}")
        return Table(f"{self.uri}/{name}", LAYOUTS[name], self._storage_options)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of this machine, or of a file system mounted on it."""
        return "://" not in self.uri

    def read(self, spark: SparkSession, name: TableName = "attempts") -> DataFrame:
        """The rows of a table as they are now; what is archived later is not among them."""
        table = self.table(name)
        found = table.existing()
        files = live_files(found)
        # Delta writes a schema as Spark does.
        schema = StructType.fromJson(json.loads(found.schema().to_json()))
        if not files:
            return spark.createDataFrame([], schema)
        # With the schema given, a queue named '01' stays text. Files are named one by one: a
        # folder may also hold files of writers that died, and of compactions.
        reader = spark.read.schema(schema).option("basePath", table.uri)
        with unreadable_explained(self.uri):
            rows = reader.parquet(*files)
        return _with_names_decoded(rows, found).select(*schema.names)

    def read_if_there(self, spark: SparkSession, name: TableName) -> DataFrame:
        """The same; no rows if nothing was ever put into the table."""
        try:
            return self.read(spark, name)
        except LakeNotFound:
            schema = Schema.from_arrow(LAYOUTS[name].schema).to_json()
            return spark.createDataFrame([], StructType.fromJson(json.loads(schema)))


def lake(
    path: str | Path,
    table: TableName = "attempts",
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """What `penstock spark archive` has put into a table of a lake, as a DataFrame: the history
    of queues, or "messages" of logs, or what else the lake has.

    Uses the active session unless one is given. Raises LakeNotFound if nothing is there, and
    LakeUnreadable if files are missing, if Spark cannot reach them, or if another program has
    changed the table in a way which its files do not show.
    """
    active = spark or SparkSession.getActiveSession() or session()
    return Lake(path, storage_options).read(active, table)


@contextmanager
def unreadable_explained(uri: str) -> Iterator[None]:
    """What Spark says of files that it cannot read becomes LakeUnreadable."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        scheme = uri.partition("://")[0]
        if "No FileSystem for scheme" in reason:
            raise LakeUnreadable(
                f"Spark cannot read {uri}, as it has no file system for {scheme}://; give it one, "
                f"such as the package hadoop-aws with spark.hadoop.fs.{scheme}.impl set, or read "
                "the lake with deltalake, pyarrow or duckdb"
            ) from error
        file = _FILE.search(str(error))
        raise LakeUnreadable(
            f"Spark cannot read {file[1] if file else f'the lake {uri}'}: {reason}; `penstock "
            "spark verify` names all files that are missing or broken"
        ) from error


def _with_names_decoded(rows: DataFrame, table: DeltaTable) -> DataFrame:
    """Spark takes each escaped byte of a folder's name for a character; names have UTF-8."""
    for column in ("queue", "log"):
        names = {str(partition.get(column, "")) for partition in table.partitions()}
        # A column as it is lets Spark leave out the folders of other queues.
        if not all(name.isascii() for name in names):
            rows = rows.withColumn(column, decode(encode(column, "ISO-8859-1"), "UTF-8"))
    return rows


def _uri_of(path: str | Path) -> str:
    text = str(path)
    if not text:
        raise InvalidArgument("the path of a lake is empty; give a folder or a place such as s3://")
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())
