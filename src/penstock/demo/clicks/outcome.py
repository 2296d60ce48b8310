"""How the act about a log ended, and whether the counts agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.client.fsck import Report
    from penstock.demo.clicks.records import Reading
    from penstock.model.logs import LogInfo


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final table."""

    appended: int
    """messages whose append was acknowledged"""
    handled: int
    """of those, how many a consumer brought to their end"""
    skipped: int
    """messages that were passed over, even if they were handled later"""
    handled_more_than_once: int
    refused: int
    """commits refused because the partition was another worker's by then"""
    moved_s: float
    """from the kill of a worker until its partitions had other owners"""
    led_s: float
    """from the kill of the leader until every partition was committed again"""
    seconds: float
    """of the whole act, without the start of its servers"""
    disagreements: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        return 1 if self.disagreements else 0


def find_disagreements(
    appended: Mapping[int, int], readings: Mapping[int, Reading], info: LogInfo, report: Report
) -> tuple[str, ...]:
    """What does not fit together, after all workers have stopped; nothing if all is well."""
    broken = [f"{v.invariant}: {v.message}" for v in report.violations]
    return (*_find(appended, readings, info), *broken)


def _find(
    appended: Mapping[int, int], readings: Mapping[int, Reading], info: LogInfo
) -> Iterator[str]:
    for part in info.partitions:
        name, count = f"partition {part.number}", appended[part.number]
        reading = readings[part.number]
        if part.added != count:
            yield f"{name}: {count:,} messages were accepted, but the log counted {part.added:,}"
        if reading.skipped:
            yield f"{name}: {reading.skipped:,} messages were skipped"
        yield from (f"{name}: {problem}" for problem in reading.problems)
        offsets = [reader.offset for reader in part.readers]
        if offsets != [part.last]:
            yield f"{name}: its last message is {part.last}, and committed is {offsets}"
