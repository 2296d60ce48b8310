"""What a script goes through has a bound, also when there is more of it than fits one step."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.heads import pack_head
from penstock.model.job_options import make_options
from penstock.model.schedules import MAX_SCHEDULES
from penstock.store.command import Operation
from penstock.store.commands import job_records, job_rules, jobs
from penstock.store.commands.jobs import Group
from tests.job_samples import FIRST_ID, QUEUE
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisServer

LINES = 1200  # more than are thrown away in one step


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.mark.parametrize("by", ["priority", "tenant", "type"])
def test_deleting_a_queue_leaves_nothing_of_any_number_of_lines(
    by: str, ps: penstock.Penstock, server: RedisServer
) -> None:
    mail, keys, run_once = ps.jobs(QUEUE), ps.keys.queue(QUEUE), ps.store.run_once
    mail.add("email", {})
    groups = [one_of_many(by, number) for number in range(LINES)]
    run_once(lambda operation: jobs.send_jobs(keys, operation, groups))
    if by == "type":
        run_once(lambda operation: jobs.join_jobs(keys, operation, "w1", ["none"]))
        for _ in range(2):  # A worker that can take none puts all aside, a thousand at a time.
            run_once(lambda operation: jobs.start_jobs(keys, operation, "w1", 1))
        run_once(lambda operation: jobs.leave_jobs(keys, operation, "w1", is_lost=False))

    assert mail.delete() == (LINES + 1, 0)

    left = Stored(server, ps.keys.namespace).everything()
    assert [key for key in left if ":memory:" not in key] == []


def one_of_many(by: str, number: int) -> Group:
    made = make_options(f"type {number}" if by == "type" else "email", {})
    if by == "priority":
        made = replace(made, priority=number)
    if by == "tenant":
        made = replace(made, tenant=f"tenant {number}")
    return Group(pack_head(made), 0, 0, 0, [(FIRST_ID + number, b"")])


def test_a_queue_has_no_more_schedules_than_can_be_listed_at_once(
    ps: penstock.Penstock, server: RedisServer
) -> None:
    keys = ps.keys.queue(QUEUE)
    ps.schedules(QUEUE).add("first", "email", every=3600)
    client: Any = server.client
    names = {f"schedule {number}": b"" for number in range(1, MAX_SCHEDULES)}
    client.hset(f"{keys.tag}:schedules", mapping=names)
    before = Stored(server, ps.keys.namespace)[f"{keys.tag}:schedules"]

    with pytest.raises(penstock.QueueFull) as refused:
        ps.schedules(QUEUE).add("one more", "email", every=3600)

    assert str(refused.value) == (
        "queue 'mail' has 1000 schedules, which is as many as it may have; "
        "remove one, choose another queue, or let it have more "
        "(`penstock job configure mail --max-schedules N`)"
    )
    assert Stored(server, ps.keys.namespace)[f"{keys.tag}:schedules"] == before

    ps.jobs(QUEUE).configure(max_schedules=MAX_SCHEDULES + 1)
    ps.schedules(QUEUE).add("one more", "email", every=3600)
    with pytest.raises(penstock.QueueFull, match="has 1001 schedules"):
        ps.schedules(QUEUE).add("another", "email", every=3600)
    assert ps.jobs(QUEUE).rules().settings == {"max_schedules": MAX_SCHEDULES + 1}


def test_a_schedule_of_a_queue_that_has_as_many_as_it_may_can_be_replaced(
    ps: penstock.Penstock, server: RedisServer
) -> None:
    keys = ps.keys.queue(QUEUE)
    ps.schedules(QUEUE).add("first", "email", every=3600)
    client: Any = server.client
    names = {f"schedule {number}": b"" for number in range(1, MAX_SCHEDULES)}
    client.hset(f"{keys.tag}:schedules", mapping=names)

    ps.schedules(QUEUE).add("first", "email", every=60)

    assert ps.schedules(QUEUE).get("first").schedule.every_ms == 60_000
    _, found = ps.store.run(job_rules.list_schedules(keys))
    assert len(found) == MAX_SCHEDULES


def test_a_step_of_a_deletion_reads_no_more_jobs_than_it_removes(
    ps: penstock.Penstock, server: RedisServer
) -> None:
    keys = ps.keys.queue(QUEUE)
    ps.jobs(QUEUE).add_many("email", range(250))
    command = job_records.delete_jobs(keys, Operation("lane", 1), 20, is_last=False)

    client: Any = server.client
    with client.monitor() as monitor:
        deleted, left, _ = ps.store.run(command)
        server.command("ECHO", "that is all")
        told = list(takewhile(lambda seen: "that is all" not in seen, commands_of(monitor)))

    assert (deleted.removed, left) == (20, 230)
    read = [seen for seen in told if seen.startswith(f"HMGET {keys.tag}:facts ")]
    assert sum(len(seen.split()) - 2 for seen in read) == 20


def commands_of(monitor: Any) -> Iterator[str]:
    return (seen["command"] for seen in monitor.listen())
