"""A job that would be the next to start goes straight to a worker that waits for one, and only
then. Nothing is lost if the worker does not hear of it.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.handed_out import open_handed_over
from penstock.codec.heads import pack_head
from penstock.errors import QueueFull, StoreError
from penstock.model.job_options import make_options
from penstock.store.command import Operation
from penstock.store.commands import jobs
from penstock.store.commands.jobs import Group
from tests.contract.job_workers import Hand, written
from tests.job_invariants import check_jobs
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.jobs import HandedOut
    from penstock.store.command import Command
    from tests.contract.conftest import Ear
    from tests.running_worker import RunningWorker
    from tests.stored import Stored

ENOUGH = 65_536


class Taker(Hand):
    """A worker that takes jobs unasked, and hears of them."""

    def __init__(self, ps: penstock.Penstock, listen: Callable[[str], Ear], name: str) -> None:
        super().__init__(ps, name)
        self.ear = listen(f"{self.keys.hand}{name}")
        self.calls = listen(f"{self.keys.wake}{name}")

    def hear(self) -> list[HandedOut]:
        """The jobs that it was handed since."""
        return [open_handed_over(message) for message in self.ear.hear_the_rest() if message]

    def find(self, *known: int) -> list[HandedOut]:
        return self._store.run(jobs.find_handed(self.keys, self.id, known))


@pytest.fixture
def taker(ps: penstock.Penstock, listen: Callable[[str], Ear]) -> Taker:
    """Waits, and takes one job unasked."""
    taker = Taker(ps, listen, "taker")
    assert taker.claim(offer=1).word == "empty"
    return taker


def counts(mail: penstock.Jobs, **which: Any) -> dict[str, int]:
    """What there is, by state."""
    return {state: count for state, count in mail.counts(**which).items() if count}


def data_of(handed: list[HandedOut]) -> list[Any]:
    return [json.loads(job.data) for job in handed]


def test_a_job_runs_as_soon_as_it_is_sent(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker
) -> None:
    job = mail.add("email", {"to": "you"}, tenant="acme", timeout=9, attempts=3)

    [handed] = taker.hear()
    assert (handed.id, handed.type, handed.data) == (job.id, "email", b'{"to":"you"}')
    assert (handed.timeout_ms, handed.attempts, handed.failures, handed.crashes) == (9000, 3, 0, 0)
    info = job.info()
    assert (info.state, info.worker, info.process) == ("running", "taker", handed.process)
    assert info.started_at == info.created_at > time.time() - 60
    assert counts(mail) == {"running": 1}
    assert counts(mail, tenant="acme") == counts(mail, type="email") == {"running": 1}
    check_jobs(ps.store, mail._keys)

    assert taker.finish(handed, {"sent": True})
    assert job.result(timeout=5) == {"sent": True}
    assert [ended.job for ended in mail.history()] == [job.id]
    assert counts(mail) == {"done": 1}
    check_jobs(ps.store, mail._keys)


def test_its_events_are_those_of_any_job(
    mail: penstock.Jobs, taker: Taker, listen: Callable[[str], Ear]
) -> None:
    ear = listen(taker.keys.events)

    mail.add("email")

    kinds = [message[1 : 1 + message[0]] for message in ear.hear_the_rest()]
    assert kinds == [b"enqueued", b"started"]


def test_a_worker_takes_no_more_than_it_said(
    mail: penstock.Jobs, ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    taker = Taker(ps, listen, "taker")
    taker.claim(5, offer=1)

    for number in range(4):
        mail.add("email", number)

    handed = taker.hear()
    assert data_of(handed) == [0]
    assert counts(mail) == {"running": 1, "ready": 3}
    assert taker.take_named(5) == [1, 2, 3]


def test_a_worker_that_gets_something_by_asking_is_handed_nothing(
    mail: penstock.Jobs, ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    taker = Taker(ps, listen, "taker")
    mail.add("email", 0)

    assert len(taker.claim(2, offer=1).found) == 1
    mail.add("email", 1)

    assert taker.hear() == []
    assert counts(mail) == {"running": 1, "ready": 1}


def test_a_worker_that_does_not_offer_is_woken(
    mail: penstock.Jobs, ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    taker = Taker(ps, listen, "taker")
    taker.claim()

    mail.add("email")

    assert taker.calls.hear_the_rest() == [b""]
    assert taker.hear() == []
    assert counts(mail) == {"ready": 1}


def test_an_offer_ends_with_the_wait(mail: penstock.Jobs, taker: Taker) -> None:
    mail.pause()
    mail.resume()  # wakes the workers that wait

    mail.add("email")

    assert taker.hear() == []
    assert counts(mail) == {"ready": 1}


def fail_one(mail: penstock.Jobs) -> None:
    hand = Hand(mail._client, "failing")
    mail.add_many("email", [1, 2])
    for job in hand.take(2):
        hand.reject(job)
    hand.leave()


def add_schedule(mail: penstock.Jobs) -> None:
    mail._client.schedules("mail").add("daily", "email", cron="0 3 * * *")


# fmt: off
NOT_SIMPLE: dict[str, Callable[[penstock.Jobs], object]] = {
    "many": lambda mail: mail.add_many("email", [1, 2]),
    "later": lambda mail: mail.add("email", delay=60),
    "unique": lambda mail: mail.add("email", unique="key"),
    "limited by a key": lambda mail: mail.add("email", key="key"),
    "to be searched for": lambda mail: mail.add("email", {"to": "you"}, search=True),
    "tagged": lambda mail: mail.add("email", tags=["new"]),
    "at most once": lambda mail: mail.add("email", at_most_once=True),
    "under an id of the caller": lambda mail: mail.add("email", id=penstock.new_job_id()),
    "large": lambda mail: mail.add("email", b"x" * (ENOUGH + 1)),
}
IN_THE_WAY: dict[str, Callable[[penstock.Jobs], object]] = {
    "a pause": lambda mail: mail.pause(),
    "a pause of its type": lambda mail: mail.pause_type("email"),
    "a limit": lambda mail: mail.limit(concurrency=5),
}
NOT_IN_THE_WAY: dict[str, Callable[[penstock.Jobs], object]] = {
    "a pause of another type": lambda mail: mail.pause_type("sms"),
    "a limit of a key": lambda mail: mail.limit("host", concurrency=1),
    "a job that is due later": lambda mail: mail.add("email", delay=60),
    "a schedule": add_schedule,
    "a job that has failed": fail_one,
}
# fmt: on


@pytest.mark.parametrize("send", NOT_SIMPLE.values(), ids=NOT_SIMPLE)
def test_a_job_that_is_not_simple_is_asked_for(
    mail: penstock.Jobs, taker: Taker, send: Callable[[penstock.Jobs], object]
) -> None:
    send(mail)

    assert taker.hear() == []
    assert "running" not in counts(mail)


def test_one_that_is_just_small_enough_is_handed_over(mail: penstock.Jobs, taker: Taker) -> None:
    mail.add("email", b"x" * ENOUGH)

    assert [len(job.data) for job in taker.hear()] == [ENOUGH]


@pytest.mark.parametrize("prepare", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_where_there_is_something_to_weigh_a_job_is_asked_for(
    mail: penstock.Jobs, taker: Taker, prepare: Callable[[penstock.Jobs], object]
) -> None:
    prepare(mail)
    taker.claim(offer=1)  # what was prepared may have woken it

    mail.add("email")

    assert taker.hear() == []
    assert "running" not in counts(mail)


@pytest.mark.parametrize("kind", ["due", "slots", "unparks"])
def test_what_has_fallen_due_is_seen_to_first(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker, kind: str
) -> None:
    key = f"{taker.keys.tag}:{kind}"
    ps.store.call(key, "ZADD", key, 1, "1")  # as if its time had just come

    mail.add("email")

    assert taker.hear() == []
    assert counts(mail) == {"ready": 1}


@pytest.mark.parametrize("prepare", NOT_IN_THE_WAY.values(), ids=NOT_IN_THE_WAY)
def test_what_is_of_no_concern_is_not_in_the_way(
    mail: penstock.Jobs, taker: Taker, prepare: Callable[[penstock.Jobs], object]
) -> None:
    prepare(mail)
    taker.claim(offer=1)

    mail.add("email", "now")

    assert data_of(taker.hear()) == ["now"]


def test_jobs_that_are_parked_count_for_the_length_of_a_queue(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker
) -> None:
    busy = Hand(ps, "busy")
    mail.limit("host", concurrency=1)
    mail.add_many("email", [1, 2], key="host")
    busy.claim(2)
    mail.configure(max_length=1)
    taker.claim(offer=1)

    with pytest.raises(QueueFull, match="holds 1 of at most 1"):
        mail.add("email", 3)

    assert taker.hear() == []


def test_an_id_from_a_clock_that_is_behind_is_handed_over(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker
) -> None:
    def send(number: int) -> None:
        head = pack_head(make_options("email", {}))
        groups = [Group(head, 0, 0, 0, [(number, b"{}")])]
        ps.store.run_once(lambda o: jobs.send_jobs(taker.keys, o, groups))

    for number in (10**15, 10**15 - 1):
        send(number)
        [handed] = taker.hear()
        taker.finish(handed)
        taker.claim(offer=1)

    assert int(ps.store.call(taker.keys.meta, "HGET", taker.keys.meta, "newest")) == 10**15
    with pytest.raises(jobs.IdTaken):
        send(10**15 - 1)
    check_jobs(ps.store, taker.keys)


def test_a_job_does_not_overtake_those_that_wait(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, taker: Taker
) -> None:
    key = taker.keys.idle
    mail.add_many("email", [1, 2])
    ps.store.call(key, "SADD", key, "+" + taker.id)  # as if it had begun to wait just now

    mail.add("email", 3)

    assert taker.hear() == []
    assert hand.take_named(3) == [1, 2, 3]


def test_a_worker_is_not_handed_what_it_cannot_run(
    ps: penstock.Penstock, mail: penstock.Jobs, listen: Callable[[str], Ear]
) -> None:
    hand = Hand(ps, "taker", ["sms"])
    ear, jobs_ear = listen(f"{hand.keys.wake}{hand.id}"), listen(f"{hand.keys.hand}{hand.id}")
    hand.claim(offer=1)

    mail.add("email")
    assert ear.hear_the_rest() == [b""]
    assert jobs_ear.hear_the_rest() == []
    assert counts(mail) == {"ready": 1}


def test_a_worker_that_has_all_it_can_hold_is_handed_nothing(
    ps: penstock.Penstock, mail: penstock.Jobs, listen: Callable[[str], Ear]
) -> None:
    taker = Taker(ps, listen, "taker")
    idle, offer = taker.keys.idle, "+" + taker.id
    taker.claim(2, offer=1)
    mail.pause()
    mail.add_many("email", [0, 1])
    ps.store.call(idle, "SADD", idle, offer)  # nobody has woken it
    mail._client.queue("mail").resume()
    ps.store.call(idle, "SADD", idle, offer)

    assert len(taker.claim(2, offer=1).found) == 2
    mail.add("email", 2)

    assert taker.hear() == []
    assert counts(mail) == {"running": 2, "ready": 1}


def test_a_worker_that_does_not_listen_is_handed_nothing(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    Hand(ps, "deaf").claim(offer=1)

    mail.add("email")

    assert counts(mail) == {"ready": 1}


def test_a_worker_that_has_left_is_handed_nothing(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker
) -> None:
    taker.leave()

    mail.add("email")

    assert taker.hear() == []
    assert counts(mail) == {"ready": 1}
    check_jobs(ps.store, mail._keys)


def test_what_was_not_heard_of_is_found(mail: penstock.Jobs, taker: Taker) -> None:
    job = mail.add("email", 7)

    [found] = taker.find()

    assert [found] == taker.hear()
    assert found.id == job.id
    assert taker.find(found.process) == []


def test_what_is_found_says_how_often_it_was_tried(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", attempts=5)
    hand.fail(hand.take_one())
    hand.crash(hand.take_one())
    held = hand.take_one()

    [found] = hand._store.run(jobs.find_handed(hand.keys, hand.id, []))

    assert found == held
    assert (found.failures, found.crashes) == (1, 1)


def test_the_jobs_of_a_worker_that_goes_wait_again(
    mail: penstock.Jobs, hand: Hand, taker: Taker
) -> None:
    job = mail.add("email", 7)

    taker.leave()

    assert hand.take_named() == [7]
    assert job.info().crashes == 0


def test_the_jobs_of_a_worker_that_dies_come_back_with_a_crash(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, taker: Taker
) -> None:
    job = mail.add("email", 7)

    taker.die()

    assert hand.take_named() == [7]
    assert job.info().crashes == 1
    check_jobs(ps.store, mail._keys)


def sent_twice(taker: Taker, number: int = 7) -> Command[Any]:
    head = pack_head(make_options("email", {}))
    return jobs.send_jobs(
        taker.keys, Operation("lane", 1), [Group(head, 0, 0, 0, [(number, b"{}")])]
    )


def test_a_request_that_is_repeated_hands_over_once(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker
) -> None:
    mail.configure(max_length=100)  # so that there is a queue

    for _ in range(2):
        assert ps.store.run(sent_twice(taker)) == {}

    assert len(taker.hear()) == 1
    assert counts(mail) == {"running": 1}


@pytest.mark.parametrize("kind", ["types", "running:taker", "idle", "facts"])
def test_a_key_of_a_wrong_type_is_found_before_anything_is_written(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker, stored: Stored, kind: str
) -> None:
    mail.configure(max_length=100)
    key = f"{taker.keys.tag}:{kind}"
    ps.store.call(key, "DEL", key)
    ps.store.call(key, "SET", key, "text")
    before = written(stored)

    with pytest.raises(StoreError, match=r"WRONGTYPE|wrong kind"):
        mail.add("email")

    assert written(stored) == before
    assert taker.hear() == []


@penstock.job(queue="mail", type="email")
def echo(number: int) -> int:
    return number


def test_a_worker_runs_what_it_is_handed(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    listen: Callable[[str], Ear],
) -> None:
    worker = serve(echo, concurrency=2)
    wait_for(lambda: ps.store.call(mail._keys.idle, "SMEMBERS", mail._keys.idle))
    ear = listen(f"{mail._keys.hand}{worker.id}")

    for number in range(10):  # until it waits and listens, it asks for jobs
        assert mail.add("email", {"number": number}).result(timeout=20) == number
    sent = [mail.add("email", {"number": number}) for number in range(20)]

    assert [job.result(timeout=20) for job in sent] == list(range(20))
    assert any(ear.hear_the_rest())
    check_jobs(ps.store, mail._keys)


began = threading.Event()
may_end = threading.Event()


@penstock.job(queue="mail", type="long")
def long() -> None:
    began.set()
    may_end.wait(20)


def test_a_worker_takes_nothing_unasked_while_something_runs(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    """A job can keep its worker from moving, and what it was handed would wait with it."""
    began.clear()
    may_end.clear()
    worker = serve(echo, long, concurrency=4)
    keys = mail._keys
    offer = "+" + worker.id
    wait_for(lambda: ps.store.call(keys.idle, "SISMEMBER", keys.idle, offer))

    mail.add("long")
    assert began.wait(20)

    wait_for(lambda: ps.store.call(keys.idle, "SISMEMBER", keys.idle, worker.id))
    assert not ps.store.call(keys.idle, "SISMEMBER", keys.idle, offer)
    assert mail.add("email", {"number": 4}).result(timeout=20) == 4
    may_end.set()
    wait_for(lambda: ps.store.call(keys.idle, "SISMEMBER", keys.idle, offer))


def test_a_worker_looks_for_what_it_has_missed(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo)
    assert worker._loop is not None
    pump, take = worker.pump, worker.handoff._take
    taken: list[bytes] = []
    missed: list[bytes] = []

    def note(message: bytes) -> Any:
        taken.append(message)
        return take(message)

    # Until it listens, and has looked for what came before that, it finds jobs by asking.
    worker.handoff._take = note
    while not taken:
        assert mail.add("email", {"number": 4}).result(timeout=20) == 4
    idle = mail._keys.idle
    wait_for(lambda: pump.feed.is_between_requests)
    wait_for(lambda: ps.store.call(idle, "SISMEMBER", idle, "+" + worker.id))
    worker.handoff._take = missed.append
    # It is sent one alone, as it would find out with the next what it holds.
    job = mail.add("email", {"number": 5})
    wait_for(lambda: missed)
    assert open_handed_over(missed[0]).id == job.id
    assert job.info().state == "running"
    worker.handoff._take = take

    worker._loop.call_soon_threadsafe(pump.look_again)

    assert job.result(timeout=20) == 5
    # Should the message come after all, it is nothing new.
    channel = mail._keys.hand + worker.id
    worker._loop.call_soon_threadsafe(pump.heard, channel, missed[0])
    later = mail.add("email", {"number": 6})
    assert later.result(timeout=20) == 6
    assert [ended.job for ended in mail.history()].count(job.id) == 1
    assert job.info().attempts_made == 1


@pytest.mark.parametrize("figure", ["max_length", "max_bytes", "rA:", "waiting_bytes"])
def test_a_limit_that_is_no_number_is_none(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker, figure: str
) -> None:
    mail.configure(max_length=1, max_bytes=100)
    ps.store.call(taker.keys.meta, "HSET", taker.keys.meta, figure, "many")

    mail.add("email", 1)

    assert data_of(taker.hear()) == [1]


@pytest.mark.parametrize("figure", ["turn", "layout"])
def test_a_queue_that_cannot_take_a_job_hands_none_over(
    ps: penstock.Penstock, mail: penstock.Jobs, taker: Taker, stored: Stored, figure: str
) -> None:
    mail.add("email", 1)
    [first] = taker.hear()
    taker.finish(first)
    taker.claim(offer=1)
    ps.store.call(taker.keys.meta, "HSET", taker.keys.meta, figure, "many")
    before = written(stored)

    with pytest.raises(StoreError, match="number"):
        mail.add("email", 2)

    assert (taker.hear(), written(stored)) == ([], before)
