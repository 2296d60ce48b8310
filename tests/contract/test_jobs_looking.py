"""Looking at jobs: counts, pages in true order, and search."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import InvalidArgument, InvalidName, JobNotFound
from penstock.model.jobs import JOB_STATES
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from penstock.model.jobs import JobState


def test_a_queue_that_does_not_exist_has_no_jobs(mail: penstock.Jobs) -> None:
    assert mail.counts() == dict.fromkeys(JOB_STATES, 0)
    assert (mail.types(), mail.tenants(), mail.tags()) == ({}, {}, {})
    assert [mail.page(state).jobs for state in JOB_STATES] == [[]] * len(JOB_STATES)
    assert mail.search("anything") == []


def test_every_state_is_counted(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(6))
    mail.add("email", delay=60)
    done, dead, cancelled, *_ = hand.take(4)
    hand.finish(done)
    hand.fail(dead)
    hand.end(cancelled)

    assert mail.counts() == {
        **{"scheduled": 1, "blocked": 0, "ready": 2, "running": 1},
        **{"done": 1, "dead": 1, "cancelled": 1},
    }


def test_counts_are_by_type_tenant_and_tag(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", tenant="a", tags=["x", "y"])
    mail.add("email", tenant="b", tags=["x"])
    mail.add("fax", tenant="a")
    hand.take(2)

    assert mail.types() == {"email": {"running": 2}, "fax": {"ready": 1}}
    assert mail.tenants() == {"a": {"running": 1, "ready": 1}, "b": {"running": 1}}
    assert mail.tags() == {"x": {"running": 2}, "y": {"running": 1}}
    assert mail.counts(type="email")["running"] == 2
    assert mail.counts(tenant="a")["ready"] == 1
    assert mail.counts(tag="y")["running"] == 1
    assert mail.counts(tag="z") == dict.fromkeys(JOB_STATES, 0)


def test_more_than_one_thing_to_count_by_is_refused_as_nobody_keeps_that(
    mail: penstock.Jobs,
) -> None:
    with pytest.raises(InvalidArgument, match="by type, tenant or tag, one at a time"):
        mail.counts(type="email", tenant="a")


def test_a_page_has_the_jobs_of_a_state_in_the_order_in_which_they_were_sent(
    mail: penstock.Jobs, hand: Hand
) -> None:
    jobs = mail.add_many("email", range(6))
    jobs[4].reprioritise("high")
    jobs[0].reprioritise("low")

    page = mail.page("ready")

    assert [json.loads(job.data) for job in page.jobs] == list(range(6))
    assert (page.total, page.cursor) == (6, "")


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_go_on_where_the_one_before_ended(mail: penstock.Jobs, newest_first: bool) -> None:
    mail.add_many("email", range(1300))

    found: list[int] = []
    cursor = ""
    for size in (1, 99, 600, 600):
        page = mail.page("ready", after=cursor, limit=size, newest_first=newest_first)
        assert (len(page.jobs), page.total) == (size, 1300)
        found += [json.loads(job.data) for job in page.jobs]
        cursor = page.cursor

    assert mail.page("ready", after=cursor, newest_first=newest_first).jobs == []
    assert found == (list(range(1299, -1, -1)) if newest_first else list(range(1300)))


@pytest.mark.parametrize("newest_first", [False, True])
def test_jobs_that_go_meanwhile_do_not_move_the_others_between_pages(
    mail: penstock.Jobs, newest_first: bool
) -> None:
    jobs = mail.add_many("email", range(1300))
    steps = count(0, 7)

    found: list[int] = []
    cursor = ""
    while page := mail.page("ready", after=cursor, limit=100, newest_first=newest_first):
        found += [json.loads(job.data) for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            break
        # One that was seen, and one that may not have been.
        mail.get(page.jobs[-1].id).remove()
        jobs[next(steps)].cancel()
        mail.add("email", 5000)

    seen = [number for number in found if number < 5000]
    assert seen == sorted(set(seen), reverse=newest_first)
    assert len(seen) >= 1300 - 14


def test_where_filters_meet_the_total_is_not_known(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", tenant="a")
    mail.add("fax", tenant="a", tags=["x"])
    mail.add("email", tenant="b", tags=["x"])

    assert mail.page("ready", tenant="a").total == 2
    assert mail.page("ready", type="email", tenant="a").total is None
    assert mail.page("ready", tenant="a", tag="x").total is None

    hand.take(3)  # those that run are few, and looked at one by one
    assert mail.page("running", type="email", tenant="a").total == 1


def test_pages_are_by_type_tenant_tag_and_all_of_them(mail: penstock.Jobs) -> None:
    for number in range(4):
        mail.add("email", f"e{number}", tenant="ab"[number % 2], tags=["x"] if number < 2 else [])
    mail.add("fax", "f", tenant="a", tags=["x"])

    def names(**which: str) -> list[str]:
        return [json.loads(job.data) for job in mail.page("ready", **which).jobs]  # type: ignore[arg-type]

    assert names(type="email") == ["e0", "e1", "e2", "e3"]
    assert names(tenant="a") == ["e0", "e2", "f"]
    assert names(tag="x") == ["e0", "e1", "f"]
    assert names(tenant="a", tag="x") == ["e0", "f"]
    assert names(type="email", tenant="a", tag="x") == ["e0"]
    assert names(type="other") == []


@pytest.mark.parametrize("state", ["done", "dead", "cancelled", "scheduled"])
def test_every_state_has_pages(mail: penstock.Jobs, hand: Hand, state: JobState) -> None:
    jobs = mail.add_many("email", range(3), delay=60 if state == "scheduled" else 0)
    if state != "scheduled":
        for process in hand.take(3):
            hand.end_as(process, state)

    assert [job.id for job in mail.page(state).jobs] == [job.id for job in jobs]
    assert [job.id for job in mail.page(state, newest_first=True, limit=2).jobs] == [
        *(jobs[2].id, jobs[1].id)
    ]


def test_running_jobs_come_in_the_order_in_which_they_were_started(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", [0, 1, 2, 3])
    a, b = Hand(ps, "a"), Hand(ps, "b")
    for worker in (b, a, b, a):
        worker.take_one()

    page = mail.page("running")

    assert [(json.loads(job.data), job.worker) for job in page.jobs] == [
        *((0, "b"), (1, "a"), (2, "b"), (3, "a"))
    ]
    assert mail.page("running", limit=2).total == 4
    assert mail.page("running", type="fax").jobs == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_running_jobs_come_page_by_page(
    ps: penstock.Penstock, mail: penstock.Jobs, newest_first: bool
) -> None:
    mail.add_many("email", range(4))
    mail.add("fax", 4)
    a, b = Hand(ps, "a"), Hand(ps, "b")
    for worker in (b, a, b, a, b):
        worker.take_one()

    pages: list[list[int]] = []
    cursor = ""
    while not pages or cursor:
        page = mail.page("running", after=cursor, limit=2, newest_first=newest_first)
        pages.append([json.loads(job.data) for job in page.jobs])
        assert page.total == 5
        cursor = page.cursor

    assert pages == ([[4, 3], [2, 1], [0]] if newest_first else [[0, 1], [2, 3], [4]])


def test_what_ends_between_pages_of_running_jobs_moves_no_other(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(4))
    first, *_ = hand.take(4)
    page = mail.page("running", limit=2, type="email")
    hand.finish(first)

    rest = mail.page("running", after=page.cursor, limit=2, type="email")

    assert ([json.loads(job.data) for job in rest.jobs], rest.cursor) == ([2, 3], "")


def test_a_page_without_data_has_everything_else(mail: penstock.Jobs) -> None:
    mail.add("email", "data", tenant="a")

    [job] = mail.page("ready", with_data=False).jobs

    assert (job.data, job.type, job.tenant) == (b"", "email", "a")


def test_jobs_sent_with_search_are_found_by_their_words(mail: penstock.Jobs, hand: Hand) -> None:
    jobs = [
        mail.add("email", {"to": "ann", "text": "Hello, big WORLD"}, search=True),
        mail.add("email", {"to": "bob", "text": ["hello", {"n": 42}]}, search=True),
        mail.add("email", {"to": "ann", "text": "hello"}),
    ]
    hand.finish(hand.take_one())

    def found(text: str) -> list[int]:
        ids = [job.id for job in jobs]
        return [ids.index(info.id) for info in mail.search(text)]

    assert found("hello") == [1, 0]
    assert found("world") == found("World, HELLO") == [0]
    assert found("ann hello") == [0]
    assert found("42") == [1]
    assert found("goodbye") == found("hello goodbye") == found("  ") == []


def test_search_can_be_of_some_fields_only(mail: penstock.Jobs) -> None:
    mail.add("email", {"a": {"b": "found"}, "c": "hidden"}, search=["a.b", "none.at.all"])

    assert len(mail.search("found")) == 1
    assert mail.search("hidden") == []


def test_a_call_is_found_by_arguments_that_were_named(ps: penstock.Penstock) -> None:
    @penstock.job(queue="mail", search=["customer.name"])
    def greet(customer: dict[str, str], text: str = "") -> None: ...

    job = greet.on(ps).send(customer={"name": "Ann", "city": "Bonn"}, text="hello")

    assert [info.id for info in ps.jobs("mail").search("ann")] == [job.id]
    assert ps.jobs("mail").search("bonn") == ps.jobs("mail").search("hello") == []


def test_a_call_is_found_by_arguments_that_were_given_by_position(ps: penstock.Penstock) -> None:
    @penstock.job(queue="mail", type="greet")
    def greet(text: str, customer: dict[str, str]) -> None: ...

    sending = greet.on(ps).options(search=["customer.name"])
    job = sending.send("hello", {"name": "Ann", "city": "Bonn"})
    others = sending.send_many(
        [("hello", {"name": "Bob"}), {"text": "", "customer": {"name": "Bob"}}]
    )
    found = ps.jobs("mail").search

    assert [info.id for info in found("ann")] == [job.id]
    assert {info.id for info in found("bob")} == {other.id for other in others}
    assert found("bonn") == found("hello") == []
    assert job.info().data == b'[["hello",{"name":"Ann","city":"Bonn"}]]'


def test_a_job_is_found_by_its_indexed_words_whatever_their_order(mail: penstock.Jobs) -> None:
    mail.add("email", {"to": "ann", "text": "secret"}, search=["to"])
    job = mail.add("email", {"to": "ann", "cc": "bob", "text": "secret"}, search=["to", "cc"])

    assert mail.search("ann secret") == mail.search("secret ann") == []
    assert [info.id for info in mail.search("ann bob")] == [job.id]
    assert [info.id for info in mail.search("bob ann")] == [job.id]
    assert job.info().words == ("ann", "bob")


def test_what_is_found_has_its_data(mail: penstock.Jobs) -> None:
    mail.add("email", {"to": "ann"}, search=True)

    [info] = mail.search("ann")

    assert info.data == b'{"to":"ann"}'


def test_a_rare_word_is_found_behind_any_number_of_common_ones(mail: penstock.Jobs) -> None:
    job = mail.add("email", "common rare", search=True)
    mail.add_many("email", ["common"] * 10_000, search=True)

    assert [info.id for info in mail.search("common rare")] == [job.id]
    assert [info.id for info in mail.search("rare common")] == [job.id]


def test_the_word_that_is_rarer_of_late_is_looked_through(mail: penstock.Jobs) -> None:
    job = mail.add("email", "often always", search=True)
    mail.add_many("email", ["always", "always", "often"] * 300, search=True)
    mail.add_many("email", ["always"] * 9_400, search=True)

    assert [info.id for info in mail.search("always often")] == [job.id]


def test_a_search_looks_at_ten_thousand_jobs_at_most(mail: penstock.Jobs) -> None:
    mail.add("email", "left right", search=True)
    mail.add_many("email", ["left", "right"] * 10_000, search=True)

    assert mail.search("left right") == []


def test_a_search_for_more_words_than_any_job_has_finds_nothing(mail: penstock.Jobs) -> None:
    text = " ".join(map(str, range(65)))
    mail.add("email", text, search=True)

    assert len(mail.search(text[:-3])) == 1
    assert mail.search(text) == []


def test_what_was_removed_is_not_found_any_more(mail: penstock.Jobs) -> None:
    jobs = mail.add_many("email", ["word one", "word two"], search=True)

    jobs[1].remove()

    assert [info.id for info in mail.search("word")] == [jobs[0].id]
    assert [info.id for info in mail.search("one")] == [jobs[0].id]
    assert mail.search("two") == []


def test_search_returns_as_many_as_are_asked_for(mail: penstock.Jobs) -> None:
    mail.add_many("email", [f"word {number % 2}" for number in range(500)], search=True)

    assert len(mail.search("word", limit=30)) == 30
    assert len(mail.search("word 1", limit=1000)) == 250


def test_a_job_is_found_by_its_id_wherever_it_is(ps: penstock.Penstock) -> None:
    job = ps.jobs("cards").add("print", 1)
    ps.jobs("mail").add("email")

    assert ps.job(job.id).info().queue == "cards"
    assert ps.job(job.id, queue="cards").type == "print"
    with pytest.raises(JobNotFound, match=f"queue 'mail' has no job {job.id}"):
        ps.job(job.id, queue="mail")
    with pytest.raises(
        JobNotFound, match=r"no queue of namespace 'test-.*' has a job 0000000000000"
    ):
        ps.job("0000000000000")


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda mail: mail.page("stuck"), "there is no job state 'stuck'; there are scheduled, "),
        (lambda mail: mail.page("ready", limit=0), "a page has 1 to 1000 jobs; limit is 0"),
        (lambda mail: mail.page("ready", limit=1001), "a page has 1 to 1000 jobs"),
        (lambda mail: mail.page("ready", after="x"), "'x' is no cursor; give the one that came"),
        (lambda mail: mail.page("ready", colour="x"), "jobs cannot be chosen by 'colour'"),
        (lambda mail: mail.page("ready", reason="failed"), "only dead jobs have a reason"),
        (lambda mail: mail.page("dead", reason="luck"), "because of 'luck'; give one of failed, "),
        (lambda mail: mail.counts(reason="failed"), "jobs are not counted by why they are dead"),
        (lambda mail: mail.counts(colour="x"), "only by state, type, tenant, tag"),
        (lambda mail: mail.search("x", limit=-1), "a page has 1 to 1000 jobs; limit is -1"),
        (lambda mail: mail.page("ready", after=5), "5 is no cursor; give the one that came"),
        (lambda mail: mail.search(5), "the words to search for are text, not 5; pass a str"),
        (lambda mail: mail.get("nonsense"), "'nonsense' is not the id of a job; it has 13"),
        (lambda mail: mail.get("zzzzzzzzzzzzz"), "it is too large to be one"),
        (lambda mail: next(mail.events("party")), "there is no event 'party' of jobs; there are"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    mail: penstock.Jobs, ask: object, message: str
) -> None:
    mail.add("email")

    with pytest.raises(InvalidArgument, match=message):
        ask(mail)  # type: ignore[operator]


@pytest.mark.stores("debian")
@pytest.mark.parametrize("name", ["x" * 256, "a\nb", "\ud800", 5, None])
def test_names_that_cannot_be_are_refused(mail: penstock.Jobs, name: str) -> None:
    for which in ({"type": name}, {"tenant": name}, {"tag": name}):
        with pytest.raises(InvalidName):
            mail.page("ready", **which)  # type: ignore[arg-type]
