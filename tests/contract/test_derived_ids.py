"""Ids that are derived from causes, of which different ones may lead to the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.codec.heads import open_head, pack_head, with_cause
from penstock.codec.ids import id_text
from penstock.connection.job_ids import new_id
from penstock.model.job_options import JobOptions, make_options
from penstock.store.commands import jobs
from penstock.store.commands.jobs import Group, SentAs
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    import penstock

CAUSES = [bytes([number]) * 16 for number in range(6)]
HEADS = [with_cause(pack_head(JobOptions("email")), cause) for cause in CAUSES]


class Sender:
    """Sends jobs whose ids are all derived to be the same."""

    def __init__(self, ps: penstock.Penstock, number: int) -> None:
        self.keys = ps.keys.queue("mail")
        self.number = number
        self._store = ps.store

    def send(self, *causes: int) -> list[tuple[int, bool]]:
        """By how much each id is greater than the one that was sent, and whether it is new."""
        groups = [Group(HEADS[cause], 0, 0, 0, [(self.number, b"same")]) for cause in causes]
        found = self._store.run_once(
            lambda o: jobs.send_jobs(self.keys, o, groups, origin="derived")
        )
        sent = [found.get(at, SentAs(self.number, True)) for at in range(len(causes))]
        return [(sent.number - self.number, sent.is_new) for sent in sent]


@pytest.fixture
def sender(ps: penstock.Penstock, mail: penstock.Jobs) -> Sender:
    mail.add("email").remove()
    return Sender(ps, new_id() // 1_000_000 * 1_000_000 + 500_000)


def test_jobs_whose_ids_are_derived_to_be_the_same_are_all_sent(sender: Sender) -> None:
    assert sender.send(0) == [(0, True)]
    assert sender.send(1) == [(1, True)]
    assert sender.send(2, 0, 3, 2) == [(2, True), (0, False), (3, True), (2, False)]
    assert sender.send(4, 5) == [(4, True), (5, True)]

    assert sender.send(*range(6)) == [(number, False) for number in range(6)]


def test_a_job_is_found_behind_one_that_is_gone(ps: penstock.Penstock, sender: Sender) -> None:
    sender.send(0, 1, 2)
    ps.job(id_text(sender.number)).remove()

    assert sender.send(2, 1) == [(2, False), (1, False)]
    assert sender.send(0) == [(0, True)]
    check_jobs(ps.store, sender.keys)


def test_ids_that_end_in_nines_go_on_within_their_time(ps: penstock.Penstock) -> None:
    sender = Sender(ps, new_id() // 1_000_000 * 1_000_000 + 999_999)
    ps.jobs("mail").add("email").remove()

    assert sender.send(0, 1, 2) == [(0, True), (-999_999, True), (-999_998, True)]
    assert sender.send(2, 1) == [(-999_998, False), (-999_999, False)]


def test_an_id_that_a_client_has_made_is_not_taken_for_a_derived_one(
    mail: penstock.Jobs, sender: Sender
) -> None:
    mail.add("email", b"same", id=id_text(sender.number))

    assert sender.send(0) == [(1, True)]


def test_jobs_are_sent_beside_those_of_messages_that_are_ahead_of_the_clock(
    mail: penstock.Jobs, sender: Sender
) -> None:
    sender.number += 10**12
    sender.send(0, 1)

    assert len({job.id for job in mail.add_many("email", range(10))}) == 10
    assert mail.counts()["ready"] == 12


def test_a_cause_leaves_the_rest_of_a_head_as_it_is() -> None:
    options = make_options("email", {"priority": "high", "tenant": "acme", "tags": ["a"]})
    head = pack_head(options, ("ann",))

    caused = open_head(with_cause(head, CAUSES[0]))

    assert caused._replace(flags=0) == open_head(head)._replace(flags=0)


def test_a_job_keeps_its_cause_when_its_priority_is_changed(
    ps: penstock.Penstock, sender: Sender
) -> None:
    sender.send(0)
    job = ps.job(id_text(sender.number))
    job.reprioritise("high")

    assert sender.send(0) == [(0, False)]
    check_jobs(ps.store, sender.keys)
