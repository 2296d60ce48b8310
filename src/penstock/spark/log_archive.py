"""A log as a source of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import WrongKind
from penstock.model.logs import START, id_key
from penstock.model.names import check_name
from penstock.spark.archive_source import ArchiveSource, Gap
from penstock.spark.log_offsets import LogOffset, open_offset
from penstock.spark.log_planning import LogPlanner
from penstock.spark.log_ranges import LogRange, read_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.client.client import Penstock
    from penstock.connection.store import Store
    from penstock.model.logs import LogFacts
    from penstock.spark.archive_source import SourceRange
    from penstock.spark.history_lake import TableName
    from penstock.spark.store import Connection

_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class LogSource(ArchiveSource):
    """Messages of all partitions, by their offsets."""

    kind: ClassVar[str] = "log"
    content: ClassVar[str] = "messages"
    rows: ClassVar[str] = "messages"
    table: ClassVar[TableName] = "messages"
    name_column: ClassVar[str] = "log"
    # That of the event may be any, so a day would get files for ever.
    time_column: ClassVar[str] = "appended_at"

    @property
    def folder(self) -> str:
        # No queue has this, as a sign of equality is escaped in names.
        return f"log={quote(self.name, safe='')}"

    def check(self, client: Penstock) -> bool:
        check_name("log", self.name)
        states = [state for state in client.inspect() if state.name == self.name]
        for state in states:
            if state.kind in ("tasks", "jobs"):
                raise WrongKind(
                    f"{self.name!r} is a queue of {state.kind}, and not a log; the history of jobs "
                    f"is archived with -q {self.name}"
                )
        return bool(states)

    def options(self, most_rows: int) -> dict[str, str]:
        return {"log": self.name, "maxOffsetsPerTrigger": str(most_rows)}

    def read(
        self, connection: Connection, store: Store, wanted: SourceRange, fails: bool
    ) -> Iterator[pa.RecordBatch]:
        part = LogRange(wanted.incarnation, wanted.partition, wanted.start, wanted.end)
        keys = connection.keys(wanted.name).partition(wanted.partition)
        for batch in read_range(store, keys, part, fails):
            yield _completed(batch, wanted)

    def mark(self, client: Penstock, reader: str, ranges: Sequence[SourceRange]) -> None:
        """In the log of which the ranges are: one that was made anew since is left as it is."""
        planner = _planner(client, self.name)
        facts = planner.facts()
        ends: dict[int, str] = {}
        for part in ranges:
            if facts is not None and facts.born == part.incarnation:
                known = ends.get(part.partition, part.end)
                ends[part.partition] = max(known, part.end, key=id_key)
        for number, end in ends.items():
            assert facts is not None
            planner.mark(facts, reader, number, end)

    def gaps(self, client: Penstock, end: Any) -> list[Gap]:
        offset = LogOffset("", {}) if end is None else open_offset({self.name: end}, self.name)
        facts = _planner(client, self.name).facts()
        there = range(facts.partitions) if facts is not None else ()
        found = [
            Gap(number, offset.places.get(number), self._first(client, facts, number))
            for number in sorted({*offset.places, *there})
            if self._lacks(client, facts, offset, number)
        ]
        return found or [Gap(None, None, None)]  # it was a moment ago

    def _lacks(
        self, client: Penstock, facts: LogFacts | None, offset: LogOffset, number: int
    ) -> bool:
        """Whether messages of a partition are gone that come after an offset."""
        if facts is None or offset.born not in ("", facts.born):
            return number in offset.places
        start = offset.places.get(number, START)
        return not _planner(client, self.name).look(facts, number, start).is_whole

    def _first(self, client: Penstock, facts: LogFacts | None, number: int) -> str | None:
        if facts is None or number >= facts.partitions:
            return None
        return client.log(self.name).partition_info(number).first or None


def _planner(client: Penstock, log: str) -> LogPlanner:
    return LogPlanner(client.store, client.keys.queue(log), fails=False)


def _completed(batch: pa.RecordBatch, wanted: SourceRange) -> pa.RecordBatch:
    """With the columns that only a lake has, as it is about many logs."""
    names = pa.repeat(pa.scalar(wanted.name), batch.num_rows)
    born = pa.repeat(pa.scalar(wanted.incarnation), batch.num_rows)
    ms = pc.list_element(pc.split_pattern(batch["offset"], "-"), 0).cast(pa.int64())
    return (
        batch.append_column("log", names)
        .append_column("born", born)
        .append_column("appended_at", pc.multiply(ms, 1000).cast(_TIME))
    )
