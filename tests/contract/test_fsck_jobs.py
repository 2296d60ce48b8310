"""`penstock fsck` on queues of jobs: silent about a healthy one, and exact about a damaged one."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client import fsck
from penstock.codec.ids import id_number
from penstock.model.jobs import LAYOUT, Report
from tests.contract.job_damages import DAMAGES, NOT_REPAIRABLE, Places
from tests.contract.job_workers import Hand, written
from tests.job_invariants import check_jobs
from tests.servers import wait_for
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.keys import QueueKeys
    from tests.servers import RedisCluster, RedisServer

JOBS = 12


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


async def _check(url: str, namespace: str) -> Any:
    async with await penstock.aconnect(url, namespace=namespace) as ps:
        return await fsck.acheck(ps)


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


def test_what_a_newer_version_wrote_is_left_alone_and_the_other_queues_are_checked(
    ps: penstock.Penstock, server: RedisServer, namespace: str, keys: QueueKeys
) -> None:
    redis: Any = server.client
    Hand(ps, "gone", queue="newer")
    ps.jobs("newer").add("email")
    ps.jobs("mail").add("email")
    newer = ps.keys.queue("newer")
    redis.hset(newer.meta, "layout", LAYOUT + 1)
    redis.expire(newer.jobs, 1000)
    redis.hset(ps.keys.queues, redis.hget(newer.meta, "incarnation"), "1 newer")
    redis.zadd(ps.keys.workers, {"gone": 1})
    redis.hset(keys.meta, "waiting_bytes", 7)
    stored = Stored(server, f"{namespace}:newer")
    before = written(stored)

    found = fsck.check(ps)
    after = fsck.repair(ps, found)

    assert {(it.queue, it.kind) for it in found.violations} == {
        ("newer", "layout_is_newer"),
        ("mail", "count_is_wrong"),
        ("", "dead_worker_not_recovered"),
    }
    [newest] = [it.message for it in found.violations if it.queue == "newer"]
    assert f"by a newer penstock (layout {LAYOUT + 1}; this version knows {LAYOUT})" in newest
    assert "check it with that version" in newest
    assert [it.queue for it in after.repaired] == ["mail"]
    assert (found.queues, written(stored)) == (2, before)


def test_what_is_no_id_is_named_with_where_it_stands(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    build(ps)
    server.client.hset(keys.unique_jobs, "=key", "nonsense")
    server.client.rpush(keys.line("0:"), "5.x")
    server.client.zadd(keys.pages("rA:"), {"first": 1})

    found = fsck.check(ps).violations

    assert {(it.message, it.is_repairable) for it in found} == {
        ("'unique_jobs' has b'nonsense' for b'=key', which is not the id of a job", True),
        ("'line:0:' has b'5.x', which is not the id of a job", False),
        ("'pages:rA:' has b'first', which is not the number of a page", False),
    }


def test_a_key_whose_window_is_open_stays_taken_by_any_job(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    build(ps)
    server.client.hset(keys.unique_jobs, ":email\0window", "nonsense")

    report = fsck.repair(ps, fsck.check(ps))

    [left] = report.violations
    assert (left.kind, left.is_repairable, report.repaired) == ("entry_is_no_id", False, [])


def test_a_queue_takes_jobs_again_when_its_last_turn_was_mended(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    _, ids = build(ps)
    turn = server.client.hget(keys.meta, "turn")
    server.client.hset(keys.meta, "turn", "many")

    fsck.repair(ps, fsck.check(ps))

    assert server.client.hget(keys.meta, "turn") == turn
    ps.jobs("mail").add("email", "the next")
    assert len(check_jobs(ps.store, keys).jobs) == len(ids) + 1


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
    """What has happened, without how many jobs and bytes there are now."""
    counters: Any = server.client.hgetall(keys.meta)
    return {
        name: value
        for name, value in counters.items()
        if b":" not in name and not name.endswith(b"_bytes")
    }


def test_repair_puts_a_job_that_is_in_no_line_back_in_its_place(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    mail = ps.jobs("mail")
    first, second, third = mail.add_many("email", [1, 2, 3])
    line = keys.line("0:")
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
    server.client.hincrby(keys.meta, "rT:email", 3)
    found = fsck.check(ps)
    ps.jobs("mail").add_many("email", [1, 2])

    report = fsck.repair(ps, found)

    assert report.violations == []
    assert ps.jobs("mail").counts(type="email")["ready"] == check_ready(ps, keys)


def check_ready(ps: penstock.Penstock, keys: QueueKeys) -> int:
    """How many emails are ready, counted by hand."""
    stored = check_jobs(ps.store, keys).jobs.values()
    return sum(job.state == "ready" and job.head.type == "email" for job in stored)
