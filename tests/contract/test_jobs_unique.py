"""Unique jobs: of those with one key there is one, for as long as was asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import IllegalMove, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.job_workers import Hand
    from tests.stored import Stored


def test_a_second_job_with_the_same_key_is_the_first_one(mail: penstock.Jobs, hand: Hand) -> None:
    first = mail.add("email", 1, unique="k")
    second = mail.add("email", 2, unique="k")

    assert (second.id, second.is_new) == (first.id, False)
    assert hand.run_all() == [1]


def test_a_key_is_taken_until_its_job_is_done(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", 1, unique="k", attempts=2)
    hand.fail(hand.take_one(), delay_ms=60_000)
    assert not mail.add("email", 2, unique="k").is_new
    [job] = mail.page("scheduled").jobs
    mail.get(job.id).promote()
    process = hand.take_one()
    assert not mail.add("email", 2, unique="k").is_new

    hand.finish(process)

    assert mail.add("email", 2, unique="k").is_new


def test_a_key_for_queued_jobs_is_free_as_soon_as_its_job_runs(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", 1, unique="k", unique_for="queued", attempts=2)
    assert not mail.add("email", 2, unique="k", unique_for="queued").is_new
    process = hand.take_one()

    assert mail.add("email", 2, unique="k", unique_for="queued").is_new

    hand.fail(process)
    assert hand.run_all() == [2, 1]


ENDINGS: dict[str, Callable[[penstock.Jobs, Hand], object]] = {
    "done": lambda _, hand: hand.finish(hand.take_one()),
    "dead": lambda _, hand: hand.fail(hand.take_one()),
    "cancelled": lambda mail, _: mail.cancel("ready"),
    "cancelled while it ran": lambda _, hand: hand.end(hand.take_one()),
    "removed": lambda mail, _: mail.remove("ready"),
    "deleted": lambda mail, _: mail.delete(),
}


@pytest.mark.parametrize("mode", ["queued", "done"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_however_a_job_ends_its_key_is_free(
    mail: penstock.Jobs, hand: Hand, stored: Stored, ending: str, mode: str
) -> None:
    mail.add("email", 1, unique="k", unique_for=mode)  # type: ignore[arg-type]

    ENDINGS[ending](mail, hand)

    assert f"{hand.keys.tag}:unique_jobs" not in stored
    assert mail.add("email", 2, unique="k", unique_for=mode).is_new  # type: ignore[arg-type]


def test_a_job_given_back_keeps_its_key(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", 1, unique="k")

    hand.stop(hand.take_one())

    assert not mail.add("email", 2, unique="k").is_new


def test_a_key_belongs_to_one_queue(ps: penstock.Penstock, mail: penstock.Jobs) -> None:
    mail.add("email", unique="k")

    assert ps.jobs("cards").add("email", unique="k").is_new


def test_a_key_belongs_to_one_type(mail: penstock.Jobs, hand: Hand) -> None:
    welcome = mail.add("welcome", 1, unique="user-7")
    invoice = mail.add("invoice", 2, unique="user-7")

    assert invoice.is_new
    assert [invoice.info().unique, invoice.info().unique_scope] == ["user-7", "type"]
    assert mail.add("welcome", 3, unique="user-7").id == welcome.id
    assert mail.add("invoice", 4, unique="user-7").id == invoice.id
    assert hand.run_all() == [1, 2]


def test_all_types_share_the_keys_in_the_scope_of_the_queue(mail: penstock.Jobs) -> None:
    first = mail.add("email", unique="k", unique_scope="queue")

    assert mail.add("fax", unique="k", unique_scope="queue").id == first.id
    assert [first.info().unique, first.info().unique_scope] == ["k", "queue"]


def test_a_key_of_a_type_and_the_same_one_of_the_queue_differ(mail: penstock.Jobs) -> None:
    mail.add("email", unique="k", unique_scope="queue")

    assert mail.add("email", unique="k").is_new


@pytest.mark.parametrize("length", [1, 300])
def test_a_type_and_its_key_are_told_from_others_that_read_the_same(
    mail: penstock.Jobs, length: int
) -> None:
    end = "k" * length
    jobs = [
        mail.add("a", unique="b:c" + end),
        mail.add("a:b", unique="c" + end),
        mail.add("a:b:c", unique=end),
        mail.add("a", unique="b\0c" + end),
        mail.add("b", unique="c" + end),
        mail.add("x", unique="a\0b:c" + end, unique_scope="queue"),
    ]

    assert all(job.is_new for job in jobs)


@pytest.mark.parametrize("options", [{"debounce": 3600}, {"unique_for": 3600}], ids=str)
def test_a_window_or_a_debounce_is_that_of_one_type(
    mail: penstock.Jobs, options: dict[str, float]
) -> None:
    first = mail.add("email", 1, unique="k", **options)  # type: ignore[arg-type]
    other = mail.add("fax", 2, unique="k", **options)  # type: ignore[arg-type]
    again = mail.add("email", 3, unique="k", **options)  # type: ignore[arg-type]

    assert (other.is_new, again.id) == (True, first.id)
    assert other.info().data == b"2"


def test_functions_of_one_queue_do_not_keep_each_other_out(ps: penstock.Penstock) -> None:
    @penstock.job(queue="mail")
    def welcome(user: str) -> None: ...

    @penstock.job(queue="mail")
    def invoice(user: str) -> None: ...

    sent = [each.on(ps).options(unique="user-7").send("user-7") for each in (welcome, invoice)]

    assert [job.is_new for job in sent] == [True, True]
    assert [job.info().type for job in sent] == ["welcome", "invoice"]


def test_a_function_that_runs_at_most_once_is_declared_with_one_attempt() -> None:
    with pytest.raises(InvalidArgument, match="at_most_once means one attempt, and attempts is 3"):

        @penstock.job(at_most_once=True, attempts=3)
        def pay() -> None: ...


def test_of_many_senders_at_once_one_adds_the_job(mail: penstock.Jobs) -> None:
    with ThreadPoolExecutor(4) as senders:
        jobs = list(senders.map(lambda n: mail.add("email", n, unique="k"), range(20)))

    assert sorted(job.is_new for job in jobs) == [False] * 19 + [True]
    assert len({job.id for job in jobs}) == 1
    assert mail.counts()["ready"] == 1


def test_in_one_batch_too_the_first_one_counts(mail: penstock.Jobs, hand: Hand) -> None:
    jobs = mail.add_many("email", [1, 2, 3], unique="k")

    assert [job.is_new for job in jobs] == [True, False, False]
    assert len({job.id for job in jobs}) == 1
    assert hand.run_all() == [1]


def test_a_full_queue_still_answers_who_has_the_key(mail: penstock.Jobs) -> None:
    mail.configure(max_length=1)
    first = mail.add("email", unique="k")

    assert mail.add("email", unique="k").id == first.id


def test_long_keys_and_short_ones_are_told_apart(mail: penstock.Jobs) -> None:
    keys = ["", "k", "k" * 254, "k" * 255, "k" * 300, "k" * 10_000, "ä" * 200]

    jobs = [mail.add("email", unique=key) for key in keys]

    assert all(job.is_new for job in jobs)
    again = [mail.add("email", unique=key) for key in keys[1:]]
    assert [job.id for job in again] == [job.id for job in jobs[1:]]


def test_a_job_whose_key_was_taken_meanwhile_cannot_run_again(
    mail: penstock.Jobs, hand: Hand
) -> None:
    first = mail.add("email", 1, unique="k")
    hand.fail(hand.take_one())
    second = mail.add("email", 2, unique="k")

    with pytest.raises(IllegalMove, match=f"job {first.id} cannot run again, because another job"):
        first.retry()
    assert mail.retry() == 0
    second.cancel()

    assert first.retry() == "ready"
    with pytest.raises(IllegalMove, match="another job has its unique key by now"):
        second.retry()


def test_of_several_dead_jobs_with_one_key_one_runs_again(mail: penstock.Jobs, hand: Hand) -> None:
    for number in range(3):
        mail.add("email", number, unique="k")
        hand.fail(hand.take_one())

    assert mail.retry() == 1

    assert hand.run_all() == [0]


def test_a_window_is_not_begun_again_by_running_again(mail: penstock.Jobs, hand: Hand) -> None:
    first = mail.add("email", 1, unique="k", unique_for=3600)
    hand.fail(hand.take_one())

    first.retry()

    assert not mail.add("email", 2, unique="k", unique_for=3600).is_new
    assert hand.run_all() == [1]
