"""Retries: how long a failed job waits, how that is written down, and what is final."""

from __future__ import annotations

import json
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, InvalidName, ProtocolError
from penstock.model.retries import (
    MAX_DURATION_MS,
    Backoff,
    Reject,
    Retry,
    RetryRules,
    decode_backoff,
    delay_ms,
    encode_backoff,
    exponential,
    fixed,
    named,
    parse_backoff,
    write_backoff,
)

LONGEST_S = MAX_DURATION_MS // 1000
SECONDS = st.floats(0, LONGEST_S) | st.integers(0, LONGEST_S)
SHARES = st.floats(0, 1)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
EXPONENTIALS = st.builds(
    lambda waits, jitter: exponential(min(waits), max(waits), jitter),
    st.tuples(SECONDS, SECONDS),
    SHARES,
)
BACKOFFS = st.builds(fixed, SECONDS) | EXPONENTIALS | st.builds(named, NAMES)
NO_DURATIONS = [-1, -0.001, math.nan, math.inf, -math.inf, LONGEST_S + 1, 10**400, True, "5", []]


def no_chance() -> float:
    return 0.0


def most_chance() -> float:
    return math.nextafter(1.0, 0.0)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, exponential()),
        ("exponential", Backoff("exponential", 1000, 3_600_000, 0.5)),
        ("exponential:2", exponential(2)),
        ("exponential:2:60", exponential(2, 60)),
        ("exponential:0.5:60:0.1", Backoff("exponential", 500, 60_000, 0.1)),
        ("fixed", Backoff("fixed", 1000)),
        ("none", Backoff("fixed", 0)),
        (0, Backoff("fixed", 0)),
        (2.5, Backoff("fixed", 2500)),
        (timedelta(minutes=1), Backoff("fixed", 60_000)),
        (LONGEST_S, Backoff("fixed", MAX_DURATION_MS)),
        ("named:polite:slow", Backoff("named", name="polite:slow")),
        (fixed(7), Backoff("fixed", 7000)),
    ],
)
def test_a_backoff_can_be_given_in_many_ways(given: Any, meant: Backoff) -> None:
    assert parse_backoff(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        *("", "linear", "named", "named:", "5", "Exponential", "fixed:5"),
        *("exponential:", "exponential:soon", "exponential:1:2:0.5:4"),
    ],
)
def test_an_unknown_backoff_is_refused_with_a_list_of_those_that_exist(given: str) -> None:
    with pytest.raises(InvalidArgument, match="is not known; give 'exponential', 'fixed', 'none'"):
        parse_backoff(given)


@pytest.mark.parametrize("given", [value for value in NO_DURATIONS if value != "5"])
def test_a_delay_that_is_no_time_up_to_366_days_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"the delay of a backoff is .*seconds"):
        parse_backoff(given)


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan, math.inf, "half", None])
def test_a_jitter_that_is_no_share_is_refused(jitter: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"jitter is .*from 0 \(none\) to 1 \(all\)"):
        exponential(jitter=jitter)


def test_a_base_above_the_cap_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="begins at 7200000 ms cannot be capped at 3600000"):
        exponential(base_s=7200)


def test_a_strategy_without_a_usable_name_is_refused() -> None:
    with pytest.raises(InvalidName, match="a backoff name is empty"):
        named("")


def test_exponential_waits_double_up_to_the_cap() -> None:
    backoff = exponential(base_s=1, cap_s=10, jitter=0)

    assert [delay_ms(backoff, k) for k in range(1, 7)] == [1000, 2000, 4000, 8000, 10_000, 10_000]


def test_jitter_takes_off_up_to_its_share() -> None:
    backoff = exponential(base_s=1, cap_s=10, jitter=0.5)

    assert delay_ms(backoff, 1, no_chance) == 1000
    assert delay_ms(backoff, 1, lambda: 0.5) == 750
    assert delay_ms(backoff, 1, most_chance) == 501


def test_full_jitter_can_take_off_nearly_all() -> None:
    assert delay_ms(exponential(jitter=1), 1, most_chance) == 1


def test_a_fixed_wait_is_always_the_same() -> None:
    assert {delay_ms(fixed(5), k) for k in (1, 2, 10**6)} == {5000}


def test_a_named_backoff_has_no_delay_of_its_own() -> None:
    with pytest.raises(InvalidArgument, match="'named:polite' has no delay of its own; look up"):
        delay_ms(named("polite"), 1)


