"""A worker that was handed a job reports it, and waits for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.codec.handed_out import open_handed_over
from penstock.codec.values import pack_result
from penstock.errors import StoreError
from penstock.model.jobs import Report
from penstock.store.commands import jobs
from tests.contract.job_workers import Hand, written
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.model.claims import Claim
    from penstock.model.jobs import HandedOut
    from tests.contract.conftest import Ear
    from tests.stored import Stored


class Waiter(Hand):
    """A worker that is handed one job after the other."""

    def __init__(self, ps: penstock.Penstock, listen: Callable[[str], Ear]) -> None:
        super().__init__(ps, "waiter")
        self.jobs = ps.jobs("mail")
        self.ear = listen(f"{self.keys.hand}{self.id}")
        self.claim(offer=1)

    def hear(self) -> HandedOut:
        [job] = [open_handed_over(message) for message in self.ear.hear_the_rest() if message]
        return job

    def end_one(self, job: HandedOut, result: object) -> Claim[HandedOut]:
        """Report it, and wait for the next."""
        report = Report(job.process, "done", 20, 10, 0, "", pack_result(result))
        return self._store.run_once(
            lambda o: jobs.report_jobs(self.keys, o, self.id, [report], 1, True, 1)
        )


def test_the_worker_is_handed_the_next_one(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen)

    for number in range(40):  # every 16th report purges old jobs
        job = waiter.jobs.add("email", number)
        waiter.end_one(waiter.hear(), number)
        assert job.result(5) == number

    assert waiter.jobs.counts()["done"] == 40
    check_jobs(ps.store, waiter.keys)


def test_what_waits_meanwhile_is_started_by_the_report(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen)
    waiter.jobs.add("email", 1)
    waiter.jobs.add("email", 2)

    claim = waiter.end_one(waiter.hear(), "done")

    assert [job.data for job in claim.found] == [b"2"]


def test_a_job_that_was_taken_away_is_refused(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen)
    waiter.jobs.add("email", 1)
    handed = waiter.hear()
    waiter.die()

    assert waiter.end_one(handed, "too late").refused == [handed.process]
    assert waiter.jobs.counts()["done"] == 0


def test_a_job_that_is_to_be_cancelled_is_done_all_the_same(
    ps: penstock.Penstock, listen: Callable[[str], Ear]
) -> None:
    waiter = Waiter(ps, listen)
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
    waiter = Waiter(ps, listen)
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
