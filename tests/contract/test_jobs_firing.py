"""Every slot of a schedule is fired once, however many try; missed ones as was asked for."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.worker.schedules import fire_schedules
from tests.contract.job_slots import HOUR_MS, fall_due, fire, read
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.schedules import Schedules
    from tests.contract.job_workers import Hand
    from tests.running_worker import RunningWorker
    from tests.servers import RedisCluster, RedisServer


@pytest.fixture
def schedules(ps: penstock.Penstock) -> Schedules:
    return ps.schedules("mail")


def test_of_several_who_fire_one_slot_the_first_does(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add("hourly", "email", every=3600)
    fall_due(ps)
    seen = [read(ps) for _ in range(3)]

    assert [fire(ps, *each) for each in seen] == [True, False, False]

    assert mail.counts()["ready"] == 1


def test_who_saw_the_slot_before_the_last_one_fires_nothing(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add("hourly", "email", every=3600)
    fall_due(ps, ago_ms=2 * HOUR_MS)
    old = read(ps)
    fall_due(ps, ago_ms=HOUR_MS)

    assert not fire(ps, *old)
    assert fire(ps, *read(ps))

    assert mail.counts()["ready"] == 1


def test_who_saw_another_definition_fires_nothing(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add("hourly", "email", "old", every=3600)
    slot = fall_due(ps)
    old = read(ps)
    schedules.add("hourly", "email", "new", every=3600)
    key = f"{ps.keys.queue('mail').tag}:slots"
    ps.store.call(key, "ZADD", key, slot, "hourly")

    assert not fire(ps, *old)
    assert fire(ps, *read(ps))

    assert [json.loads(job.data) for job in mail.page("ready").jobs] == ["new"]


def test_who_saw_a_schedule_that_was_removed_fires_nothing(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add("hourly", "email", every=3600)
    fall_due(ps)
    old = read(ps)
    schedules.remove("hourly")

    assert not fire(ps, *old)

    assert mail.counts()["ready"] == 0


def test_many_firers_at_once_fire_each_slot_once(
    any_store: RedisServer | RedisCluster,
    namespace: str,
    ps: penstock.Penstock,
    schedules: Schedules,
    mail: penstock.Jobs,
) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names:
        schedules.add(name, "email", name, every=3600, misfire="all")
        fall_due(ps, name, ago_ms=3 * HOUR_MS)

    async def fire_all() -> int:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
            keys = client.keys.queue("mail")
            fired = await asyncio.gather(*(fire_schedules(client, keys, names) for _ in range(4)))
            return sum(fired)

    with ThreadPoolExecutor(2) as firers:
        sent = sum(firers.map(lambda _: asyncio.run(fire_all()), range(2)))

    assert sent == mail.counts()["ready"] == 5 * 4


@pytest.mark.parametrize(("misfire", "jobs"), [("skip", 0), ("once", 1), ("all", 6)])
def test_slots_that_passed_while_nobody_was_there_are_made_up_for_as_was_asked(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs, misfire: Any, jobs: int
) -> None:
    # A quarter past, so that no slot is on time when the clock strikes the hour.
    start = datetime(2025, 1, 1, 0, 15, tzinfo=UTC)
    schedules.add("hourly", "email", every=3600, misfire=misfire, starts_at=start)
    _, stored = read(ps)
    assert stored.slot_ms is not None
    key = f"{ps.keys.queue('mail').tag}:slots"
    ps.store.call(key, "ZADD", key, stored.slot_ms - 6 * HOUR_MS, "hourly")
    _, missed = read(ps)
    # As if it were ten minutes before the next slot, whatever the time is.
    assert fire(ps, stored.slot_ms - 10 * 60_000, missed)

    assert mail.counts()["ready"] == jobs
    assert schedules.get("hourly").next_at == stored.slot_ms / 1000


def test_a_paused_schedule_lets_its_slots_pass(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add("hourly", "email", every=3600, misfire="all")
    schedules.pause("hourly")
    assert schedules.get("hourly").schedule.is_paused
    fall_due(ps, ago_ms=5 * HOUR_MS)

    assert fire(ps, *read(ps))
    assert mail.counts()["ready"] == 0
    schedules.resume("hourly")

    state = schedules.get("hourly")
    assert not state.schedule.is_paused
    assert state.next_at is not None and state.next_at > read(ps)[0] / 1000


def test_a_schedule_that_has_ended_is_never_due_again(
    ps: penstock.Penstock, schedules: Schedules, hand: Hand
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    schedules.add("hourly", "email", every=3600, ends_at=soon)
    fall_due(ps)

    # As if it were an hour later.
    now_ms, stored = read(ps)
    assert fire(ps, now_ms + 2 * HOUR_MS, stored)

    assert schedules.get("hourly").next_at is None
    assert hand.claim().wait_ms == -1


def test_a_full_queue_does_not_swallow_a_slot(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    mail.configure(max_length=1)
    job = mail.add("email")
    schedules.add("hourly", "email", every=3600)
    slot = fall_due(ps)

    with pytest.raises(penstock.QueueFull):
        fire(ps, *read(ps))
    assert schedules.get("hourly").next_at == slot / 1000
    job.remove()

    assert fire(ps, *read(ps))


def test_workers_fire_what_falls_due(
    ps: penstock.Penstock, schedules: Schedules, serve: Callable[..., RunningWorker]
) -> None:
    ran: list[str] = []

    @penstock.job(queue="mail", type="email")
    def send(to: str) -> None:
        ran.append(to)

    for _ in range(2):
        serve(send)
    schedules.add("hourly", "email", {"to": "ann"}, every=3600)
    fall_due(ps)
    # Who is asleep looks as soon as there is a job.
    send.on(ps).send("bob")

    wait_for(lambda: sorted(ran) == ["ann", "bob"])
