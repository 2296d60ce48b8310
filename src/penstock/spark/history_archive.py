"""The history of a queue as a source of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import InvalidName, WrongKind
from penstock.model.history import place_key
from penstock.model.names import check_name
from penstock.spark.archive_source import ArchiveSource, Gap
from penstock.spark.history_offsets import Offset
from penstock.spark.history_ranges import HistoryRange, read_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.client.client import Penstock
    from penstock.connection.store import Store
    from penstock.spark.archive_source import SourceRange
    from penstock.spark.history_lake import TableName
    from penstock.spark.store import Connection


@dataclass(frozen=True, slots=True)
class HistorySource(ArchiveSource):
    """Attempts that have ended, by the place at which they stand."""

    kind: ClassVar[str] = "queue"
    content: ClassVar[str] = "history"
    rows: ClassVar[str] = "attempts"
    table: ClassVar[TableName] = "attempts"
    name_column: ClassVar[str] = "queue"
    time_column: ClassVar[str] = "ended_at"

    def check(self, client: Penstock) -> bool:
        check_name("queue", self.name)
        if "," in self.name:
            raise InvalidName(
                f"queue name {self.name!r} has a comma, which stands between two queues in the "
                "option 'history'; only queues without one can be archived"
            )
        states = [state for state in client.inspect() if state.name == self.name]
        for state in states:
            if state.kind == "tasks":
                raise WrongKind(
                    f"queue {self.name!r} holds plain tasks, which leave no history; leave it out: "
                    "how much is in it is counted with every archive"
                )
            if state.kind == "logs":
                raise WrongKind(
                    f"{self.name!r} is a log, and not a queue; archive it with --log {self.name}, "
                    "or logs=[...] in Python"
                )
        return bool(states)

    def options(self, most_rows: int) -> dict[str, str]:
        return {"history": self.name, "maxRowsPerTrigger": str(most_rows)}

    def read(
        self, connection: Connection, store: Store, wanted: SourceRange, fails: bool
    ) -> Iterator[pa.RecordBatch]:
        part = HistoryRange(wanted.name, wanted.incarnation, wanted.start, wanted.end)
        yield from read_range(store, connection.keys(wanted.name), part, fails)

    def mark(self, client: Penstock, reader: str, ranges: Sequence[SourceRange]) -> None:
        if ranges:
            last = max((part.end for part in ranges), key=place_key)
            client.jobs(self.name).mark_history(reader, last)

    def gaps(self, client: Penstock, end: Any) -> list[Gap]:
        after = None if end is None else Offset(*end).place
        return [Gap(None, after, client.jobs(self.name).history_bounds().first or None)]
