# Generated from _async/job_repair.py by tools/generate_sync.py. Edit that file instead.

"""Mends what is wrong with queues of jobs, as far as that can be done without risk. Each step looks
once more, and changes nothing that has been put right meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.client._sync.job_scan import last_turn
from penstock.codec.ids import id_number
from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number
from penstock.model.schedules import decode_schedule, next_slot_ms
from penstock.store.commands import job_checks, job_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._sync.client import Penstock
    from penstock.model.violations import Violation
    from penstock.store.command import Command
    from penstock.store.keys import QueueKeys

_DEPTH = 1_000_000
"""How far a job is looked for in its line."""


def mend_jobs(client: Penstock, violations: Iterable[Violation]) -> None:
    """Mend those that are repairable and of queues of jobs."""
    for violation in violations:
        if violation.is_repairable and violation.queue:
            keys = client.keys.queue(violation.queue)
            if violation.kind == "count_is_wrong":
                _mend_count(client, keys, violation)
            elif violation.kind == "newest_is_behind":
                _forget_newest(client, keys, violation)
            elif violation.kind == "figure_is_no_number":
                is_turn = violation.subject == "turn"
                right = last_turn(client.store, keys) if is_turn else 0
                _set_figure(client, keys, violation.subject, right)
            elif violation.kind == "slot_is_missing":
                _find_slot(client, keys, violation.subject)
            elif violation.kind == "layout_is_missing":
                client.store.call(keys.meta, "HSETNX", keys.meta, "layout", LAYOUT)
            elif command := _command(keys, violation, is_real=True):
                client.store.run(command)


def confirm(client: Penstock, violations: Iterable[Violation]) -> list[Violation]:
    """The violations that are found again now, or that one look cannot show. Lines and pages come
    and go with the jobs in them, so that on a busy queue they may look wrong twice.
    """
    found = []
    for violation in violations:
        keys = client.keys.queue(violation.queue) if violation.queue else None
        command = _command(keys, violation, is_real=False) if keys else None
        if command is None or client.store.run(command):
            found.append(violation)
    return found


def _command(keys: QueueKeys, violation: Violation, is_real: bool) -> Command[bool] | None:
    """What mends a violation; None for one that is not mended in one step, or not of jobs."""
    parts = violation.subject.split("\0")
    match violation.kind:
        case "job_is_damaged" if not violation.is_repairable:
            return None
        case "job_in_no_line" | "job_in_no_place" | "facts_of_no_job" | "job_is_damaged":
            return job_checks.mend_job(keys, _id(parts[0]), _DEPTH, is_real)
        case "place_of_no_job" if violation.is_repairable:
            return job_checks.mend_job(keys, _id(parts[1]), _DEPTH, is_real)
        case "job_not_listed" | "listed_by_mistake" | "empty_page" | "page_not_listed":
            ids = [_id(moment) for moment in parts[2:]]
            return job_checks.mend_page(keys, parts[0], int(parts[1]), ids, is_real)
        case "line_is_not_named" | "line_is_not_there":
            return job_checks.mend_line(keys, "line", parts[0], is_real)
        case "ring_is_not_named" | "ring_is_not_there":
            return job_checks.mend_line(keys, "ring", parts[0], is_real)
        case "unhandled_is_not_named" | "unhandled_is_not_there":
            return job_checks.mend_line(keys, "unhandled", parts[0], is_real)
        case "parked_is_not_named" | "parked_is_not_there":
            return job_checks.mend_line(keys, "parked", parts[0], is_real)
        case "unique_key_of_no_job":
            # A key that belongs to a type has a zero byte in it.
            key, holder = "\0".join(parts[1:]).encode("latin-1"), str(id_number(parts[0]))
            return job_checks.mend_trace(keys, "unique_jobs", key, holder, is_real)
        case "window_of_no_key":
            key = violation.subject.encode("latin-1")
            return job_checks.mend_trace(keys, "windows", key, "", is_real)
        case "extra_of_no_job" if violation.is_repairable:
            owner = str(id_number(parts[1])).encode()
            return job_checks.mend_trace(keys, parts[0], owner, "", is_real)
        case "trace_of_no_member":
            return job_checks.mend_trace(keys, parts[0], parts[1].encode(), "", is_real)
        case "slot_of_no_schedule":
            return job_checks.mend_trace(keys, "slots", parts[0].encode(), "", is_real)
        case "entry_is_no_id" if violation.is_repairable:
            field, entry = map(bytes.fromhex, parts[2:])
            return _remove_stranger(keys, parts[0], parts[1], field, entry, is_real)
    return None


def _remove_stranger(
    keys: QueueKeys, kind: str, owner: str, field: bytes, entry: bytes, is_real: bool
) -> Command[bool]:
    """What is no id is removed as that of a job which is not there."""
    if kind == "unique_jobs":
        return job_checks.mend_trace(keys, kind, field, entry, is_real)
    if kind == "suspects":
        return job_checks.mend_trace(keys, kind, field, "", is_real)
    if kind == "progress":
        return job_checks.mend_trace(keys, kind, entry, "", is_real)
    if kind == "page":
        number, _, listing = owner.partition(":")
        return job_checks.mend_page(keys, listing, int(number), [entry], is_real)
    return job_checks.mend_job(keys, entry, _DEPTH, is_real)


def _mend_count(client: Penstock, keys: QueueKeys, violation: Violation) -> None:
    """Every operation changes a count by as much as what it counts, so the excess stays the same
    while jobs come and go.
    """
    table, field = violation.subject.split("\0", 1)
    key = keys.named(table)
    for _ in range(10):
        found = client.store.call(key, "HGET", key, field)
        seen = b"0" if found is None else found
        right = (whole_number(seen) or 0) - violation.excess
        if client.store.run(job_checks.mend_count(keys, table, field, seen, right)):  # type: ignore[arg-type]
            return


def _find_slot(client: Penstock, keys: QueueKeys, name: str) -> None:
    """Let a schedule fire when it is due next, unless it was changed since."""
    now_ms, found = client.store.run(job_rules.list_schedules(keys, [name]))
    for stored in found:
        if stored.slot_ms is None:
            slot_ms = next_slot_ms(decode_schedule(stored.definition), now_ms)
            client.store.run_once(
                partial(
                    job_rules.put_schedule,
                    keys,
                    name=name,
                    definition=stored.definition,
                    slot_ms=slot_ms,
                    read=stored.as_read,
                )
            )


def _forget_newest(client: Penstock, keys: QueueKeys, violation: Violation) -> None:
    """Where it is not known, every id that is sent is looked for."""
    seen = b"%d" % id_number(violation.subject)
    client.store.run(job_checks.mend_count(keys, "meta", "newest", seen, 0))


def _set_figure(client: Penstock, keys: QueueKeys, name: str, right: int) -> None:
    """Only if it is no number still. One that is 0 is forgotten."""
    seen = client.store.call(keys.meta, "HGET", keys.meta, name)
    if seen is not None and whole_number(seen) is None:
        client.store.run(job_checks.mend_count(keys, "meta", name, seen, right))


def _id(moment: str) -> int:
    return id_number(moment.partition(" ")[0])
