"""A plain job that is done by a worker which then waits is reported by a way of its own. Whatever
it leaves behind must be what the usual way leaves behind.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from penstock.codec.records import open_handed_over, open_notice
from penstock.codec.values import pack_result
from penstock.errors import StoreError
from penstock.model.jobs import Report
from penstock.store.commands import jobs
from tests.contract.job_workers import Hand, written
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.model.jobs import HandedOut, JobClaim
    from tests.contract.conftest import Ear
    from tests.stored import Stored

PLAIN, USUAL = 1, 0
"""How many jobs a worker takes unasked, which decides on the way that its report goes."""
_OWN = (b"incarnation", b"process", b"newest", b"reported ", b"sent ")
"""what is another in every queue, and what is remembered of plain jobs"""
_NOTHING_RUNS = ((b"uA:", b"0"), (b"uT:email", b"0"))
"""may be counted as well as not"""


class Waiter(Hand):
    """A worker that is handed one job after the other. It has done one already, as the first job
    of a page goes the usual way.
    """

    def __init__(
        self, ps: penstock.Penstock, listen: Callable[[str], Ear], queue: str, **settings: Any
    ) -> None:
        super().__init__(ps, f"waiter-of-{queue}", queue=queue)
        self.jobs = ps.jobs(queue)
        self.ear = listen(f"{self.keys.hand}{self.id}")
        self.claim(offer=1)
        self.jobs.add("email", "first", **settings)
        self.end_one(self.hear(), "first", USUAL)
        self.claim(offer=1)

    def hear(self) -> HandedOut:
        [job] = [open_handed_over(message) for message in self.ear.hear_the_rest() if message]
        return job

    def end_one(self, job: HandedOut, result: object, way: int = PLAIN) -> JobClaim:
        """Report it, and wait for the next."""
        report = Report(job.process, "done", 20, 10, 0, "", pack_result(result))
        return self._store.run_once(
            lambda o: jobs.report_jobs(self.keys, o, self.id, [report], 1, True, way)
        )

    def commands(self) -> int:
        """How many commands the server has executed, those within scripts included."""
        text = self._store.call(self.keys.meta, "INFO", "commandstats").decode()
        calls = (line.partition("calls=")[2].partition(",")[0] for line in text.split())
        return sum(int(number) for number in calls if number)


def trace(
    waiter: Waiter, listen: Callable[[str], Ear], way: int, settings: dict[str, Any]
) -> tuple[list[Any], int]:
    """What can be seen of one more job, and how many commands it took to report it."""
    mail, keys = waiter.jobs, waiter.keys
    events = listen(keys.events)
    job = mail.add("email", {"n": 2}, **settings)
    endings = listen(keys.ending_channel(job._number))
    handed = waiter.hear()
    before = waiter.commands()
    claim = waiter.end_one(handed, {"sent": True}, way)
    took = waiter.commands() - before
    info = job.info()
    assert info.created_at <= info.started_at <= info.finished_at == info.updated_at
    assert (info.worker, info.process) == (waiter.id, handed.process)
    times: dict[str, Any] = dict.fromkeys(
        ("created_at", "due_at", "started_at", "finished_at", "updated_at"), 0
    )
    ended = mail.history()[-1]
    meta = waiter._store.call(keys.meta, "HGETALL", keys.meta)
    check_jobs(waiter._store, keys)
    seen = [
        dataclasses.replace(info, id="", queue="", worker="", process=0, **times),
        dataclasses.replace(
            ended, place="", job="", worker="", waited_ms=0, ended_at=0, created_at=0
        ),
        (mail.counts(), mail.counts(tenant="acme"), mail.counts(type="email")),
        [each.data for each in mail.page("done").jobs],
        [message[1 : 1 + message[0]] for message in events.hear_the_rest()],
        [open_notice(message)[1:] for message in endings.hear_the_rest()],
        (claim.word, claim.refused, claim.wait_ms, claim.schedules),
        {
            name: value
            for name, value in zip(meta[::2], meta[1::2], strict=True)
            if not name.startswith(_OWN) and (name, value) not in _NOTHING_RUNS
        },
    ]
    return seen, took


@pytest.mark.parametrize(
    "settings",
    [{}, {"tenant": "acme"}, {"tenant": "acme", "priority": 7, "attempts": 3, "timeout": 9}],
    ids=["nothing", "tenant", "all parts"],
)
def test_it_leaves_behind_what_the_usual_way_does(
    ps: penstock.Penstock, listen: Callable[[str], Ear], settings: dict[str, Any]
) -> None:
    plain, plain_took = trace(Waiter(ps, listen, "plain", **settings), listen, PLAIN, settings)
    usual, usual_took = trace(Waiter(ps, listen, "usual", **settings), listen, USUAL, settings)

    assert plain == usual
    assert plain_took < usual_took, "both have gone the usual way"


@pytest.mark.parametrize(
    "settings",
    [{"keep": False}, {"expires": 60, "tenant": "acme"}, {"backoff": "exponential"}],
    ids=["not kept", "expires", "backoff"],
)
def test_whatever_a_job_carries_it_comes_to_the_same(
    ps: penstock.Penstock, listen: Callable[[str], Ear], settings: dict[str, Any]
) -> None:
    waiters = [Waiter(ps, listen, queue, **settings) for queue in ("plain", "usual")]
    for waiter, way in zip(waiters, (PLAIN, USUAL), strict=True):
        waiter.jobs.add("email", {"n": 2}, **settings)
        waiter.end_one(waiter.hear(), "done", way)
        check_jobs(ps.store, waiter.keys)

    assert waiters[0].jobs.counts() == waiters[1].jobs.counts()


def test_the_worker_is_handed_the_next_one(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen, "mail")

    for number in range(40):  # every 16th report goes the usual way
        job = waiter.jobs.add("email", number)
        waiter.end_one(waiter.hear(), number)
        assert job.result(5) == number

    assert waiter.jobs.counts()["done"] == 41
    check_jobs(ps.store, waiter.keys)


def test_an_alarm_that_is_left_over_is_not_in_the_way(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen, "mail")
    key = f"{waiter.keys.tag}:alarms"
    _, without = trace(waiter, listen, PLAIN, {})

    ps.store.call(key, "ZADD", key, 1, waiter.id)
    _, took = trace(waiter, listen, PLAIN, {})

    assert took == without


def test_what_waits_meanwhile_is_started_by_the_report(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen, "mail")
    waiter.jobs.add("email", 1)
    waiter.jobs.add("email", 2)

    claim = waiter.end_one(waiter.hear(), "done")

    assert [job.data for job in claim.jobs] == [b"2"]


def test_a_job_that_was_taken_away_is_refused(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen, "mail")
    waiter.jobs.add("email", 1)
    handed = waiter.hear()
    waiter.die()

    assert waiter.end_one(handed, "too late").refused == [handed.process]
    assert waiter.jobs.counts()["done"] == 1


def test_a_job_that_is_to_be_cancelled_is_done_all_the_same(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen, "mail")
    job = waiter.jobs.add("email", 1)
    handed = waiter.hear()
    job.cancel()

    waiter.end_one(handed, "done")

    assert job.info().state == "done" and not job.info().is_cancel_asked
    check_jobs(ps.store, waiter.keys)


@pytest.mark.parametrize("kind", ["history", "finished", "idle", "facts", "running"])
def test_a_key_of_a_wrong_type_is_found_before_anything_is_written(
    ps: penstock.Penstock, listen: Callable[[str], Ear], stored: Stored, kind: str
) -> None:
    waiter = Waiter(ps, listen, "mail")
    waiter.jobs.add("email", 1)
    handed = waiter.hear()
    key = f"{waiter.keys.tag}:{kind}"
    if kind == "running":
        key = waiter.keys.running(waiter.id)
    ps.store.call(key, "DEL", key)
    ps.store.call(key, "SET", key, "text")
    before = written(stored)

    with pytest.raises(StoreError, match=r"WRONGTYPE|wrong kind"):
        waiter.end_one(handed, "done")

    assert written(stored) == before
