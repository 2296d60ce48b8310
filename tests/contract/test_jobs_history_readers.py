"""The history as readers see it who must miss nothing: ranges, anchors, marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, QueueFull, WrongKind
from penstock.model.history import BEGINNING, place_before, place_key
from penstock.store.commands.history import read_history, step_history
from tests.contract.test_jobs_retention import end_all

if TYPE_CHECKING:
    import penstock
    from tests.contract.job_workers import Hand

BLOCK = 100
"""How many entries a server puts into one block; only whole blocks are trimmed."""


def fill(mail: penstock.Jobs, hand: Hand, count: int) -> list[str]:
    """Let so many jobs be done; returns the places of all entries."""
    mail.add_many("email", range(count))
    end_all(hand)
    return places(mail)


def places(mail: penstock.Jobs) -> list[str]:
    return [entry.place for entry in mail.history(limit=10_000)]


def pass_time(ps: penstock.Penstock, queue: str, days: float) -> None:
    """Let every mark of a queue be so much older."""
    keys = ps.keys.queue(queue)
    marks, back_ms = keys.marks, int(days * 86_400_000)
    flat = ps.store.call(marks, "HGETALL", marks)
    for reader, mark in zip(flat[::2], flat[1::2], strict=True):
        place, _, seen = mark.partition(b" ")
        ps.store.call(marks, "HSET", marks, reader, b"%b %d" % (place, int(seen) - back_ms))
    until = ps.store.call(keys.meta, "HGET", keys.meta, "marked_until")
    ps.store.call(keys.meta, "HSET", keys.meta, "marked_until", int(until) - back_ms)


def test_a_range_has_what_is_after_its_start_up_to_its_end(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    all_places = fill(mail, hand, 5)

    found = ps.store.run(read_history(hand.keys, all_places[0], 10, all_places[3]))

    assert [entry.place for entry in found] == all_places[1:4]


def test_a_range_is_read_in_pages(ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand) -> None:
    all_places = fill(mail, hand, 5)

    page = ps.store.run(read_history(hand.keys, all_places[0], 2, all_places[3]))

    assert [entry.place for entry in page] == all_places[1:3]


def test_steps_count_without_reading(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    all_places = fill(mail, hand, 5)

    def step(after: str, until: str, limit: int) -> tuple[int, str]:
        return ps.store.run(step_history(hand.keys, after, until, limit))

    assert step(BEGINNING, "+", 3) == (3, all_places[2])
    assert step(all_places[0], all_places[2], 10) == (2, all_places[2])
    assert step(all_places[4], "+", 10) == (0, "")


def test_bounds_say_what_there_is(mail: penstock.Jobs, hand: Hand) -> None:
    all_places = fill(mail, hand, 3)

    bounds = mail.history_bounds(all_places[1])

    assert (bounds.first, bounds.last, bounds.length) == (all_places[0], all_places[2], 3)
    assert (bounds.is_there, bounds.next, bounds.is_whole) == (True, all_places[2], True)
    assert bounds.incarnation


def test_a_queue_that_does_not_exist_has_no_bounds(ps: penstock.Penstock) -> None:
    bounds = ps.jobs("none").history_bounds()

    assert (bounds.incarnation, bounds.first, bounds.last, bounds.length) == ("", "", "", 0)
    assert bounds.is_whole


def test_plain_tasks_have_no_history(ps: penstock.Penstock) -> None:
    ps.queue("plain").enqueue(b"task")

    with pytest.raises(WrongKind):
        ps.jobs("plain").history_bounds()
    with pytest.raises(WrongKind):
        ps.jobs("plain").mark_history("lake", BEGINNING)


def test_an_anchor_that_is_there_proves_that_nothing_is_lost(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(history_length=BLOCK)
    before = fill(mail, hand, BLOCK)
    after = fill(mail, hand, 3 * BLOCK)

    assert not mail.history_bounds(before[0]).is_whole
    assert mail.history_bounds(after[0]).is_whole


def test_the_place_before_the_first_entry_is_an_anchor(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=BLOCK)
    anchor = place_before(fill(mail, hand, BLOCK)[0])
    assert mail.history_bounds(anchor).is_whole

    fill(mail, hand, 3 * BLOCK)

    assert not mail.history_bounds(anchor).is_whole


def test_a_mark_keeps_what_comes_after_it(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=BLOCK)
    mark = fill(mail, hand, 10)[-1]
    assert mail.mark_history("lake", mark)

    after = fill(mail, hand, 5 * BLOCK)

    assert mail.history_bounds(mark).is_whole
    assert len(after) == 5 * BLOCK + 10
    [kept] = mail.history_bounds().marks
    assert (kept.reader, kept.place) == ("lake", mark)


def test_a_mark_keeps_no_more_than_the_cap(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=BLOCK, history_cap=3 * BLOCK)
    mail.mark_history("lake", fill(mail, hand, 10)[-1])

    assert 3 * BLOCK <= len(fill(mail, hand, 10 * BLOCK)) < 5 * BLOCK


def test_the_cap_is_a_setting_like_others(mail: penstock.Jobs) -> None:
    mail.configure(history_length=BLOCK, history_cap=3 * BLOCK)

    assert mail.rules().settings == {"history_length": BLOCK, "history_cap": 3 * BLOCK}


def test_what_every_reader_has_read_goes_when_one_sets_its_mark(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(history_length=BLOCK)
    for reader in ("lake", "report"):
        mail.mark_history(reader, BEGINNING)
    all_places = fill(mail, hand, 10 * BLOCK)

    mail.mark_history("lake", all_places[-1])
    assert places(mail) == all_places
    mail.mark_history("report", all_places[5 * BLOCK])

    left = places(mail)
    assert all_places[5 * BLOCK] in left
    assert 5 * BLOCK <= len(left) < 7 * BLOCK


def test_the_usual_length_is_kept_though_all_is_read(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=3 * BLOCK)
    mail.mark_history("lake", BEGINNING)
    all_places = fill(mail, hand, 10 * BLOCK)

    mail.mark_history("lake", all_places[-1])

    assert 3 * BLOCK <= len(places(mail)) <= 4 * BLOCK


def test_a_mark_can_be_given_up(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=BLOCK)
    mail.mark_history("lake", fill(mail, hand, 10)[-1])

    mail.mark_history("lake", "")

    assert mail.history_bounds().marks == ()
    assert len(fill(mail, hand, 5 * BLOCK)) <= 3 * BLOCK


def test_a_reader_that_is_gone_keeps_nothing(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(history_length=BLOCK)
    mail.mark_history("lake", fill(mail, hand, 10)[-1])
    pass_time(ps, "mail", days=8)

    assert len(fill(mail, hand, 5 * BLOCK)) <= 3 * BLOCK
    mail.purge()
    assert mail.history_bounds().marks == ()


def test_a_reader_that_is_gone_holds_up_no_other(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(history_length=BLOCK)
    mail.mark_history("old", BEGINNING)
    pass_time(ps, "mail", days=8)
    mail.mark_history("lake", BEGINNING)
    all_places = fill(mail, hand, 5 * BLOCK)

    mail.mark_history("lake", all_places[-1])

    assert [mark.reader for mark in mail.history_bounds().marks] == ["lake"]
    assert len(places(mail)) <= 2 * BLOCK


def test_workers_drop_the_marks_of_readers_that_are_gone(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email")
    mail.mark_history("lake", BEGINNING)
    pass_time(ps, "mail", days=8)

    end_all(hand)

    assert mail.history_bounds().marks == ()


def test_a_queue_that_does_not_exist_cannot_be_marked(ps: penstock.Penstock) -> None:
    assert not ps.jobs("none").mark_history("lake", BEGINNING)


def test_a_queue_has_so_many_readers_and_no_more(mail: penstock.Jobs) -> None:
    mail.configure(history_length=BLOCK)
    for number in range(100):
        mail.mark_history(f"reader-{number}", BEGINNING)

    with pytest.raises(QueueFull, match="has 100 readers, which is as many as it may have; use"):
        mail.mark_history("lake", BEGINNING)
    assert mail.mark_history("reader-7", "1-0")


@pytest.mark.parametrize("place", ["x", "1", "1-", 5])
def test_what_is_no_place_cannot_be_marked(mail: penstock.Jobs, place: str) -> None:
    with pytest.raises(InvalidArgument, match="is no place in a history"):
        mail.mark_history("lake", place)


def test_places_are_compared_as_numbers(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=BLOCK)
    all_places = fill(mail, hand, BLOCK)
    ms, _ = place_key(all_places[-1])
    mail.mark_history("ahead", f"{ms}0-0")
    mail.mark_history("lake", all_places[-1])

    later = fill(mail, hand, 4 * BLOCK)
    mail.mark_history("ahead", f"{ms}0-0")

    assert mail.history_bounds(all_places[-1]).is_whole
    assert len(later) >= 4 * BLOCK
