"""Checks that what is stored makes sense, while everything goes on working, and mends what can be
mended without risk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.client._async.batch_scan import read_batches
from penstock.client._async.job_repair import confirm, mend_jobs
from penstock.client._async.job_scan import read_job_queue
from penstock.client._async.key_scan import scan_keys
from penstock.client._async.recovery import fail_worker, leave_queue
from penstock.codec.elements import HOLDER_BYTES, open_element, open_unique
from penstock.connection.staging import amove_batches
from penstock.connection.transport import apause
from penstock.errors import UnknownLayout
from penstock.model.job_invariants import all_violations
from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number
from penstock.model.snapshot import DIGEST_BYTES, Element, QueueSnapshot, Snapshot
from penstock.model.staging import STAGE_MS
from penstock.store.commands import checks, queues, workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.client._async.client import AsyncPenstock
    from penstock.model.invariants import Violation
    from penstock.store.keys import QueueKeys

_SMALL = 10_000
"""How many entries of a queue are read in one step; a larger one is read in pages."""

_PAGE = 1_000
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
        found = await confirm(client, found)
    if snapshot.mistyped_keys:
        # What cannot be read may be what makes the rest right: living workers would look unknown.
        found = [replace(violation, is_repairable=False) for violation in found]
    seen = snapshot.queues.values()
    return Report(
        queues=sum(queue.exists for queue in seen) + len(snapshot.unread),
        tasks=sum(q.ready + q.held + q.dead for q in seen if q.name not in snapshot.jobs),
        jobs=sum(queue.totals.sizes.get("jobs", 0) for queue in snapshot.jobs.values()),
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
    await mend_jobs(client, report.violations)
    after = await check(client)
    left = {violation.identity for violation in after.violations}
    after.violations += [v for v in given_up if v.identity not in left]
    left |= {violation.identity for violation in given_up}
    after.repaired = [v for v in report.violations if v.is_repairable and v.identity not in left]
    return after


async def take_snapshot(client: AsyncPenstock, with_elements: bool = True) -> Snapshot:
    """Read everything in the namespace. Each queue of up to 10,000 entries is read at one instant;
    of a larger one the counts are, and its tasks are read in pages, of which only those are kept
    that are unique or have failed before. Without `with_elements` tasks are only counted.
    """
    keys = client.keys
    found = await scan_keys(client.store, keys)
    snapshots, jobs, unread, batches = {}, {}, {}, {}
    for queue in sorted({name.queue for name in found.names if name.queue} - found.broken):
        layout = await _unknown_layout(client, keys.queue(queue))
        if layout is not None:
            unread[queue] = layout
            continue
        of_queue = found.of_queue(queue)
        holders = [name.owner for name in of_queue if name.kind == "running"]
        snapshot = await _read_queue(client, keys.queue(queue), holders, with_elements)
        snapshots[queue] = snapshot
        if snapshot.holds_jobs or queue in found.job_queues():
            jobs[queue] = await read_job_queue(client.store, keys.queue(queue), of_queue)
        if any(name.kind in ("moving", "stage") for name in of_queue):
            lasting = frozenset(name for at, name in found.lasting_stages if at == queue)
            read = await read_batches(client.store, keys.queue(queue), lasting)
            batches[queue] = read[0]
            found.expiring += read[1]
    # What queues refer to is read after them: a worker registers before it joins one.
    lists = sorted(n.owner for n in found.names if n.kind == "work")
    passed_by = found.broken.union(unread)
    facts = {} if "" in found.broken else await _read_namespace(client, lists, passed_by)
    tags = tuple(keys.queue(queue).tag for queue in unread)
    return Snapshot(
        queues=snapshots,
        jobs=jobs,
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


async def _read_queue(
    client: AsyncPenstock, keys: QueueKeys, holders: list[str], with_elements: bool
) -> QueueSnapshot:
    names = set(holders)
    limit = _SMALL if with_elements else 0
    while True:
        snapshot = await client.store.run(checks.read_queue(keys, sorted(names), limit))
        if snapshot.members <= names:
            break
        names |= snapshot.members
    if snapshot.waiting is None and with_elements:
        return await _read_large_queue(client, keys, sorted(names), snapshot)
    return snapshot


async def _read_large_queue(
    client: AsyncPenstock, keys: QueueKeys, names: list[str], counted: QueueSnapshot
) -> QueueSnapshot:
    unique = {key: open_unique(value) for key, value in await _all(client, "HSCAN", keys.unique)}
    entries = {entry for entry, _ in await _all(client, "ZSCAN", keys.unique_tasks)}
    counts = await _all(client, "HSCAN", keys.failures)
    failures = {digest.decode(): int(count) for digest, count in counts}
    waiting = [e async for e in _page(client, keys.ready) if e.key or e.digest in failures]
    running = {}
    for worker in names:
        flat = await client.store.call(keys.meta, "HGETALL", keys.running(worker))
        if flat:
            running[worker] = checks.held_processes(flat)
    return replace(
        counted,
        waiting=tuple(waiting),
        running=running,
        unique=unique,
        unique_tasks=frozenset(entries),
        failures=failures,
    )


async def _all(client: AsyncPenstock, command: str, key: str) -> list[tuple[bytes, bytes]]:
    """A large hash or sorted set, read in pages."""
    found: list[tuple[bytes, bytes]] = []
    cursor = b"0"
    while True:
        cursor, flat = await client.store.call(key, command, key, cursor, "COUNT", _PAGE)
        found += checks.pairs(flat)
        if cursor == b"0":
            return found


async def _page(client: AsyncPenstock, key: str) -> AsyncIterator[Element]:
    """The elements of a list. From the back: while tasks come in there and leave at the front,
    some are seen twice but none is passed over.
    """
    seen = 0
    while True:
        page = await client.store.call(key, "LRANGE", key, seen, seen + _PAGE - 1)
        for element in page:
            yield open_element(element)
        if not page:
            return
        seen += len(page)


async def _read_namespace(
    client: AsyncPenstock, lists: list[str], broken: set[str]
) -> dict[str, Any]:
    keys, call = client.keys, client.store.call
    listed = [
        (incarnation.decode(), checks.open_registration(entry))
        for incarnation, entry in await _all(client, "HSCAN", keys.queues)
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
        case "failures_of_no_task":
            await _forget_failures(client, keys.queue(violation.queue), subject)
        case "unique_key_of_no_task":
            key = subject.encode("latin-1")[HOLDER_BYTES:]
            await _mend_unique_key(client, violation.queue, key, b"")
        case "unique_key_not_indexed" | "index_of_no_unique_key":
            entry = subject.encode("latin-1")
            await _mend_unique_key(client, violation.queue, entry[DIGEST_BYTES:], entry)
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
    kind = await client.store.call(keys.meta, "HGET", keys.meta, "kind")
    await amove_batches(client.store, keys, "jobs" if kind == b"jobs" else "tasks")


async def _leave(client: AsyncPenstock, queue: str, worker: str) -> None:
    await leave_queue(client.store, client.keys.queue(queue), worker, "", is_lost=True)


async def _forget_failures(client: AsyncPenstock, keys: QueueKeys, digest: str) -> None:
    count = await client.store.call(keys.failures, "HGET", keys.failures, digest)
    if count is not None:
        await client.store.run(checks.forget_failures(keys, digest, int(count)))


async def _mend_unique_key(client: AsyncPenstock, queue: str, key: bytes, entry: bytes) -> None:
    mend = partial(checks.mend_unique_key, client.keys.queue(queue))
    answer: bool | list[str] = []
    while isinstance(answer, list):
        answer = await client.store.run(mend(answer, key, entry))
