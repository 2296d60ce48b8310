"""What `penstock fsck` reads and mends of queues of jobs, script by script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.store.commands import job_checks
from tests.contract.job_workers import written
from tests.job_samples import JOB_IDS, sample_job_world

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.command import Command
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

    Mend = Callable[[QueueKeys, bool], Command[bool]]

GONE = 12345


def test_what_is_counted_is_read_at_one_instant(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys
) -> None:
    processes = sample_job_world(ps.store, names)

    totals = ps.store.run(job_checks.read_totals(keys, ["w1", "stranger"]))

    assert totals.exists
    assert totals.members == {"w1", "w2", "w3"}
    assert totals.held == {"w1": len(processes), "w3": 1}
    assert totals.sizes["jobs"] == sum(totals.states.values()) == totals.count("sent")
    assert (totals.states["running"], totals.states["dead"]) == (len(processes) + 1, 1)


def test_a_survey_of_no_queue_is_empty(ps: penstock.Penstock, keys: QueueKeys) -> None:
    totals = ps.store.run(job_checks.read_totals(keys, []))

    assert not totals.exists
    assert sum(totals.states.values()) == 0


def test_jobs_are_scanned_some_at_a_time_and_taken_apart(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys
) -> None:
    sample_job_world(ps.store, names)

    page = ps.store.run(job_checks.scan_jobs(keys, "0", "jobs", 1000))
    rest = ps.store.run(job_checks.scan_jobs(keys, "0", "facts", 1000))

    later = next(job for job in page.jobs if job.head.unique == b":email\0later")
    assert page.cursor == "0"
    assert (later.state, later.has_record, later.has_facts) == ("scheduled", True, True)
    assert (later.head.tags, later.head.words) == (("red",), ("hello", "world"))
    assert later.head.unique_mode == "scheduled"
    assert rest.jobs == []


MENDS: dict[str, tuple[Mend, Callable[[Any, QueueKeys], object]]] = {
    "a job": (
        lambda keys, is_real: job_checks.mend_job(keys, JOB_IDS["later"], 100, is_real),
        lambda call, keys: call("ZREM", keys.due, JOB_IDS["later"]),
    ),
    "a page": (
        lambda keys, is_real: job_checks.mend_page(keys, "rA:", 0, [GONE], is_real),
        lambda call, keys: call("SADD", keys.page("0:rA:"), GONE),
    ),
    "a line": (
        lambda keys, is_real: job_checks.mend_line(keys, "line", "0:zeta", is_real),
        lambda call, keys: call("ZREM", keys.ring("0"), "zeta"),
    ),
    "a ring": (
        lambda keys, is_real: job_checks.mend_line(keys, "ring", "10", is_real),
        lambda call, keys: call("ZREM", keys.levels, "10"),
    ),
    "what was put aside": (
        lambda keys, is_real: job_checks.mend_line(keys, "unhandled", "fax", is_real),
        lambda call, keys: call("SREM", keys.unhandled_types, "fax"),
    ),
    "what a limit holds back": (
        lambda keys, is_real: job_checks.mend_line(keys, "parked", "host", is_real),
        lambda call, keys: call("ZREM", keys.unparks, "host"),
    ),
    "a unique key": (
        lambda keys, is_real: job_checks.mend_trace(
            keys, "unique_jobs", b"=gone", str(GONE), is_real
        ),
        lambda call, keys: call("HSET", keys.unique_jobs, "=gone", GONE),
    ),
    "the log of a job": (
        lambda keys, is_real: job_checks.mend_trace(keys, "log", b"%d" % GONE, "", is_real),
        lambda call, keys: call("RPUSH", keys.log(str(GONE)), "line"),
    ),
    "the alarm of a worker": (
        lambda keys, is_real: job_checks.mend_trace(keys, "alarms", b"gone", "", is_real),
        lambda call, keys: call("ZADD", keys.alarms, 1, "gone"),
    ),
}
each_mend = pytest.mark.parametrize("name", MENDS)


@each_mend
def test_what_is_right_is_left_alone(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored, name: str
) -> None:
    sample_job_world(ps.store, names)
    before = written(stored)

    assert ps.store.run(MENDS[name][0](keys, True)) is False

    assert written(stored) == before


@each_mend
def test_what_is_wrong_is_told_without_a_write_and_mended_on_demand(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored, name: str
) -> None:
    sample_job_world(ps.store, names)
    mend, damage = MENDS[name]
    damage(lambda *parts: ps.store.call(keys.meta, *parts), keys)
    wrong = written(stored)

    assert ps.store.run(mend(keys, False)) is True
    assert written(stored) == wrong
    assert ps.store.run(mend(keys, True)) is True
    assert ps.store.run(mend(keys, False)) is False


@pytest.mark.parametrize(("seen", "is_set"), [(b"10", True), (b"9", False)])
def test_a_count_is_set_unless_it_has_changed(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored, seen: bytes, is_set: bool
) -> None:
    ps.store.call(keys.meta, "HSET", keys.meta, "rT:email", 10)

    done = ps.store.run(job_checks.mend_count(keys, "meta", "rT:email", seen, 7))

    assert done is is_set
    assert stored.hash(keys.meta) == {b"rT:email": b"7" if is_set else b"10"}


def test_a_count_of_nothing_is_removed(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    busy = keys.busy
    ps.store.call(busy, "HSET", busy, "host", 1)

    assert ps.store.run(job_checks.mend_count(keys, "busy", "host", b"1", 0)) is True

    assert busy not in stored
