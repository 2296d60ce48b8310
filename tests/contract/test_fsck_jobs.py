"""`penstock fsck` on queues of jobs: silent about a healthy one, and exact about a damaged one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client._async import fsck as async_fsck
from penstock.client._sync import fsck
from penstock.codec.ids import id_number
from penstock.model.jobs import Report
from penstock.store.keys import OWNED_KINDS
from tests.contract.job_workers import Hand
from tests.job_invariants import check_jobs
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.keys import QueueKeys
    from tests.servers import RedisCluster, RedisServer

JOBS = 12


class Places:
    """Where to damage what: `at.due` is a key, `at.line("0:")` one of several, `at["later"]` the
    number of a job.
    """

    def __init__(self, keys: QueueKeys, ids: dict[str, int]) -> None:
        self._keys = keys
        self._ids = ids

    def __getattr__(self, kind: str) -> Any:
        if kind in OWNED_KINDS:
            return lambda owner: self._keys.of_jobs(kind, str(owner))
        return self._keys.of_jobs(kind)

    def __getitem__(self, name: str) -> int:
        return self._ids[name]


def build(ps: penstock.Penstock) -> tuple[Hand, dict[str, int]]:
    """Jobs that are ready, for a tenant, put aside for their type or a limit, scheduled, running,
    done, dead and cancelled; with progress, a log, attempts, unique keys, and a schedule.
    """
    mail = ps.jobs("mail")
    hand = Hand(ps)
    sent = {"done": mail.add("email", 1, tags=["red"]), "dead": mail.add("email", 2, tenant="zeta")}
    done, dead = hand.take(2)
    hand.finish(done, "result")
    hand.fail(dead)
    mail.pause_type("fax")
    mail.limit("host", concurrency=1)
    sent |= {
        "running": mail.add("email", 3, key="host", tenant="acme", unique="running"),
        "parked": mail.add("email", 4, key="host"),
        "fax": mail.add("fax", 5),
    }
    [running] = hand.take(5)
    hand.note(running, 50, b"half way")
    sent |= {
        "cancelled": mail.add("email", 6),
        "ready": mail.add("email", "seven", search=True, tags=["red"]),
        "again": mail.add("email", 8, priority="high"),
        "acme": mail.add("email", 9, tenant="acme"),
        "later": mail.add("email", 10, delay=3600, unique="later", unique_for="queued"),
        "window": mail.add("email", 11, priority="low", unique="window", unique_for=3600),
        "sms": mail.add("sms", 12, priority="low", unique="sms"),
    }
    sent["cancelled"].cancel()
    hand.stop(*hand.take(1))
    ps.schedules("mail").add("nightly", "email", every=3600)
    return hand, {name: id_number(job.id) for name, job in sent.items()}


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    """On one kind of store: what is damaged here is damaged by hand."""
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


def kinds(report: fsck.Report) -> set[tuple[str, str]]:
    return {(violation.invariant, violation.kind) for violation in report.violations}


def test_a_healthy_queue_of_jobs_has_no_violations(ps: penstock.Penstock, keys: QueueKeys) -> None:
    build(ps)

    report = fsck.check(ps)

    assert report.violations == []
    assert (report.queues, report.tasks, report.jobs, report.workers) == (1, 0, JOBS, 1)
    assert len(check_jobs(ps.store, keys).jobs) == JOBS


def test_queues_of_jobs_on_any_kind_of_store_can_be_checked(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        build(ps)
        for number in range(5):
            ps.jobs(f"queue {number}").add_many("e: mail", [number] * 3)

        report = fsck.check(ps)

        assert (report.queues, report.jobs, report.violations) == (6, JOBS + 15, [])


def test_a_queue_of_many_jobs_is_read_bit_by_bit(ps: penstock.Penstock, keys: QueueKeys) -> None:
    ps.jobs("mail").add_many("email", range(2500), tags=["red"])

    snapshot = check_jobs(ps.store, keys)

    assert len(snapshot.jobs) == 2500
    assert len(snapshot.lines["0:"]) == 2500
    assert snapshot.is_exact


def test_a_deleted_queue_of_jobs_leaves_nothing_wrong(ps: penstock.Penstock) -> None:
    hand, _ = build(ps)
    hand.leave()

    ps.jobs("mail").delete()

    assert fsck.check(ps).violations == []


async def _check(url: str, namespace: str) -> async_fsck.Report:
    async with await penstock.aconnect(url, namespace=namespace) as ps:
        return await async_fsck.check(ps)


def test_the_async_client_checks_jobs_as_well(
    ps: penstock.Penstock, server: RedisServer, namespace: str
) -> None:
    build(ps)

    report = asyncio.run(_check(server.url, namespace))

    assert (report.jobs, report.violations) == (JOBS, [])


def test_a_busy_queue_of_jobs_gives_no_false_alarm(ps: penstock.Penstock, keys: QueueKeys) -> None:
    stopping = threading.Event()
    ps.jobs("mail").add("email", 0)
    ps.jobs("mail").limit("host", concurrency=2)
    ps.jobs("mail").configure(keep_count=50)
    threads = [threading.Thread(target=_produce, args=(ps, stopping))]
    threads += [
        threading.Thread(target=_consume, args=(Hand(ps, name), stopping)) for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: ps.queue("mail").inspect().counters.started > 200)
        reports = [fsck.check(ps) for _ in range(5)]
    finally:
        stopping.set()
        for thread in threads:
            thread.join()

    assert [violation for report in reports for violation in report.violations] == []
    check_jobs(ps.store, keys)


def _produce(ps: penstock.Penstock, stopping: threading.Event) -> None:
    mail = ps.jobs("mail")
    number = 0
    while not stopping.is_set():
        number += 1
        mail.add_many("email", [number] * 5, key="host" if number % 3 == 0 else "", attempts=2)
        mail.add("email", number, unique=str(number % 7), tenant=f"tenant {number % 4}")
        mail.add("email", number, delay=0.001 * (number % 20), priority=number % 3, tags=["red"])
        if number % 5 == 0:
            mail.cancel("ready", tag="red")
        wait_for(lambda: mail.counts()["ready"] < 100)


def _consume(hand: Hand, stopping: threading.Event) -> None:
    outcomes = ("done", "done", "failed", "stopped", "crashed")
    while not stopping.is_set():
        hand.report(
            *(
                Report(job.process, outcomes[job.process % 5], 1, 1, job.process % 3)  # type: ignore[arg-type]
                for job in hand.take(7)
            )
        )


def _page(client: Any, at: Places, listing: str) -> str:
    """The only page of a listing."""
    [page] = client.zrange(at.pages(listing), 0, -1)
    return str(at.page(f"{page.decode()}:{listing}"))


Damage = Callable[[Any, Places], object]

DAMAGES: dict[str, tuple[Damage, tuple[str, str]]] = {
    "a job is lost": (
        lambda r, at: (r.hdel(at.jobs, at["done"]), r.hdel(at.facts, at["done"])),
        ("I1", "sent_jobs_add_up"),
    ),
    "a start is not counted": (
        lambda r, at: r.hincrby(at.meta, "started", -1),
        ("I1", "started_jobs_add_up"),
    ),
    "an end is not counted": (
        lambda r, at: r.hincrby(at.meta, "dead", -1),
        ("I1", "ended_jobs_add_up"),
    ),
    "a counter went below zero": (
        lambda r, at: r.hset(at.meta, "retried", -1),
        ("I3", "counter_is_negative"),
    ),
    "a ready job is in no line": (
        lambda r, at: r.lrem(at.line("0:"), 1, at["ready"]),
        ("I2", "job_in_no_line"),
    ),
    "a job put aside is gone": (
        lambda r, at: r.delete(at.parked("host"), at.unparks),
        ("I2", "job_in_no_line"),
    ),
    "a job is in its line twice": (
        lambda r, at: r.rpush(at.line("0:"), at["ready"]),
        ("I2", "job_in_two_lines"),
    ),
    "a job is in the line of others": (
        lambda r, at: (r.lrem(at.line("0:"), 1, at["ready"]), r.rpush(at.line("10:"), at["ready"])),
        ("I2", "job_in_wrong_line"),
    ),
    "a scheduled job is never due": (
        lambda r, at: r.zrem(at.due, at["later"]),
        ("I2", "job_in_no_place"),
    ),
    "a scheduled job is due at another time": (
        lambda r, at: r.zadd(at.due, {at["later"]: 5}),
        ("I2", "job_in_no_place"),
    ),
    "a finished job would be kept for ever": (
        lambda r, at: r.zrem(at.finished, at["done"]),
        ("I2", "job_in_no_place"),
    ),
    "a ready job is due": (
        lambda r, at: r.zadd(at.due, {at["ready"]: 5}),
        ("I2", "place_of_no_job"),
    ),
    "a job that is not there is buried": (
        lambda r, at: r.zadd(at.buried, {12345: 5}),
        ("I2", "place_of_no_job"),
    ),
    "a running job is held by nobody": (
        lambda r, at: r.delete(at.running("hand")),
        ("I2", "job_is_held_by_another"),
    ),
    "a ready job is held": (
        lambda r, at: r.hset(at.running("hand"), 1, at["ready"]),
        ("I2", "place_of_no_job"),
    ),
    "facts without a record": (
        lambda r, at: r.hdel(at.jobs, at["dead"]),
        ("I2", "facts_of_no_job"),
    ),
    "turns went back": (
        lambda r, at: r.hset(at.meta, "turn", 1),
        ("I2", "turn_from_the_future"),
    ),
    "a line in no ring": (
        lambda r, at: r.lrem(at.ring("0"), 1, "acme"),
        ("I2", "line_is_not_named"),
    ),
    "a ring without a line": (
        lambda r, at: r.rpush(at.ring("0"), "nobody"),
        ("I2", "line_is_not_there"),
    ),
    "a tenant with two turns": (
        lambda r, at: r.rpush(at.ring("0"), "acme"),
        ("I2", "tenant_has_two_turns"),
    ),
    "a level that is not listed": (
        lambda r, at: r.zrem(at.levels, "-10"),
        ("I2", "ring_is_not_named"),
    ),
    "a level without a ring": (
        lambda r, at: r.zadd(at.levels, {"7": 7}),
        ("I2", "ring_is_not_there"),
    ),
    "a turn of no line": (
        lambda r, at: r.hset(at.credits, "3:nobody", 1),
        ("I2", "credit_of_no_line"),
    ),
    "strays that nobody looks for": (
        lambda r, at: r.delete(at.strays),
        ("I2", "stray_is_not_named"),
    ),
    "strays that are not there": (
        lambda r, at: r.sadd(at.strays, "nothing"),
        ("I2", "stray_is_not_there"),
    ),
    "parked jobs that nobody looks for": (
        lambda r, at: r.delete(at.unparks),
        ("I2", "parked_is_not_named"),
    ),
    "a key without parked jobs": (
        lambda r, at: r.zadd(at.unparks, {"nothing": 5}),
        ("I2", "parked_is_not_there"),
    ),
    "a job is not listed": (
        lambda r, at: r.srem(_page(r, at, "rA:"), at["ready"]),
        ("I12", "job_not_listed"),
    ),
    "a word does not find its job": (
        lambda r, at: r.delete(_page(r, at, "*W:seven")),
        ("I12", "job_not_listed"),
    ),
    "a job is listed by mistake": (
        lambda r, at: r.sadd(_page(r, at, "rA:"), at["done"]),
        ("I12", "listed_by_mistake"),
    ),
    "a job that is not there is listed": (
        lambda r, at: r.sadd(_page(r, at, "rA:"), 12345),
        ("I12", "listed_by_mistake"),
    ),
    "a page is empty": (
        lambda r, at: r.zadd(at.pages("rA:"), {"77": 77}),
        ("I12", "empty_page"),
    ),
    "a page is not in its directory": (
        lambda r, at: r.delete(at.pages("rA:")),
        ("I12", "page_not_listed"),
    ),
    "a count is wrong": (
        lambda r, at: r.hincrby(at.counts, "rT:email", 3),
        ("I12", "count_is_wrong"),
    ),
    "a count of nothing": (
        lambda r, at: r.hset(at.counts, "rG:blue", 0),
        ("I12", "count_is_wrong"),
    ),
    "a key is busy with nothing": (
        lambda r, at: r.hincrby(at.busy, "host", 1),
        ("I12", "count_is_wrong"),
    ),
    "more bytes wait than there are": (
        lambda r, at: r.hincrby(at.meta, "waiting_bytes", 100),
        ("I12", "count_is_wrong"),
    ),
    "fewer bytes are kept than there are": (
        lambda r, at: r.hincrby(at.meta, "kept_bytes", -1),
        ("I12", "count_is_wrong"),
    ),
    "a state counts more jobs than are in its place": (
        lambda r, at: r.hincrby(at.counts, "xA:", 1),
        ("I12", "states_add_up"),
    ),
    "a unique key of a job that is not there": (
        lambda r, at: r.hset(at.unique_jobs, "=gone", 12345),
        ("I6", "unique_key_of_no_job"),
    ),
    "a unique key of a job that has ended": (
        lambda r, at: r.hset(at.unique_jobs, "=gone", at["done"]),
        ("I6", "unique_key_of_no_job"),
    ),
    "a window of no key": (
        lambda r, at: r.zadd(at.windows, {"=gone": 5}),
        ("I6", "window_of_no_key"),
    ),
    "a unique job without its key": (
        lambda r, at: r.hdel(at.unique_jobs, "=sms"),
        ("I6", "unique_key_not_held"),
    ),
    "progress of no job": (
        lambda r, at: r.hset(at.progress, 12345, "[1, null]"),
        ("I13", "extra_of_no_job"),
    ),
    "a log of no job": (
        lambda r, at: r.rpush(at.log(12345), "line"),
        ("I13", "extra_of_no_job"),
    ),
    "attempts of no job": (
        lambda r, at: r.rpush(at.attempts(12345), "attempt"),
        ("I13", "extra_of_no_job"),
    ),
    "a log that its job does not know of": (
        lambda r, at: r.rpush(at.log(at["done"]), "line"),
        ("I13", "extra_of_no_job"),
    ),
    "types of a worker that is gone": (
        lambda r, at: r.hset(at.types, "gone", "*"),
        ("I13", "trace_of_no_member"),
    ),
    "an alarm of a worker that is gone": (
        lambda r, at: r.zadd(at.alarms, {"gone": 5}),
        ("I13", "trace_of_no_member"),
    ),
    "a suspect that its worker does not hold": (
        lambda r, at: r.hset(at.suspects, "hand", at["ready"]),
        ("I13", "trace_of_no_member"),
    ),
    "a slot of no schedule": (
        lambda r, at: r.zadd(at.slots, {"gone": 5}),
        ("I13", "slot_of_no_schedule"),
    ),
    "jobs in a queue that was deleted": (
        lambda r, at: r.delete(at.meta),
        ("I13", "jobs_without_a_queue"),
    ),
    "a holder that nobody knows": (
        lambda r, at: r.rename(at.running("hand"), at.running("gone")),
        ("I13", "holder_is_unknown"),
    ),
    "live state that expires": (
        lambda r, at: r.expire(at.jobs, 1000),
        ("I13", "live_state_expires"),
    ),
    "an unknown key": (
        lambda r, at: r.set(at.log("of nothing"), "1"),
        ("I13", "unknown_key"),
    ),
    "a key of another type": (
        lambda r, at: (r.delete(at.due), r.set(at.due, "1")),
        ("I13", "mistyped_key"),
    ),
}

NOT_REPAIRABLE = {
    "a job is lost",
    "a start is not counted",
    "an end is not counted",
    "a counter went below zero",
    "a job is in its line twice",
    "a job is in the line of others",
    "a running job is held by nobody",
    "a ready job is held",
    "facts without a record",
    "turns went back",
    "a tenant with two turns",
    "a state counts more jobs than are in its place",
    "a unique job without its key",
    "a log that its job does not know of",
    "jobs in a queue that was deleted",
    "a holder that nobody knows",
    "an unknown key",
    "a key of another type",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_to_jobs_is_found_and_named(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys, name: str
) -> None:
    damage, expected = DAMAGES[name]
    _, ids = build(ps)
    damage(server.client, Places(keys, ids))

    assert expected in kinds(fsck.check(ps))


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - NOT_REPAIRABLE))
def test_repair_mends_what_can_be_mended_of_jobs_without_risk(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys, name: str
) -> None:
    damage, expected = DAMAGES[name]
    _, ids = build(ps)
    damage(server.client, Places(keys, ids))
    found = fsck.check(ps)

    report = fsck.repair(ps, found)

    assert report.violations == []
    assert expected in {(v.invariant, v.kind) for v in report.repaired}
    check_jobs(ps.store, keys)


@pytest.mark.parametrize("name", ["a job is lost", "an end is not counted"])
def test_repair_leaves_counters_of_what_has_happened_alone(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys, name: str
) -> None:
    damage, expected = DAMAGES[name]
    _, ids = build(ps)
    damage(server.client, Places(keys, ids))
    before = _counters(server, keys)

    report = fsck.repair(ps, fsck.check(ps))

    assert expected in kinds(report)
    assert _counters(server, keys) == before


def _counters(server: RedisServer, keys: QueueKeys) -> dict[bytes, bytes]:
    counters: Any = server.client.hgetall(keys.meta)
    return {name: value for name, value in counters.items() if not name.endswith(b"_bytes")}


def test_repair_puts_a_job_that_is_in_no_line_back_in_its_place(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    mail = ps.jobs("mail")
    first, second, third = mail.add_many("email", [1, 2, 3])
    line = keys.of_jobs("line", "0:")
    server.client.lrem(line, 1, str(id_number(second.id)))

    report = fsck.repair(ps, fsck.check(ps))

    assert [v.kind for v in report.repaired] == ["job_in_no_line"]
    assert sorted(Hand(ps).take_named(5)) == [1, 2, 3]
    assert {job.state for job in (first, second, third)} == {"running"}


def test_repair_gives_back_the_jobs_of_a_worker_that_nobody_knows(
    ps: penstock.Penstock, server: RedisServer
) -> None:
    build(ps)
    for key in (ps.keys.workers, ps.keys.info, ps.keys.work("hand")):
        server.client.delete(key)

    report = fsck.repair(ps, fsck.check(ps))

    assert report.violations == []
    assert ps.jobs("mail").counts()["running"] == 0


def test_a_count_is_put_right_while_jobs_come_and_go(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    build(ps)
    server.client.hincrby(keys.of_jobs("counts"), "rT:email", 3)
    found = fsck.check(ps)
    ps.jobs("mail").add_many("email", [1, 2])

    report = fsck.repair(ps, found)

    assert report.violations == []
    assert ps.jobs("mail").counts(type="email")["ready"] == check_ready(ps, keys)


def check_ready(ps: penstock.Penstock, keys: QueueKeys) -> int:
    """How many emails are ready, counted by hand."""
    stored = check_jobs(ps.store, keys).jobs.values()
    return sum(job.state == "ready" and job.head.type == "email" for job in stored)
