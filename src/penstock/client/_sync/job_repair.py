# Generated from _async/job_repair.py by tools/generate_sync.py. Edit that file instead.

"""Mends what is wrong with queues of jobs, as far as that can be done without risk. Each step looks
once more, and changes nothing that has been put right meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.ids import id_number
from penstock.store.commands import job_checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._sync.client import Penstock
    from penstock.model.invariants import Violation
    from penstock.store.command import Command
    from penstock.store.keys import QueueKeys

_CHUNK = 500
_DEPTH = 1_000_000
"""How far a job is looked for in its line."""


def mend_jobs(client: Penstock, violations: Iterable[Violation]) -> None:
    """Mend those that are repairable and of queues of jobs."""
    pages: dict[tuple[str, str, int], list[int]] = {}
    for violation in violations:
        if not violation.is_repairable:
            continue
        keys = client.keys.queue(violation.queue) if violation.queue else None
        parts = violation.subject.split("\0")
        if violation.kind in (
            "job_not_listed",
            "listed_by_mistake",
            "empty_page",
            "page_not_listed",
        ):
            ids = pages.setdefault((violation.queue, parts[0], int(parts[1])), [])
            ids += [_id(moment) for moment in parts[2:]]
        elif keys is not None and violation.kind == "count_is_wrong":
            _mend_count(client, keys, parts[0], parts[1], violation.excess)
        elif keys is not None and (command := _command(keys, violation.kind, parts)):
            client.store.run(command)
    for (queue, listing, page), ids in pages.items():
        keys = client.keys.queue(queue)
        for first in range(0, max(1, len(ids)), _CHUNK):
            chunk = ids[first : first + _CHUNK]
            client.store.run(job_checks.mend_page(keys, listing, page, chunk))


def _command(keys: QueueKeys, kind: str, parts: list[str]) -> Command[Any] | None:
    """What mends a violation of this kind; None for one that is not of jobs."""
    match kind:
        case "job_in_no_line" | "job_in_no_place" | "facts_of_no_job":
            return job_checks.mend_job(keys, _id(parts[0]), _DEPTH)
        case "place_of_no_job":
            return job_checks.mend_job(keys, _id(parts[1]), _DEPTH)
        case "line_is_not_named" | "line_is_not_there" | "credit_of_no_line":
            return job_checks.mend_line(keys, "line", parts[0])
        case "ring_is_not_named" | "ring_is_not_there":
            return job_checks.mend_line(keys, "ring", parts[0])
        case "stray_is_not_named" | "stray_is_not_there":
            return job_checks.mend_line(keys, "stray", parts[0])
        case "parked_is_not_named" | "parked_is_not_there":
            return job_checks.mend_line(keys, "parked", parts[0])
        case "unique_key_of_no_job":
            holder = str(id_number(parts[0]))
            return job_checks.mend_trace(keys, "unique_jobs", parts[1].encode("latin-1"), holder)
        case "window_of_no_key":
            return job_checks.mend_trace(keys, "windows", parts[0].encode("latin-1"))
        case "extra_of_no_job":
            return job_checks.mend_trace(keys, parts[0], str(id_number(parts[1])).encode())
        case "trace_of_no_member":
            return job_checks.mend_trace(keys, parts[0], parts[1].encode())
        case "slot_of_no_schedule":
            return job_checks.mend_trace(keys, "slots", parts[0].encode())
    return None


def _mend_count(client: Penstock, keys: QueueKeys, table: str, field: str, excess: int) -> None:
    """Every operation changes a count by as much as what it counts, so the excess stays the same
    while jobs come and go.
    """
    key = keys.meta if table == "meta" else keys.of_jobs(table)
    for _ in range(10):
        seen = int(client.store.call(key, "HGET", key, field) or 0)
        command = job_checks.mend_count(keys, table, field, seen, seen - excess)  # type: ignore[arg-type]
        if client.store.run(command):
            return


def _id(moment: str) -> int:
    return id_number(moment.partition(" ")[0])
