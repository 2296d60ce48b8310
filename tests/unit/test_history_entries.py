"""Entries of the history, as their bytes are."""

from __future__ import annotations

import pytest

from penstock.codec.attempts import open_ended_attempt
from penstock.errors import UnknownLayout
from penstock.model.jobs import LAYOUT, EndedAttempt

OLD = bytes.fromhex(
    "01"  # layout
    "0002"  # attempt
    "0000000003e8"  # waited_ms
    "00000005"  # bytes
    "018bcfe56800"  # ended, ms
    "0131"  # id 1
    "05656d61696c"  # email
    "0461636d65"  # acme
    "027731"  # w1
    "06" + b"failed".hex() + "023230"  # ran_us
    "023130"  # cpu_us
)
ADDED = bytes.fromhex("fffffff6018bcfe56000720a") + b"ValueError"
ENTRY = EndedAttempt(
    place="1-0",
    job="0000000000001",
    type="email",
    tenant="acme",
    attempt=2,
    outcome="failed",
    waited_ms=1000,
    ran_us=20,
    cpu_us=10,
    worker="w1",
    bytes=5,
    ended_at=1_700_000_000.0,
)


def test_an_entry_of_an_older_version_lacks_what_it_did_not_write() -> None:
    entry = open_ended_attempt("1-0", OLD)

    assert entry == ENTRY
    assert (entry.priority, entry.created_at, entry.state, entry.error_type) == (None,) * 4


def test_an_entry_has_what_reports_need() -> None:
    entry = open_ended_attempt("1-0", OLD + ADDED)

    assert (entry.priority, entry.created_at) == (-10, 1_699_999_997.952)
    assert (entry.state, entry.error_type) == ("ready", "ValueError")


def test_what_a_later_version_adds_is_ignored() -> None:
    known = open_ended_attempt("1-0", OLD + ADDED)

    assert open_ended_attempt("1-0", OLD + ADDED + b"more") == known


def test_an_entry_of_another_layout_is_refused() -> None:
    with pytest.raises(UnknownLayout, match="written by a newer penstock"):
        open_ended_attempt("1-0", bytes([LAYOUT + 1]) + OLD[1:])
