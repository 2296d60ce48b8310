"""What another program has written where rules, counters and lines are keeps no job from running:
it counts as if it were not there, and stays for `penstock fsck` to name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import fsck

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.contract.job_workers import Hand

    Plant = Callable[[Callable[..., Any], QueueKeys], object]

SETTINGS = (
    *("ageing_ms", "history_length", "history_cap", "marked_until", "max_length", "max_bytes"),
    *("keep_ms", "keep_dead_ms", "keep_count", "keep_bytes", "kept_bytes", "waiting_bytes"),
    *("process", "sent", "started", "finished", "done", "rA:", "uA:", "uT:email", "newest"),
)
"""What scripts that workers use count with, or are set by."""


def _field(kind: str, field: str, value: str) -> Plant:
    def plant(call: Callable[..., Any], at: QueueKeys) -> None:
        call(at.named(kind), "HSET", at.named(kind), field, value)

    return plant


PLANTED: dict[str, Plant] = {
    **{
        f"{name} is {value!r}": _field("meta", name, value)
        for name in SETTINGS
        for value in ("many", "")
    },
    **{
        f"the limit of {key!r} is {value!r}": _field("limits", key, value)
        for key in ("", "*", "host")
        for value in ("many", "", "1 2", "a b c d", "0 5 0 5")
    },
    "a bucket is no number": lambda call, at: (
        call(at.limits, "HSET", at.limits, "host", "0 1000 1000 1000"),
        call(at.buckets, "HSET", at.buckets, "host", "many tokens"),
    ),
    "what runs of a key is no number": lambda call, at: (
        call(at.limits, "HSET", at.limits, "host", "5 0 0 0"),
        call(at.busy, "HSET", at.busy, "host", "many"),
    ),
    "a share is no number": lambda call, at: call(at.shares, "HSET", at.shares, "acme", "many"),
    "a share is nothing": lambda call, at: call(at.shares, "HSET", at.shares, "acme", "0"),
    "a level without a ring": lambda call, at: call(at.levels, "ZADD", at.levels, -99, "-99"),
    "a level that is no number": lambda call, at: call(at.levels, "ZADD", at.levels, -99, "x"),
    "a ring without a line": lambda call, at: call(at.ring("0"), "ZADD", at.ring("0"), -1, "gone"),
    "unhandled jobs that are not there": lambda call, at: call(
        at.unhandled_types, "SADD", at.unhandled_types, "email"
    ),
    "what is no job is unhandled": lambda call, at: (
        call(at.unhandled_types, "SADD", at.unhandled_types, "email"),
        call(at.unhandled("email"), "ZADD", at.unhandled("email"), -99, "nonsense"),
    ),
    "what is no job is parked": lambda call, at: (
        call(at.unparks, "ZADD", at.unparks, 1, "host"),
        call(at.parked("host"), "ZADD", at.parked("host"), -99, "nonsense"),
    ),
    "what is no job is due": lambda call, at: call(at.due, "ZADD", at.due, 1, "nonsense"),
    "what is no job stands in line": lambda call, at: call(
        at.line("0:"), "LPUSH", at.line("0:"), "nonsense", "5.x", ""
    ),
    "what is no schedule is due": lambda call, at: call(at.slots, "ZADD", at.slots, 1, "gone"),
    "what is no job is held": lambda call, at: call(
        at.running("hand"), "HSET", at.running("hand"), "x", "nonsense"
    ),
    "a suspect that is no job": lambda call, at: call(at.suspects, "HSET", at.suspects, "x", "y"),
    "progress of no job": lambda call, at: call(at.progress, "HSET", at.progress, "x", "\xff"),
    "a unique key of no job": lambda call, at: call(
        at.unique_jobs, "HSET", at.unique_jobs, "x", "y"
    ),
    "what is to be moved is no stage": lambda call, at: call(at.moving, "RPUSH", at.moving, "x"),
}


@pytest.mark.stores("debian")
@pytest.mark.parametrize("ageing", [0, 60], ids=["as sent", "ageing"])
@pytest.mark.parametrize("name", PLANTED)
def test_jobs_run_whatever_stands_where_rules_and_lines_are(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys, name: str, ageing: int
) -> None:
    if ageing:
        mail.configure(ageing_s=ageing)
    mail.limit("host", concurrency=5)
    mail.limit("other", concurrency=5)
    sent = [mail.add("email", number, key="host") for number in range(2)]
    sent += [mail.add("email", 3, tenant="acme"), mail.add("email", 4, priority="high")]
    PLANTED[name](ps.store.call, keys)

    ran = 0
    for _ in range(10):
        found = hand.claim(2).found
        ran += sum(hand.finish(job, "result") for job in found)

    assert ran == len(sent)
    assert {job.result(timeout=0) for job in sent} == {"result"}
    hand.leave()
    assert "job_in_no_line" not in {it.kind for it in fsck.check(ps).violations}


def test_processes_only_grow_though_the_last_one_was_lost(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys
) -> None:
    mail.add_many("email", [1, 2])
    before = hand.take_one()
    ps.store.call(keys.meta, "HDEL", keys.meta, "process")

    assert hand.take_one().process > before.process


@pytest.mark.parametrize("value", ["many", "", None])
def test_tasks_are_not_lost_when_a_counter_is_no_number(
    ps: penstock.Penstock, queue: penstock.Queue, keys: QueueKeys, value: str | None
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    with ps.worker() as worker:
        worker.start_work(queue.name)
        first = worker.start_task(queue.name)
        assert first is not None
        names = ("process", "started", "finished", "stopped", "failed", "enqueued", "max_failures")
        for name in names:
            if value is None:
                ps.store.call(keys.meta, "HDEL", keys.meta, name)
            else:
                ps.store.call(keys.meta, "HSET", keys.meta, name, value)

        second, third = worker.start_tasks(queue.name, 2)
        queue.enqueue(b"d")
        second.fail()
        third.stop()
        first.finish()

        assert second.id > first.id
        assert sorted(queue.page().tasks) == [b"b", b"c", b"d"]
