"""Nonsense is refused with words that say what and what to do, before anything is written."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import (
    IllegalMove,
    InvalidArgument,
    InvalidName,
    JobFailed,
    NoJob,
    PayloadTooLarge,
    Unserialisable,
)
from tests.conftest import STORES
from tests.contract.job_workers import Hand, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.running_worker import RunningWorker
    from tests.stored import Stored

# The client refuses; only a move is judged by a script.
pytestmark = pytest.mark.stores("debian")

NAN, INF = math.nan, math.inf
YEARS = timedelta(days=1000)

OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"priority": "urgent"}, "there is no priority 'urgent'; give a whole number or one of low"),
    ({"priority": NAN}, "priority is nan; give a whole number between -2"),
    ({"priority": INF}, "priority is inf; give a whole number"),
    ({"priority": 1.0}, "priority is 1.0; give a whole number"),
    ({"priority": True}, "priority is True; give a whole number"),
    ({"priority": 2**31}, "priority is 2147483648; give a whole number between"),
    ({"priority": -(2**31)}, "priority is -2147483648; give a whole number between"),
    ({"delay": 10**400}, "delay is 1000.*; give seconds"),
    ({"delay": -(10**400)}, "delay is -1000.*; give seconds"),
    ({"keep": "no"}, "keep is 'no'; give True or False"),
    ({"at_most_once": "no"}, "at_most_once is 'no'; give True or False"),
    ({"timeout": []}, r"timeout is \[\]; give seconds"),
    ({"unique": 0}, "a unique key is text, not int; pass a str"),
    ({"delay": NAN}, "delay is nan; give seconds from 0 to 31622400"),
    ({"delay": INF}, "delay is inf; give seconds"),
    ({"delay": -1}, "delay is -1; give seconds"),
    ({"delay": YEARS}, "delay is datetime.timedelta.*; give seconds from 0 to 31622400"),
    ({"delay": "1"}, "delay is '1'; give seconds"),
    ({"delay": True}, "delay is True; give seconds"),
    ({"run_at": 5}, "run_at is 5; give a datetime with a time zone"),
    ({"run_at": datetime(1960, 1, 1, tzinfo=UTC)}, "give a time between 1970 and"),
    ({"attempts": 0}, "attempts is 0; give a whole number from 1 to 65000"),
    ({"attempts": 65_001}, "attempts is 65001; give a whole number"),
    ({"attempts": 1.5}, "attempts is 1.5; give a whole number"),
    ({"backoff": "random"}, "backoff 'random' is not known; give 'exponential', 'fixed'"),
    ({"backoff": -1}, "the delay of a backoff is -1 s"),
    ({"backoff": NAN}, "the delay of a backoff is nan s"),
    ({"timeout": -5}, "timeout is -5; give seconds"),
    ({"timeout": 300 * 86_400}, "timeout is 25920000; a job may run for 49 days at most"),
    ({"timeout": 0}, r"timeout is 0; give seconds above 0 .*, or leave it out for none"),
    ({"expires": INF}, "expires is inf; give seconds"),
    ({"expires": -1}, r"expires is -1; give seconds above 0 .* leave it out for none"),
    ({"expires": 0.0}, r"expires is 0.0; give seconds above 0 .* leave it out for none"),
    ({"expires": timedelta()}, r"expires is .*timedelta\(0\); give seconds above 0 "),
    ({"tags": "x"}, "tags is 'x'; give a list of up to 10 words"),
    ({"tags": list("abcdefghijk")}, "give a list of up to 10 words"),
    ({"unique": 5}, "a unique key is text, not int; pass a str"),
    ({"unique": "\ud800"}, "is not valid Unicode text"),
    ({"unique": "k", "unique_scope": "all"}, "unique_scope is 'all'; give 'type' or 'queue'"),
    ({"unique_scope": "queue"}, "unique_scope needs unique as well, the key that is to be unique"),
    ({"unique": "k", "unique_scope": []}, r"unique_scope is \[\]; give 'type' or 'queue'"),
    ({"at_most_once": True, "attempts": 3}, "at_most_once means one attempt, and attempts is 3;"),
    ({"unique": "k", "unique_for": NAN}, "unique_for is nan; give seconds"),
    ({"search": "title"}, "search is 'title'; give True, or a list of paths"),
    ({"search": [5]}, r"search is \[5\]; give True, or a list of paths"),
    ({"wait": -1}, "wait is -1; give seconds"),
    ({"id": "nonsense"}, "'nonsense' is not the id of a job; it has 13 characters"),
    ({"id": 5}, "5 is not the id of a job"),
    ({"colour": "red"}, "a job has no option 'colour'; it has priority, delay"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=[str(each[0]) for each in OPTIONS])
def test_an_option_that_makes_no_sense_is_refused(
    mail: penstock.Jobs, stored: Stored, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        mail.add("email", **options)

    assert stored.everything() == {}


def test_none_is_no_timeout_and_no_expiry(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", timeout=None, expires=None)

    assert hand.take_one().id == job.id
    assert job.info().timeout_s == 0


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "\ud800", 5, None], ids=repr)
def test_a_name_that_cannot_be_is_refused(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, name: Any
) -> None:
    with pytest.raises(InvalidName):
        mail.add(name)
    with pytest.raises(InvalidName):
        ps.jobs(name).add("email")
    with pytest.raises(InvalidName):
        mail.add("email", tags=[name])
    if name != "":  # none
        with pytest.raises(InvalidName):
            mail.add("email", tenant=name)
        with pytest.raises(InvalidName):
            mail.add("email", key=name)
    with pytest.raises(InvalidName):
        ps.schedules("mail").add(name, "email", every=60)

    assert stored.everything() == {}


def test_a_backoff_with_too_long_a_name_is_refused(mail: penstock.Jobs, stored: Stored) -> None:
    with pytest.raises((InvalidName, InvalidArgument), match="backoff"):
        mail.add("email", backoff="named:" + "x" * 255)

    assert stored.everything() == {}


@pytest.mark.parametrize("place", [5, None, "", "5", "5-", "--", b"-"], ids=repr)
def test_a_place_in_a_history_that_cannot_be_is_refused(mail: penstock.Jobs, place: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"is no place in a history; give the `place` of an"):
        mail.history(after=place)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (object(), "not JSON serializable"),
        ({"a": {1, 2}}, "set is not JSON serializable"),
        (NAN, "not JSON compliant"),
        ([INF], "not JSON compliant"),
        ({(1, 2): 3}, "keys must be str"),
        ("\ud800", "surrogates not allowed"),
        (CYCLE, "it contains itself, or is nested too deeply"),
        (bytearray(b"x"), "bytearray is not JSON serializable"),
    ],
    ids=["object", "set", "nan", "inf", "key", "surrogate", "cycle", "bytearray"],
)
def test_data_that_is_no_json_is_refused(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, data: Any, cause: str
) -> None:
    for send in (
        lambda: mail.add("email", data),
        lambda: mail.add_many("email", [1, data]),
        lambda: ps.schedules("mail").add("s", "email", data, every=60),
    ):
        with pytest.raises(Unserialisable, match=f"cannot be written as JSON: .*{cause}.*; give"):
            send()

    assert stored.everything() == {}


@penstock.job(queue="mail", type="call", attempts=2, backoff="none")
def give(what: str) -> Any:
    return {"set": {1}, "nan": NAN, "large": "x" * 2_000_000, "none": None}[what]


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("set", "penstock.errors.Unserialisable", "the result cannot be written as JSON"),
        ("nan", "penstock.errors.Unserialisable", "the result cannot be written as JSON"),
        ("large", "penstock.errors.PayloadTooLarge", "2000003 bytes long and 1048576 is the limit"),
    ],
)
def test_a_result_that_cannot_be_kept_makes_the_attempt_fail(
    ps: penstock.Penstock,
    serve: Callable[..., RunningWorker],
    what: str,
    error: str,
    message: str,
) -> None:
    serve(give)
    job = give.on(ps).send(what)

    with pytest.raises(JobFailed, match=message):
        job.result(20)

    info = job.info()
    assert info.error is not None and info.error.type == error
    assert info.failures == 2
    assert give.on(ps).send("none").result(20) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"not json", b"5", b'[{"a": 1}]', b'{"wrong": 1}'])
def test_data_that_is_no_call_of_the_function_makes_the_job_fail(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker], data: bytes
) -> None:
    serve(give)
    job = mail.add("call", data)

    with pytest.raises(JobFailed, match=r"data of the job|missing 1 required|unexpected keyword"):
        job.result(20)


def test_arguments_that_are_no_json_are_refused_by_name(
    ps: penstock.Penstock, stored: Stored
) -> None:
    with pytest.raises(Unserialisable, match="the arguments of 'call' cannot be written as JSON"):
        give.on(ps).send(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="send_many takes sequences or dicts of arguments"):
        give.on(ps).send_many(["not a sequence of arguments"])

    assert stored.everything() == {}


NO_LISTS: list[Any] = ["abc", "", b"abc", bytearray(b"abc"), {"a": 1}, {}, None, 5]


@pytest.mark.parametrize("items", NO_LISTS, ids=repr)
def test_one_item_is_not_taken_for_many(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, items: Any
) -> None:
    is_no_list = re.escape(f"{items!r} is no list; give a list with ")
    with pytest.raises(InvalidArgument, match=is_no_list + "the data of each job, also if"):
        mail.add_many("email", items)
    with pytest.raises(InvalidArgument, match=is_no_list + "the arguments of each call, also if"):
        give.on(ps).send_many(items)
    with pytest.raises(InvalidArgument, match=is_no_list + "the arguments of each call, also if"):
        give.send_many(items)

    assert stored.everything() == {}


@pytest.mark.parametrize("items_of", [list, tuple, set, iter])
def test_whatever_has_items_is_taken_for_many(
    mail: penstock.Jobs, items_of: Callable[[list[int]], Iterable[int]]
) -> None:
    assert len(mail.add_many("email", items_of([1, 2]))) == 2


def test_one_bad_item_keeps_its_batch_out_and_those_before_it_in(mail: penstock.Jobs) -> None:
    with pytest.raises(Unserialisable) as caught:
        mail.add_many("email", [*range(1999), object()])

    accepted = mail.counts()["ready"]
    assert 0 < accepted < 1999
    assert caught.value.accepted == accepted  # type: ignore[attr-defined]


def test_an_id_is_for_one_job(mail: penstock.Jobs, stored: Stored) -> None:
    with pytest.raises(InvalidArgument, match="an id is for one job; leave it out when many"):
        mail.add_many("email", [1, 2], id=penstock.new_job_id())

    assert stored.everything() == {}


CHANGES: list[tuple[Callable[[penstock.Job[Any]], object], str]] = [
    (lambda job: job.reschedule(NAN), "delay is nan; give seconds"),
    (lambda job: job.reschedule(-1), "delay is -1; give seconds"),
    (lambda job: job.reschedule(YEARS), "give seconds from 0 to 31622400"),
    (lambda job: job.reprioritise("urgent"), "there is no priority 'urgent'"),  # type: ignore[arg-type]
    (lambda job: job.reprioritise(NAN), "priority is nan; give a whole number"),  # type: ignore[arg-type]
    (lambda job: job.reprioritise(2**40), "priority is 1099511627776"),
    (lambda job: job.result(-1), "timeout is -1; give seconds"),
    (lambda job: job.log(limit=0), "give 1 to 1000 lines"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[each[1] for each in CHANGES])
def test_a_change_that_makes_no_sense_is_refused(
    mail: penstock.Jobs, stored: Stored, change: Callable[[penstock.Job[Any]], object], message: str
) -> None:
    job = mail.add("email")
    before = stored.everything()

    with pytest.raises(InvalidArgument, match=message):
        change(job)

    assert stored.everything() == before


MOVES: dict[str, tuple[str, ...]] = {
    "scheduled": ("retry",),
    "ready": ("retry",),
    "running": ("retry", "remove", "promote", "reschedule", "reprioritise"),
    "done": ("cancel", "retry", "promote", "reschedule", "reprioritise"),
    "dead": ("cancel", "promote", "reschedule", "reprioritise"),
    "cancelled": ("promote", "reschedule", "reprioritise"),
}
"""State -> what cannot be done to a job in it."""


@pytest.mark.stores(*STORES)
@pytest.mark.parametrize("state", MOVES)
def test_an_illegal_move_is_refused_and_changes_nothing(
    mail: penstock.Jobs, hand: Hand, stored: Stored, state: str
) -> None:
    job = mail.add("email", delay=60 if state == "scheduled" else 0)
    if state not in ("scheduled", "ready"):
        process = hand.take_one()
    if state in ("done", "dead", "cancelled"):
        hand.end_as(process, state)
    assert job.state == state
    before = written(stored)

    for act in MOVES[state]:
        arguments = {"reschedule": (5,), "reprioritise": (3,)}.get(act, ())
        with pytest.raises(IllegalMove, match=f"job {job.id} is {state}; "):
            getattr(job, act)(*arguments)

    assert written(stored) == before


def test_outside_of_a_job_there_is_no_current_one() -> None:
    with pytest.raises(NoJob, match="no job is running here"):
        penstock.current()


@pytest.mark.parametrize(("done", "total"), [(1, 0), (NAN, 1), (INF, 1), ("a", 1), (1, None)])
def test_progress_that_makes_no_sense_is_an_error_of_the_job(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker], done: Any, total: Any
) -> None:
    @penstock.job(queue="mail", type="progress")
    def report() -> None:
        penstock.current().progress(done, total)

    serve(report)

    with pytest.raises(JobFailed, match=r"progress is .* of .*; give two numbers"):
        report.on(ps).send().result(20)


def test_a_large_job_is_refused_before_it_is_sent(mail: penstock.Jobs, stored: Stored) -> None:
    with pytest.raises(PayloadTooLarge, match="1048577 bytes long and 1048576 is the limit"):
        mail.add("email", b"x" * (2**20 + 1))

    assert stored.everything() == {}


@pytest.mark.parametrize("option", ["priority", "attempts", "delay"])
def test_a_number_too_long_to_be_written_is_refused_like_any_other(
    mail: penstock.Jobs, option: str
) -> None:
    settings: Any = {option: 10**5000}

    with pytest.raises(InvalidArgument, match=f"{option} is something of type int; give"):
        mail.add("email", **settings)
