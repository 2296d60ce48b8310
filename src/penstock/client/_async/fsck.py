"""Checks that what is stored makes sense, while everything goes on working, and mends what can be
mended without risk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.client._async.batch_scan import read_batches
from penstock.client._async.key_scan import scan_all, scan_keys
from penstock.client._async.kind_checks import KIND_CHECKS
from penstock.client._async.recovery import fail_worker, leave_queue
from penstock.client._async.task_scan import read_queue
from penstock.connection.staging import amove_batches
from penstock.connection.transport import apause
from penstock.errors import UnknownLayout
from penstock.model.job_invariants import all_violations
from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number
from penstock.model.snapshot import Snapshot
from penstock.model.staging import STAGE_MS
from penstock.store.commands import checks, queues, workers
from penstock.store.foreign_entries import META_FIELDS, ForeignEntries, is_name, text_of
from penstock.store.kinds import stored_kind

if TYPE_CHECKING:
    from penstock.client._async.client import AsyncPenstock
    from penstock.model.invariants import Violation
    from penstock.model.snapshot import ForeignEntry
    from penstock.store.keys import QueueKeys

_OF_BATCHES = ("moving", "stage", "batches", "batch_times", "keeps")
_WORKER = "the name of a worker"
_REMOVALS = {
    "hash": ("HDEL",),
    "set": ("SREM",),
    "zset": ("ZREM",),
    "list": ("LREM",),
    "stream": ("XDEL",),
}
"""Type of a key -> what removes an entry."""
_SETTLE_S = 0.05
_MEMORY_MS = 3_600_000


@dataclass(slots=True)
class Report:
    """What a check found."""

    queues: int = 0
    tasks: int = 0
    """waiting, held or dead"""
    jobs: int = 0
    """in any state"""
    messages: int = 0
    """of logs"""
    workers: int = 0
    violations: list[Violation] = field(default_factory=list)
    repaired: list[Violation] = field(default_factory=list)
    """those that `repair` has put right"""


async def check(client: AsyncPenstock) -> Report:
    """Look at everything in the namespace. It changes nothing and may run at any time.

    What looks wrong is looked at again a moment later and reported only if it is still so: on a
    busy system things move between two reads.
    """
    snapshot = await take_snapshot(client)
    found = all_violations(snapshot)
    if found:
        await apause(_SETTLE_S)
        snapshot = await take_snapshot(client)
        before = {violation.identity for violation in found}
        found = [v for v in all_violations(snapshot) if v.identity in before]
        for kind in KIND_CHECKS.values():
            found = await kind.confirm(client, found)
    if snapshot.mistyped_keys:
        # What cannot be read may be what makes the rest right: living workers would look unknown.
        found = [replace(violation, is_repairable=False) for violation in found]
    seen = snapshot.queues.values()
    return Report(
        queues=sum(queue.exists for queue in seen) + len(snapshot.unread),
        tasks=sum(q.ready + q.held + q.dead for q in seen if q.name not in snapshot.jobs),
        jobs=sum(queue.totals.sizes.get("jobs", 0) for queue in snapshot.jobs.values()),
        messages=sum(part.messages for log in snapshot.logs.values() for part in log.partitions),
        workers=len(snapshot.known_workers),
        violations=found,
    )


async def repair(client: AsyncPenstock, report: Report) -> Report:
    """Mend what the report calls repairable, and check again.

    Tasks of workers that nobody knows go back to the front of their queues; keys, failures and
    names that belong to nothing are removed. A job that is in no line goes back to its own, and
    listings and counts of jobs are put right. Counters of what has happened are never rewritten.
    """
    given_up: list[Violation] = []
    for violation in report.violations:
        if violation.is_repairable:
            try:
                await _mend(client, violation)
            except UnknownLayout:
                # A dead worker may also serve a queue that only a newer version can take it off.
                given_up.append(replace(violation, is_repairable=False))
    for kind in KIND_CHECKS.values():
        await kind.mend(client, report.violations)
    after = await check(client)
    left = {violation.identity for violation in after.violations}
    after.violations += [v for v in given_up if v.identity not in left]
    left |= {violation.identity for violation in given_up}
    after.repaired = [v for v in report.violations if v.is_repairable and v.identity not in left]
    return after


async def take_snapshot(client: AsyncPenstock, with_elements: bool = True) -> Snapshot:
    """Read everything in the namespace. Without `with_elements` tasks are only counted."""
    keys = client.keys
    found = await scan_keys(client.store, keys)
    snapshots, unread, batches = {}, {}, {}
    of_kinds: dict[str, dict[str, Any]] = {name: {} for name in KIND_CHECKS}
    for queue in sorted({name.queue for name in found.names if name.queue} - found.broken):
        layout = await _unknown_layout(client, keys.queue(queue))
        if layout is not None:
            unread[queue] = layout
            continue
        of_queue = found.of_queue(queue)
        holders = [name.owner for name in of_queue if name.kind == "running"]
        snapshot = await read_queue(client.store, keys.queue(queue), holders, with_elements)
        foreign = await _check_meta(client, keys.queue(queue))
        snapshots[queue] = replace(snapshot, foreign=(*snapshot.foreign, *foreign))
        for kind in found.kinds_of(queue) | {snapshot.kind}:
            read = KIND_CHECKS[kind].read if kind in KIND_CHECKS else None
            if read is not None:
                of_kinds[kind][queue] = await read(client.store, keys.queue(queue), of_queue)
        if any(name.kind in _OF_BATCHES for name in of_queue):
            lasting = frozenset(name for at, name in found.lasting_stages if at == queue)
            batches[queue], expiring = await read_batches(
                client.store, keys.queue(queue), lasting, snapshot.kind
            )
            found.expiring += expiring
    # What queues refer to is read after them: a worker registers before it joins one.
    lists = sorted(n.owner for n in found.names if n.kind == "work")
    passed_by = found.broken.union(unread)
    facts = {} if "" in found.broken else await _read_namespace(client, lists, passed_by)
    tags = tuple(keys.queue(queue).tag for queue in unread)
    return Snapshot(
        queues=snapshots,
        jobs=of_kinds["jobs"],
        logs=of_kinds["logs"],
        batches=batches,
        unread=unread,
        unknown_keys=tuple(found.unknown),
        mistyped_keys=tuple(found.mistyped),
        expiring_keys=tuple(key for key in found.expiring if not key.startswith(tags)),
        lasting_keys=tuple(key for key in found.lasting if not key.startswith(tags)),
        **facts,
    )


async def _check_meta(client: AsyncPenstock, keys: QueueKeys) -> list[ForeignEntry]:
    """What is in `meta` and no script of this version reads."""
    foreign = ForeignEntries(keys.queue)
    for name, value in await scan_all(client.store, "HSCAN", keys.meta):
        text = text_of(name)
        if text is None or not (text in META_FIELDS or text[2:3] == ":"):
            wanted = "a setting or counter that this version knows"
            foreign.add(keys.meta, "hash", name, wanted, is_removable=text is None)
        elif text == "kind" and value not in (b"jobs", b"logs"):
            wanted = f"what the queue holds but {value!r}"
            foreign.add(keys.meta, "hash", name, wanted, is_removable=False)
        elif text == "incarnation" and not value:
            wanted = "what tells the queue from others of its name, as it is empty"
            foreign.add(keys.meta, "hash", name, wanted, is_removable=False)
    return foreign.found


async def _unknown_layout(client: AsyncPenstock, keys: QueueKeys) -> str | None:
    """How the jobs of a queue are stored, if this version does not know that."""
    stored = await client.store.call(keys.meta, "HGET", keys.meta, "layout")
    layout = LAYOUT if stored is None else whole_number(stored)
    is_known = layout == LAYOUT
    return None if is_known else stored.decode(errors="backslashreplace")


async def _read_namespace(
    client: AsyncPenstock, lists: list[str], broken: set[str]
) -> dict[str, Any]:
    keys, call, foreign = client.keys, client.store.call, ForeignEntries()
    listed = []
    for incarnation, entry in await scan_all(client.store, "HSCAN", keys.queues):
        [name] = foreign.names(keys.queues, "hash", [incarnation], "an incarnation") or [""]
        registration = checks.open_registration(entry)
        if name and not is_name("queue", registration.queue):
            foreign.add(keys.queues, "hash", incarnation, "the name of a queue")
        elif name:
            listed.append((name, registration))
    # A queue that could not be read must not look as if it did not exist.
    registry = {i: entry for i, entry in listed if entry.queue not in broken}
    work = {}
    for worker in lists:
        key = keys.work(worker)
        entries = await call(key, "SMEMBERS", key)
        served = foreign.names(key, "set", entries, "a queue that a worker serves")
        if served:
            work[worker] = frozenset(entry.partition("\0")[0] for entry in served)
    said = await scan_all(client.store, "HSCAN", keys.info)
    info = frozenset(foreign.names(keys.info, "hash", (worker for worker, _ in said), _WORKER))
    for said_by, text in said:
        if text_of(said_by) is not None and not _is_json(text):
            foreign.add(keys.info, "hash", said_by, "that of a worker that has described itself")
    paused = await call(keys.paused_workers, "SMEMBERS", keys.paused_workers)
    foreign.names(keys.paused_workers, "set", paused, _WORKER)
    # Last, so that a worker whose traces were seen is known unless it is gone by now.
    seconds, _ = await call(keys.workers, "TIME")
    return {
        "registry": registry,
        "work": work,
        "info": info,
        "now_ms": int(seconds) * 1000,
        "leases": await _scores(client, keys.workers, foreign),
        "condemned": await _scores(client, keys.condemned, foreign),
        "foreign": tuple(foreign.found),
    }


async def _scores(client: AsyncPenstock, key: str, foreign: ForeignEntries) -> dict[str, int]:
    flat = await client.store.call(key, "ZRANGE", key, 0, -1, "WITHSCORES")
    pairs = checks.pairs(flat)
    known = set(foreign.names(key, "zset", (worker for worker, _ in pairs), _WORKER))
    return {
        worker.decode(): int(float(score)) for worker, score in pairs if text_of(worker) in known
    }


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def _mend(client: AsyncPenstock, violation: Violation) -> None:
    store, keys, subject = client.store, client.keys, violation.subject
    match violation.kind:
        case "holder_is_no_member" | "waiter_is_no_member" | "holder_is_unknown":
            await _leave(client, violation.queue, subject)
        case "member_is_unknown":
            await _leave(client, violation.queue, subject)
        case "member_does_not_list_the_queue":
            await _list_queue(client, violation.queue, subject)
        case "trace_of_no_worker":
            await store.run(workers.forget_worker(keys, subject))
        case "dead_worker_not_recovered":
            await fail_worker(store, keys, subject)
        case "queue_not_registered":
            await store.run(queues.register_queue(keys, violation.queue, subject))
        case "registration_of_no_queue":
            await store.run(queues.unregister_queue(keys, subject))
        case "live_state_expires":
            await store.call(subject, "PERSIST", subject)
        case "stage_of_no_batch":
            stage = keys.queue(violation.queue).stage(subject)
            await store.call(stage, "PEXPIRE", stage, STAGE_MS)
        case "decided_batch_is_not_moved":
            await _move(client, keys.queue(violation.queue))
        case "foreign_entry":
            key, type, entry = subject.split("\0")
            await store.call(key, *_REMOVALS[type], key, *_removed(type, bytes.fromhex(entry)))
        case "memory_stays":
            await store.call(subject, "PEXPIRE", subject, _MEMORY_MS)


def _removed(type: str, entry: bytes) -> tuple[bytes | int, ...]:
    """What is removed, as the command takes it; of a list, wherever it stands."""
    return (0, entry) if type == "list" else (entry,)


async def _move(client: AsyncPenstock, keys: QueueKeys) -> None:
    stored = await client.store.call(keys.meta, "HGET", keys.meta, "kind") or b""
    await amove_batches(client.store, keys, stored_kind(stored.decode()).name)


async def _list_queue(client: AsyncPenstock, queue: str, worker: str) -> None:
    keys = client.keys.queue(queue)
    is_member = await client.store.call(keys.members, "SISMEMBER", keys.members, worker)
    stored = await client.store.call(keys.meta, "HGET", keys.meta, "kind") or b""
    if is_member:
        kind = stored_kind(stored.decode()).name
        await client.store.run(workers.start_work(client.keys, worker, queue, kind))


async def _leave(client: AsyncPenstock, queue: str, worker: str) -> None:
    await leave_queue(client.store, client.keys.queue(queue), worker, "", is_lost=True)