def test_failures_count_from_one() -> None:
    with pytest.raises(InvalidArgument, match="failure number 0 has no delay"):
        delay_ms(fixed(1), 0)


@given(backoff=EXPONENTIALS, failures=st.integers(1, 10**6), chance=st.floats(0, 1))
def test_no_wait_leaves_its_bounds_however_many_failures(
    backoff: Backoff, failures: int, chance: float
) -> None:
    longest = delay_ms(backoff, failures, no_chance)

    assert backoff.delay_ms <= longest <= backoff.cap_ms
    assert longest <= delay_ms(backoff, failures + 1, no_chance)
    assert longest * (1 - backoff.jitter) - 1 <= delay_ms(backoff, failures, lambda: chance)
    assert delay_ms(backoff, failures, lambda: chance) <= longest


@pytest.mark.parametrize(
    ("backoff", "text"),
    [
        (fixed(5), "fixed:5000"),
        (exponential(), "exponential:1000:3600000:50"),
        (named("foo"), "named:foo"),
    ],
)
def test_a_backoff_is_stored_as_short_text(backoff: Backoff, text: str) -> None:
    assert encode_backoff(backoff) == text


@given(BACKOFFS)
def test_a_stored_backoff_comes_back_as_it_was(backoff: Backoff) -> None:
    assert decode_backoff(encode_backoff(backoff)) == backoff


@given(BACKOFFS)
def test_a_backoff_can_be_written_in_text_and_numbers(backoff: Backoff) -> None:
    written = json.loads(json.dumps(write_backoff(backoff)))

    assert parse_backoff(written) == backoff


def test_no_stored_backoff_is_the_default() -> None:
    assert decode_backoff("") == exponential()


@pytest.mark.parametrize(
    "text",
    [
        *("fixed", "fixed:", "fixed:-1", "fixed:1.5", "fixed:٣", "fixed:1\n", "fixed:99999999999"),
        *("exponential:1:2", "exponential:1:2:101", "exponential:2:1:0", "exponential:1:2:3:4"),
        *("named:", "named:\n", "linear:5", " ", "fixed:999999999999"),
    ],
)
def test_a_stored_backoff_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="the stored backoff"):
        decode_backoff(text)


@pytest.mark.parametrize(("after", "after_ms"), [(None, None), (0, 0), (1.5, 1500)])
def test_a_retry_says_when(after: float | None, after_ms: int | None) -> None:
    assert Retry(after).after_ms == after_ms
    assert Retry(timedelta(seconds=2), "busy").after_ms == 2000


@pytest.mark.parametrize("after", NO_DURATIONS)
def test_a_retry_after_no_time_is_refused(after: Any) -> None:
    with pytest.raises(InvalidArgument, match="the delay of a Retry is"):
        Retry(after)


def test_a_reason_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a reason is text, not ValueError; pass a str"):
        Reject(ValueError("no"))  # type: ignore[arg-type]


def test_retry_and_reject_survive_the_way_between_processes() -> None:
    retry = pickle.loads(pickle.dumps(Retry(timedelta(seconds=3), "busy")))
    reject = pickle.loads(pickle.dumps(Reject("bad card")))

    assert (retry.after_ms, str(retry)) == (3000, "busy")
    assert (reject.reason, str(reject)) == ("bad card", "bad card")


@pytest.mark.parametrize(
    ("rules", "error", "is_final"),
    [
        (RetryRules(), ValueError(), False),
        (RetryRules(), Reject("no"), True),
        (RetryRules(), Retry(), False),
        (RetryRules(retry_on=(OSError,)), ConnectionError(), False),
        (RetryRules(retry_on=(OSError,)), ValueError(), True),
        (RetryRules(retry_on=(OSError,)), Retry(), False),
        (RetryRules(retry_on=(Reject,)), Reject("no"), True),
        (RetryRules(dead_on=(ValueError,)), UnicodeError(), True),
        (RetryRules(dead_on=(ValueError,)), OSError(), False),
        (RetryRules(dead_on=(Exception,)), Retry(), False),
        (RetryRules(retry_on=(OSError,), dead_on=(ConnectionError,)), ConnectionError(), True),
    ],
)
def test_which_errors_are_final(rules: RetryRules, error: Exception, is_final: bool) -> None:
    assert rules.is_final(error) is is_final


@pytest.mark.parametrize("given", [[OSError], OSError, (OSError(),), ("OSError",), (int,)])
def test_rules_that_name_no_exception_classes_are_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"dead_on is .*give a tuple of exception classes"):
        RetryRules(dead_on=given)
