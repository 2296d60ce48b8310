"""What an archive copies into a lake: the history of a queue, or a log.

Everything else about an archive is the same for both: a query with a checkpoint of its own plans
ranges, executors copy them into files, the driver commits these once, and then the store is told
how far the archive has come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.client.client import Penstock
    from penstock.connection.store import Store
    from penstock.spark.history_lake import TableName
    from penstock.spark.store import Connection


class SourceRange(NamedTuple):
    """What is copied by one Spark task: entries of a source after `start`, up to `end`."""

    name: str
    """of the queue or log"""
    incarnation: str
    """which queue or log of this name it was"""
    partition: int
    """of a log; a history has only 0"""
    start: str
    end: str


class Gap(NamedTuple):
    """Something that was gone before it could be archived."""

    partition: int | None
    """of a log"""
    after: str | None
    """the last place that was archived"""
    next: str | None
    """the first place that is there now"""


@dataclass(frozen=True, slots=True)
class ArchiveSource(ABC):
    """One queue or log. It is sent to executors, so it holds nothing but its name."""

    name: str

    kind: ClassVar[str]
    """what it is, in sentences"""
    content: ClassVar[str]
    rows: ClassVar[str]
    """what it has, as a whole and one by one, in sentences"""
    table: ClassVar[TableName]
    name_column: ClassVar[str]
    """has the name; the table is partitioned by it"""
    time_column: ClassVar[str]
    """of which the table's `day` is made"""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def folder(self) -> str:
        """The name of its checkpoint, which no other source has."""
        return quote(self.name, safe="")

    @abstractmethod
    def check(self, client: Penstock) -> bool:
        """Refuse what is no such source, and a name that is none. Returns whether it is there; one
        of the future is fine.
        """

    @abstractmethod
    def options(self, most_rows: int) -> dict[str, str]:
        """What a stream of its ranges is given, with so many rows in a batch at most."""

    @abstractmethod
    def read(
        self, connection: Connection, store: Store, wanted: SourceRange, fails: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range, with all columns of the table but `day`. Raises HistoryLost or
        LogTrimmed if some are gone, unless told not to.
        """

    @abstractmethod
    def mark(self, client: Penstock, reader: str, ranges: Sequence[SourceRange]) -> None:
        """Tell the store that `reader` does not need these ranges any more."""

    @abstractmethod
    def gaps(self, client: Penstock, end: Any) -> list[Gap]:
        """What is missing now after the end of a batch, as the checkpoint has it (None: there was
        no batch); at least one.
        """
