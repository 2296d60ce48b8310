"""That a plain job was sent or reported is noted with its queue: one note for all senders whose ids
end alike, and one for each worker. Whatever takes the place of a note, the same request twice has
one effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.codec.records import open_handed_over, pack_head
from penstock.errors import PenstockError
from penstock.model.job_options import make_options
from penstock.model.jobs import Report
from penstock.store.command import Operation
from penstock.store.commands import jobs
from penstock.store.commands.jobs import Group
from tests.contract.job_workers import Hand, written
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.model.jobs import HandedOut, JobClaim
    from tests.contract.conftest import Ear
    from tests.stored import Stored

SENT = 10**15 + 123
"""the number of the first job; those of the same sender end alike"""


class Desk(Hand):
    """A worker that is handed one job after the other, and the one who sends them."""

    def __init__(self, ps: penstock.Penstock, listen: Callable[[str], Ear], name: str) -> None:
        super().__init__(ps, name)
        self.jobs = ps.jobs("mail")
        self._ear = listen(f"{self.keys.hand}{self.id}")
        self.claim(offer=1)
        # The first job of a page is reported the usual way.
        self.send(name, 1, SENT - 1000)
        self.report_plain(name, 2, self.hear())
        self.claim(offer=1)

    def send(self, lane: str, number: int, job: int) -> None:
        head = pack_head(make_options("email", {}))
        groups = [Group(head, 0, 0, 0, [(job, b"{}")])]
        self._store.run(jobs.send_jobs(self.keys, Operation(lane, number), groups))

    def hear(self) -> HandedOut:
        [job] = [open_handed_over(message) for message in self._ear.hear_the_rest()]
        return job

    def report_plain(self, lane: str, number: int, job: HandedOut) -> JobClaim:
        report = Report(job.process, "done", 20, 10, 0, "", b"")
        return self._store.run(
            jobs.report_jobs(self.keys, Operation(lane, number), self.id, [report], 1, True, 1)
        )

    def send_and_report(self, lane: str, number: int, job: int) -> HandedOut:
        """One round trip, after which nothing is left of the job."""
        self.send(lane, number, job)
        handed = self.hear()
        assert self.report_plain("desk", number, handed).refused == []
        self.jobs.remove("done")
        return handed


@pytest.fixture
def desk(ps: penstock.Penstock, listen: Callable[[str], Ear]) -> Desk:
    return Desk(ps, listen, "taker")


def is_repeated_in_vain(repeat: Callable[[], object], stored: Stored) -> bool:
    """Whether nothing changes; an answer that is overtaken by another is for nobody."""
    before = written(stored)
    try:
        repeat()
    except PenstockError as error:
        assert "superseded" in str(error)
    return written(stored) == before


def test_a_job_that_is_gone_is_not_sent_again(desk: Desk, stored: Stored) -> None:
    desk.send_and_report("a", 1, SENT)

    assert is_repeated_in_vain(lambda: desk.send("a", 1, SENT), stored)

    check_jobs(desk._store, desk.keys)


def test_nor_is_it_while_nobody_waits(desk: Desk, stored: Stored) -> None:
    desk.send_and_report("a", 1, SENT)
    desk.send("a", 2, SENT + 1000)

    assert is_repeated_in_vain(lambda: desk.send("a", 1, SENT), stored)
    assert is_repeated_in_vain(lambda: desk.send("a", 2, SENT + 1000), stored)


def test_senders_whose_ids_end_alike_do_not_forget_each_other(desk: Desk, stored: Stored) -> None:
    desk.send_and_report("a", 1, SENT)
    desk.send_and_report("b", 1, SENT + 1000)

    assert is_repeated_in_vain(lambda: desk.send("a", 1, SENT), stored)
    assert is_repeated_in_vain(lambda: desk.send("b", 1, SENT + 1000), stored)


def test_what_goes_the_usual_way_is_remembered_beside_it(desk: Desk, stored: Stored) -> None:
    desk.send_and_report("a", 1, SENT)
    desk.send("a", 2, SENT + 1000)
    first = desk.hear()
    desk.send("a", 3, SENT + 2000)  # nobody waits for this one
    desk.report(Report(first.process, "done"))
    desk.run_all()
    desk.jobs.remove("done")
    desk.claim(offer=1)

    for number in (3, 2, 1):
        again = SENT + 1000 * (number - 1)
        assert is_repeated_in_vain(lambda n=number, job=again: desk.send("a", n, job), stored)  # type: ignore[misc]


def test_an_older_note_does_not_overwrite_what_is_remembered(desk: Desk, stored: Stored) -> None:
    desk.send_and_report("a", 1, SENT)
    desk.send("b", 1, SENT + 1000)  # takes the place of the note; nobody waits afterwards
    handed = desk.hear()
    desk.send("a", 2, SENT + 2000)
    desk.report(Report(handed.process, "done"))
    desk.run_all()
    desk.jobs.remove("done")
    desk.claim(offer=1)

    assert is_repeated_in_vain(lambda: desk.send("a", 2, SENT + 2000), stored)
    assert is_repeated_in_vain(lambda: desk.send("b", 1, SENT + 1000), stored)


def test_a_report_is_answered_again_as_before(desk: Desk, stored: Stored) -> None:
    handed = desk.send_and_report("a", 1, SENT)
    before = written(stored)

    claim = desk.report_plain("desk", 1, handed)

    assert (claim.word, claim.refused, list(claim.jobs)) == ("empty", [], [])
    assert written(stored) == before


def test_a_late_copy_of_a_report_starts_nothing(desk: Desk, stored: Stored) -> None:
    handed = desk.send_and_report("a", 1, SENT)
    desk.send_and_report("a", 2, SENT + 1000)
    desk.send("a", 3, SENT + 2000)
    desk.send("a", 4, SENT + 3000)  # waits

    assert is_repeated_in_vain(lambda: desk.report_plain("desk", 1, handed), stored)


def test_a_worker_that_changes_its_lane_is_answered_again_too(desk: Desk, stored: Stored) -> None:
    handed = desk.send_and_report("a", 1, SENT)
    desk.send("a", 2, SENT + 1000)
    assert desk.report_plain("other", 1, desk.hear()).refused == []
    before = written(stored)

    claim = desk.report_plain("desk", 1, handed)

    assert (claim.word, claim.refused) == ("empty", [])
    assert written(stored) == before


def test_a_queue_that_is_deleted_leaves_what_is_remembered(
    ps: penstock.Penstock, listen: Callable[[str], Ear], desk: Desk, stored: Stored
) -> None:
    desk.send_and_report("a", 1, SENT)
    desk.leave()
    desk.jobs.delete()
    again = Desk(ps, listen, "successor")

    assert is_repeated_in_vain(lambda: again.send("a", 1, SENT), stored)


def test_a_worker_that_leaves_takes_its_note_along(desk: Desk) -> None:
    desk.send_and_report("a", 1, SENT)

    desk.leave()

    assert check_jobs(desk._store, desk.keys).reporters == frozenset()
