"""Plans what is read of a log: where each partition begins and ends, and in which parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidArgument, LogNotFound
from penstock.model.logs import START, RangeInfo, id_key
from penstock.spark.log_ranges import LogRange, check_whole, made_anew, put_back
from penstock.store.commands.log_groups import mark_partition
from penstock.store.commands.logs import (
    NoPartition,
    describe_log,
    describe_range,
    open_partition,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.connection.store import Store
    from penstock.model.logs import LogFacts
    from penstock.spark.log_offsets import Bound, LogOffset
    from penstock.store.keys import QueueKeys

_MOST_PARTS = 1000


class LogPlanner:
    """Looks at one log. With `fails`, what is lost is an error."""

    def __init__(self, store: Store, keys: QueueKeys, fails: bool) -> None:
        self._store = store
        self._keys = keys
        self._log = keys.queue
        self._fails = fails

    def facts(self) -> LogFacts | None:
        """What the log says of itself; None if there is none."""
        try:
            return self._store.run(describe_log(self._keys))
        except LogNotFound:
            return None

    def look(
        self,
        facts: LogFacts,
        number: int,
        start: str = START,
        end: str = "+",
        most: int = 0,
        parts: int = 1,
    ) -> RangeInfo:
        """What follows a message of a partition."""
        keys = self._keys.partition(number)
        info = self._store.run(describe_range(keys, start, end, most, parts))
        if info.born != facts.born:  # nothing was ever appended to this one
            return RangeInfo(info.now, facts.born, "", "", start, "", 0, ())
        return info

    def first(self, facts: LogFacts, bound: Bound, default: str) -> dict[int, str]:
        """After which message a new read begins, by partition.

        Raises LogTrimmed if messages are gone that come after the place that is asked for.
        """
        if bound.born(self._log) in ("", facts.born):
            bound.check(facts)
        elif self._fails:
            raise made_anew(self._log, is_there=True)
        return {
            number: self._first(facts, number, bound.of(self._log, number, default), bound)
            for number in range(facts.partitions)
        }

    def last(self, facts: LogFacts, bound: Bound) -> dict[int, str]:
        """The last message that is read, by partition."""
        bound.check(facts)
        found = {}
        for number in range(facts.partitions):
            place = bound.of(self._log, number, "latest")
            is_named = place not in ("earliest", "latest")
            info = self.look(facts, number, place if is_named else START)
            found[number] = info.latest if place == "latest" else info.at or info.earliest
        return found

    def go_on(self, facts: LogFacts, offset: LogOffset) -> dict[int, RangeInfo]:
        """What a stream has still to read, by partition. Raises LogTrimmed if some of it is lost;
        if that does not matter, begins behind what is lost.
        """
        places = offset.places
        if offset.born not in ("", facts.born):
            if self._fails:
                raise made_anew(self._log, is_there=True)
            places = {}
        return {
            number: self._settled(number, self.look(facts, number, places.get(number, START)))
            for number in range(facts.partitions)
        }

    def split(
        self, facts: LogFacts, starts: Mapping[int, str], ends: Mapping[int, str], least: int | None
    ) -> list[LogRange]:
        """The ranges between two offsets; of about equal size if there shall be more of them than
        the log has partitions.
        """
        whole = [
            LogRange(facts.born, number, starts[number], end)
            for number, end in ends.items()
            if id_key(starts[number]) < id_key(end)
        ]
        if least is None or len(whole) >= least:
            return whole
        sizes = [self.look(facts, part.partition, part.start, part.end).messages for part in whole]
        shares = share_parts(least, sizes)
        return [
            piece
            for part, share in zip(whole, shares, strict=True)
            for piece in self._pieces(facts, part, share)
        ]

    def mark(self, facts: LogFacts, reader: str, number: int, offset: str) -> bool:
        """Say that `reader` has read a partition so far; False if the log was made anew."""
        keys = self._keys.partition(number)
        command = mark_partition(keys, facts.born, reader, offset)
        try:
            self._store.run(command)
        except NoPartition:
            try:
                # So that nothing can be appended, and trimmed, before it is marked.
                self._store.run(open_partition(keys, facts))
                self._store.run(command)
            except NoPartition:
                return False
        return True

    def _first(self, facts: LogFacts, number: int, place: str, bound: Bound) -> str:
        if place in ("earliest", "latest"):
            info = self.look(facts, number)
            return info.earliest if place == "earliest" else info.latest
        info = self.look(facts, number, place)
        ms = bound.ms_of(self._log, number)
        if ms is not None and ms > 1000 * info.now:
            raise InvalidArgument(
                f"option {bound.option!r} lies {ms / 1000 - info.now:.0f} s ahead of the "
                "store's clock; give a time that has come"
            )
        nearest = info.at or info.earliest
        if self._fails and id_key(place) < id_key(info.earliest):
            check_whole(self._keys.partition(number), info)
        if self._fails and ms is None and id_key(place) > id_key(info.latest):
            raise put_back(self._keys.partition(number), place, info)
        return nearest

    def _settled(self, number: int, info: RangeInfo) -> RangeInfo:
        if self._fails:
            check_whole(self._keys.partition(number), info)
        return info if info.is_whole else info._replace(start=info.at or info.earliest)

    def _pieces(self, facts: LogFacts, part: LogRange, share: int) -> list[LogRange]:
        if share == 1:
            return [part]
        info = self.look(facts, part.partition, part.start, part.end, parts=share)
        inner = info.ends[:-1]
        return [
            part._replace(start=start, end=end)
            for start, end in zip((part.start, *inner), (*inner, part.end), strict=True)
        ]


def share_parts(least: int, sizes: Sequence[int]) -> list[int]:
    """Into how many parts ranges of these sizes are split, so that there are at least so many."""
    total = sum(sizes)
    return [
        max(1, min(size, _MOST_PARTS, -(-least * size // total))) if total else 1 for size in sizes
    ]
