"""When a request is sent again, and which errors pass by themselves."""

from __future__ import annotations

import re
import time
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from penstock.connection.address import parse_url
from penstock.connection.answers import is_passing, store_error, unavailable
from penstock.connection.retry import REPEATABLE_S, Patience
from penstock.connection.store import Store
from penstock.connection.wire import ConnectionLost, NotSent, ReplyError
from penstock.errors import StoreError, StoreFull, StoreUnavailable
from penstock.store.commands import tasks
from penstock.store.keys import NamespaceKeys
from penstock.store.script import STANDALONE

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS = parse_url("redis://user:hunter2@host")


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_first_repetition_comes_at_once(clock: Clock) -> None:
    assert Patience(30.0).next_wait_s() == 0.0


def test_waits_are_random_grow_and_stay_bounded(clock: Clock) -> None:
    clients = [Patience(None) for _ in range(200)]
    waits = [[patience.next_wait_s() for _ in range(12)] for patience in clients]

    longest = [max(wait or 0 for wait in tries) for tries in zip(*waits, strict=True)]
    assert longest[0] == 0.0
    assert 0 < longest[1] <= 0.08 < longest[5] <= 2.0
    assert longest[-1] <= 2.0
    assert len({wait for tries in waits for wait in tries}) > 1000


def test_patience_without_end_has_none(clock: Clock) -> None:
    patience = Patience(None)

    waits = [patience.next_wait_s() for _ in range(5000)]

    assert max(wait or 0 for wait in waits) <= 2.0


def test_patience_ends_when_its_time_is_over(clock: Clock) -> None:
    patience = Patience(30.0)
    patience.next_wait_s()

    clock.now_s += 29.99
    last = patience.next_wait_s()
    assert last is not None and last <= 0.011
    clock.now_s += 0.02
    assert patience.next_wait_s() is None
    assert patience.waited_s() == pytest.approx(30.01)


def test_no_patience_means_no_repetition(clock: Clock) -> None:
    assert Patience(0.0).next_wait_s() is None


def test_endless_patience_never_ends(clock: Clock) -> None:
    patience = Patience(None)
    clock.now_s += 1e9
    assert patience.next_wait_s() == 0.0
    assert patience.next_wait_s() is not None


def test_numbers_are_remembered_for_longer_than_requests_are_repeated() -> None:
    memory = files("penstock.store").joinpath("scripts", "fragments", "memory.lua").read_text()
    remembered_ms = re.search(r"MEMORY_MS = '(\d+)'", memory)

    assert remembered_ms is not None
    # The last try may begin at the very end and take its time.
    assert int(remembered_ms[1]) / 1000 >= REPEATABLE_S + 300


def test_a_numbered_request_is_given_up_before_its_number_is_forgotten(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(ADDRESS, retry_for_s=None, dialect=STANDALONE)
    tries: list[float] = []

    def fail(key: str, packed: bytes, *_: object, others_first: bool = False) -> None:
        tries.append(clock.now_s - 1000.0)
        clock.now_s += 100.0
        raise ConnectionLost("lost")

    monkeypatch.setattr(store.router, "exchange", fail)
    monkeypatch.setattr("penstock.connection._sync.store.pause", lambda seconds: None)
    keys = NamespaceKeys("n").queue("q")

    with pytest.raises(StoreUnavailable, match=r"gave no answer in 30\d\d s .lost."):
        store.run_once(lambda operation: tasks.enqueue_tasks(keys, operation, [b"task"]))

    assert REPEATABLE_S <= max(tries) <= REPEATABLE_S + 200


def test_a_request_is_not_repeated_if_what_was_done_meanwhile_took_too_long(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(ADDRESS, dialect=STANDALONE)
    tries = 0

    def lose(key: str, packed: bytes, meanwhile: Callable[[], None], *, others_first: bool) -> None:
        nonlocal tries
        tries += 1
        meanwhile()
        raise ConnectionLost("lost")

    def take_long() -> None:
        clock.now_s += REPEATABLE_S + 1

    monkeypatch.setattr(store.router, "exchange", lose)
    keys = NamespaceKeys("n").queue("q")

    with pytest.raises(StoreUnavailable, match=r"gave no answer in 3001 s .lost."):
        store.run_once(lambda o: tasks.enqueue_tasks(keys, o, [b"task"]), take_long)

    assert tries == 1


@pytest.mark.parametrize(
    "text",
    [
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "READONLY You can't write against a read only replica.",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
        "ERR max number of clients reached",
        "ERR Error running script (call to f_40168d8186716c90ba82edd44c2b386a5aa07c90): "
        "@user_script:104: @user_script: 104: -READONLY You can't write against a read only",
    ],
)
def test_an_error_that_passes_by_itself_is_known(text: str) -> None:
    assert is_passing(ReplyError(text))

    error = unavailable(ADDRESS, 30.4, ReplyError(text), is_unanswered=False)

    answer = text.rpartition(": -")[2]
    said = f"the store at host:6379 answered {answer!r}, and no better within 30 s; nothing was "
    assert str(error).startswith(f"{said}changed; ")
    assert "can be reached" not in str(error)
    assert not error.may_have_taken_effect


@pytest.mark.parametrize(
    "text",
    [
        "ERR unknown command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOAUTH Authentication required.",
        "NOPERM this user has no permissions to run the 'eval' command",
        "MOVED 866 127.0.0.1:7000",
    ],
)
def test_an_error_that_stays_is_not_waited_for(text: str) -> None:
    assert not is_passing(ReplyError(text))
    assert isinstance(store_error(ReplyError(text), ADDRESS), StoreError)


@pytest.mark.parametrize(
    "text",
    [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "ERR Error running script (call to f_40168d8186716c90ba82edd44c2b386a5aa07c90): "
        "@user_script:104: @user_script: 104: -OOM command not allowed when used memory > 'maxm",
    ],
)
def test_a_full_store_is_told_apart(text: str) -> None:
    assert isinstance(store_error(ReplyError(text), ADDRESS), StoreFull)


def test_what_is_said_of_a_store_that_does_not_answer() -> None:
    error = unavailable(ADDRESS, 30.4, ConnectionLost("timed out"), is_unanswered=True)

    assert str(error) == (
        "the store at host:6379 gave no answer in 30 s (timed out); whether the last request took "
        "effect is unknown; check that the server runs and can be reached"
    )


def test_what_is_said_of_a_store_that_cannot_be_reached() -> None:
    reason = NotSent("cannot connect to host:6379: refused")
    error = unavailable(ADDRESS, 30.4, reason, is_unanswered=False)

    assert str(error) == (
        "the store at host:6379 could not be reached in 30 s (cannot connect to host:6379: "
        "refused); the request was not sent; check that the server runs and can be reached"
    )
    assert not error.may_have_taken_effect


def test_a_refusal_does_not_tell_what_became_of_an_earlier_try() -> None:
    reason = ReplyError("READONLY You can't write against a read only replica.")
    error = unavailable(ADDRESS, 30.4, reason, is_unanswered=True)

    assert "an earlier try was not answered, so whether the last request took effect is" in str(
        error
    )
    assert "it is a replica; give the URL of the primary" in str(error)
    assert error.may_have_taken_effect
