"""Pages of the history as columns: the same as one entry after the other."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.attempts import open_ended_attempt
from penstock.errors import HistoryLost, UnknownLayout
from penstock.model.jobs import LAYOUT
from penstock.spark.history_columns import Page, history_batch
from tests.unit.test_history_entries import ADDED, OLD

names = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
milliseconds = st.integers(0, 2**44)
counts = st.integers(0, 10**17)


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """An entry of the old form or the new, or one that a later version has added something to."""
    packed = struct.pack(">BH", draw(st.integers(1, LAYOUT)), draw(st.integers(0, 65535)))
    packed += draw(st.integers(0, 2**47)).to_bytes(6)
    packed += draw(st.integers(0, 2**32 - 1)).to_bytes(4) + draw(milliseconds).to_bytes(6)
    texts = [str(draw(st.integers(0, 2**63 - 1))), *(draw(names) for _ in range(4))]
    texts += [str(draw(counts)), str(draw(counts))]
    packed += b"".join(_text(text) for text in texts)
    if draw(st.booleans()):
        packed += draw(st.integers(-(2**31), 2**31 - 1)).to_bytes(4, signed=True)
        packed += draw(milliseconds).to_bytes(6) + draw(st.sampled_from([*b"sbrudxc-"])).to_bytes()
        packed += _text(draw(names)) + draw(st.sampled_from([b"", b"more"]))
    return packed


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes() + data


def rows_of(page: Page) -> list[dict[str, Any]]:
    batch = history_batch("mail", page)
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@given(st.lists(entries(), max_size=8))
def test_a_page_has_what_its_entries_have(packed: list[bytes]) -> None:
    places = [f"{number}-{number}" for number in range(len(packed))]

    rows = rows_of(Page([place.encode() for place in places], packed))

    assert len(rows) == len(packed)
    for row, place, one in zip(rows, places, packed, strict=True):
        entry = open_ended_attempt(place, one)
        for name in ("created_at", "ended_at"):
            instant = row.pop(name)
            expected = getattr(entry, name)
            assert (instant and instant.timestamp()) == expected
        assert row.pop("queue") == "mail"
        assert row == {name: getattr(entry, name) for name in row}


def test_no_entries_are_no_rows() -> None:
    assert rows_of(Page([], [])) == []


def test_an_entry_of_another_layout_is_refused() -> None:
    with pytest.raises(UnknownLayout, match="written by a newer penstock"):
        history_batch("mail", Page([b"1-0", b"2-0"], [OLD, bytes([LAYOUT + 1]) + OLD[1:]]))


def test_what_is_no_text_is_shown_as_well_as_it_can_be() -> None:
    spoilt = (OLD + ADDED).replace(b"ValueError", b"Value\xffrror")

    assert rows_of(Page([b"1-0"], [spoilt]))[0]["error_type"] == "Value�rror"


WHOLE = OLD + ADDED
DAMAGED = [b"", b"\x01", b"\x01 no entry", b"\x01" + b"\xff" * 3000]
DAMAGED += [OLD[:length] for length in range(len(OLD))]
DAMAGED += [WHOLE[:length] for length in range(len(OLD) + 1, len(WHOLE))]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_entry_is_named_or_left_out_and_never_made_up(damaged: bytes) -> None:
    page = Page([b"1-0", b"2-0", b"3-0", b"4-0"], [WHOLE, damaged, WHOLE, damaged])

    with pytest.raises(HistoryLost, match="entry at 2-0 of the history of queue 'mail' is damaged"):
        history_batch("mail", page)

    rows = history_batch("mail", page, fails=False)
    assert rows == history_batch("mail", Page([b"1-0", b"3-0"], [WHOLE, WHOLE]))
