"""Unique jobs: of those with one key there is one, for as long as was asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.errors import IllegalMove

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
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


def test_jobs_of_all_types_share_the_keys_of_their_queue(mail: penstock.Jobs) -> None:
    mail.add("email", unique="k")

    assert not mail.add("fax", unique="k").is_new


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
