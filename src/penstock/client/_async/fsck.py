"""Checks that what is stored makes sense, while everything goes on working, and mends what can be
mended without risk.
"""

from __future__ import annotations

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
from penstock.store.kinds import stored_kind

if TYPE_CHECKING:
    from penstock.client._async.client import AsyncPenstock
    from penstock.model.invariants import Violation
    from penstock.store.keys import QueueKeys

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
        snapshots[queue] = snapshot
        for kind in found.kinds_of(queue) | {snapshot.kind}:
            read = KIND_CHECKS[kind].read if kind in KIND_CHECKS else None
            if read is not None:
                of_kinds[kind][queue] = await read(client.store, keys.queue(queue), of_queue)
        if any(name.kind in ("moving", "stage") for name in of_queue):
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


async def _unknown_layout(client: AsyncPenstock, keys: QueueKeys) -> str | None:
    """How the jobs of a queue are stored, if this version does not know that."""
    stored = await client.store.call(keys.meta, "HGET", keys.meta, "layout")
    layout = LAYOUT if stored is None else whole_number(stored)
    is_known = layout == LAYOUT
    return None if is_known else stored.decode(errors="backslashreplace")


async def _read_namespace(
    client: AsyncPenstock, lists: list[str], broken: set[str]
) -> dict[str, Any]:
    keys, call = client.keys, client.store.call
    listed = [
        (incarnation.decode(), checks.open_registration(entry))
        for incarnation, entry in await scan_all(client.store, "HSCAN", keys.queues)
    ]
    # A queue that could not be read must not look as if it did not exist.
    registry = {i: entry for i, entry in listed if entry.queue not in broken}
    work = {}
    for worker in lists:
        served = await client.store.run(workers.list_work(keys, worker))
        if served:
            work[worker] = frozenset(served)
    info = frozenset(worker.decode() for worker in await call(keys.info, "HKEYS", keys.info))
    # Last, so that a worker whose traces were seen is known unless it is gone by now.
    seconds, _ = await call(keys.workers, "TIME")
    return {
        "registry": registry,
        "work": work,
        "info": info,
        "now_ms": int(seconds) * 1000,
        "leases": await _scores(client, keys.workers),
        "condemned": await _scores(client, keys.condemned),
    }


async def _scores(client: AsyncPenstock, key: str) -> dict[str, int]:
    flat = await client.store.call(key, "ZRANGE", key, 0, -1, "WITHSCORES")
    return {worker.decode(): int(score) for worker, score in checks.pairs(flat)}


async def _mend(client: AsyncPenstock, violation: Violation) -> None:
    store, keys, subject = client.store, client.keys, violation.subject
    match violation.kind:
        case "holder_is_no_member" | "waiter_is_no_member" | "holder_is_unknown":
            await _leave(client, violation.queue, subject)
        case "member_is_unknown":
            await _leave(client, violation.queue, subject)
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
        case "memory_stays":
            await store.call(subject, "PEXPIRE", subject, _MEMORY_MS)


async def _move(client: AsyncPenstock, keys: QueueKeys) -> None:
    stored = await client.store.call(keys.meta, "HGET", keys.meta, "kind") or b""
    await amove_batches(client.store, keys, stored_kind(stored.decode()).name)


async def _leave(client: AsyncPenstock, queue: str, worker: str) -> None:
    await leave_queue(client.store, client.keys.queue(queue), worker, "", is_lost=True)
