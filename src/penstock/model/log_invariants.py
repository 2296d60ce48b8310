"""What is true of logs at every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.logs import id_key
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.model.log_snapshot import LogSnapshot
    from penstock.model.snapshot import Snapshot


def log_violations(snapshot: Snapshot) -> list[Violation]:
    """What is wrong with the logs of a namespace."""
    return [
        violation
        for log in snapshot.logs.values()
        for check in (
            partitions_belong_to_logs,
            messages_are_counted,
            offsets_are_right,
            batches_are_finished,
        )
        for violation in check(log)
    ]


def partitions_belong_to_logs(log: LogSnapshot) -> Iterator[Violation]:
    """I13: every partition is one of a log that exists, and has the settings of it."""
    for part in log.partitions:
        if part.born != log.born or part.number >= log.size:
            yield Violation(
                "I13",
                log.name,
                f"partition {part.number} with {part.messages} messages belongs to no log",
                is_repairable=log.has_left_behind(part.born),
                kind="partition_of_no_log",
                subject=str(part.number),
            )
        elif part.version != log.version:
            yield Violation(
                "I13",
                log.name,
                f"partition {part.number} has version {part.version} of the settings of its log, "
                f"not {log.version}",
                is_repairable=True,
                kind="partition_has_old_settings",
                subject=str(part.number),
            )
        elif part.settings != log.settings:
            yield Violation(
                "I13",
                log.name,
                f"partition {part.number} has the settings {_listed(part.settings)}, but its log "
                f"has {_listed(log.settings)}; set them again with `log.configure`",
                kind="partition_has_other_settings",
                subject=str(part.number),
            )
    for number, name in log.lacking:
        yield Violation(
            "I13",
            log.name,
            f"the state of partition {number} does not say {name!r}",
            kind="state_is_incomplete",
            subject=f"{number} {name}",
        )


def messages_are_counted(log: LogSnapshot) -> Iterator[Violation]:
    """I1: what was appended is there, or is counted as trimmed; what is trimmed came first."""
    for part in log.partitions:
        number = str(part.number)
        if part.messages != part.added - part.trimmed:
            yield Violation(
                "I1",
                log.name,
                f"partition {number} has {part.messages} messages, but {part.added} were appended "
                f"and {part.trimmed} trimmed",
                kind="messages_miscounted",
                subject=number,
            )
        if part.first and part.trimmed_to and id_key(part.first) <= id_key(part.trimmed_to):
            yield Violation(
                "I1",
                log.name,
                f"partition {number} has message {part.first}, but all up to {part.trimmed_to} are "
                "said to be gone",
                kind="trimmed_message_is_there",
                subject=number,
            )
        segment = log.segments.get(part.number, "").split(" ")
        closed = log.closed.get(part.number, 0)
        # Without any, everything that was in one is gone. What is no segment is a foreign entry.
        if closed > part.trimmed if segment == [""] else segment[1:2] not in ([], [str(closed)]):
            yield Violation(
                "I1",
                log.name,
                f"partition {number} has {' '.join(segment)!r} as its last segment, but {closed} "
                "messages are counted up to there",
                kind="segment_miscounted",
                subject=number,
            )


def offsets_are_right(log: LogSnapshot) -> Iterator[Violation]:
    """I13: no reader has come further than there are messages, and retention waits for each."""
    for number, name in log.no_offsets:
        yield Violation(
            "I13",
            log.name,
            f"what is stored for reader {name!r} of partition {number} is no offset",
            kind="offset_is_none",
            subject=f"{number} {name}",
        )
    for part in log.partitions:
        # A reader may seek to a time at which nothing was appended yet.
        end = max(id_key(part.last), (int(part.now * 1000), 0))
        if part.floor and part.floor not in {reader.offset for reader in part.readers}:
            yield Violation(
                "I13",
                log.name,
                f"retention of partition {part.number} waits for a reader that has come to "
                f"{part.floor}, but there is none; it may have been lost",
                kind="floor_of_no_reader",
                subject=str(part.number),
            )
        for reader in part.readers:
            offset, subject = id_key(reader.offset), f"{part.number} {reader.name}"
            if offset > end:
                yield Violation(
                    "I13",
                    log.name,
                    f"reader {reader.name!r} has come to {reader.offset} in partition "
                    f"{part.number}, which ends at {part.last or 'its beginning'}",
                    kind="offset_is_beyond_the_end",
                    subject=subject,
                )
            is_alive = reader.seen_at > part.now - log.expire_s
            if is_alive and (not part.floor or id_key(part.floor) > offset):
                yield Violation(
                    "I13",
                    log.name,
                    f"retention of partition {part.number} does not wait for reader "
                    f"{reader.name!r}, which has come to {reader.offset}",
                    is_repairable=True,
                    kind="reader_is_not_waited_for",
                    subject=subject,
                )


def batches_are_finished(log: LogSnapshot) -> Iterator[Violation]:
    """I13: what was staged for a log is moved when its batch was decided, and dropped if not."""
    for number, stage, batch in log.unfinished:
        what = (
            f"batch {batch!r} is not finished: stage {stage} of partition {number} is still to be"
        )
        yield Violation(
            "I13",
            log.name,
            f"{what} moved, or dropped"
            if batch
            else f"it cannot be read for which batch stage {stage} of partition {number} is",
            is_repairable=bool(batch),
            kind="batch_is_not_finished" if batch else "stage_of_no_batch",
            subject=f"{number} {stage}",
        )


def _listed(settings: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items())) or "of none"
