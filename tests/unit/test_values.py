"""Data and results of jobs, to bytes and back."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.heads import open_head, pack_head
from penstock.codec.values import (
    open_call,
    open_result,
    pack_call,
    pack_data,
    pack_result,
    words_of,
)
from penstock.errors import Unserialisable
from penstock.model.job_options import make_options
from penstock.model.schedules import make_schedule
from penstock.worker.schedules import scheduled_jobs


@pytest.mark.parametrize(
    ("data", "args", "kwargs"),
    [
        (b"", [], {}),
        (b"null", [], {}),
        (b"{}", [], {}),
        (b'{"to": "alice"}', [], {"to": "alice"}),
        (b"[[1, 2]]", [1, 2], {}),
        (b'[[1], {"to": 2}]', [1], {"to": 2}),
        (pack_call("it", (1,), {"a": None})[0], [1], {"a": None}),
        (pack_data("it", None), [], {}),
    ],
)
def test_data_of_a_job_is_a_call(data: bytes, args: list[Any], kwargs: dict[str, Any]) -> None:
    assert open_call(data) == (args, kwargs)


@pytest.mark.parametrize("data", [b"1", b'"text"', b"[]", b"[1]", b"[[], []]", b"[[], {}, 1]"])
def test_anything_else_is_no_call(data: bytes) -> None:
    with pytest.raises(Unserialisable, match="the data of the job is no call; a call is an object"):
        open_call(data)


@pytest.mark.parametrize("data", [b" {} ", b"\r\n\t{}", b"{}\n", b"[[], {}]\r\n\t "])
def test_there_may_be_white_space_around_a_call(data: bytes) -> None:
    assert open_call(data) == ([], {})


@pytest.mark.parametrize(
    "data", [b"{", b" ", b"\n", b"{} {}", b"[[]]]", b"{}\0", b"{}\xc2\xa0", b"{}\x0c", b"x", b" x"]
)
def test_data_that_is_not_json_is_no_call(data: bytes) -> None:
    with pytest.raises(json.JSONDecodeError) as said:
        json.loads(data)

    expected = f"the data of the job is not JSON: {said.value}"
    with pytest.raises(Unserialisable, match=f"^{re.escape(expected)}$"):
        open_call(data)


@pytest.mark.parametrize("value", [{"to": ["you", 1, None]}, "text", 0, b"bytes", b"", None])
def test_a_result_is_read_as_it_was_written(value: object) -> None:
    assert open_result(pack_result(value)) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "Out of range float values are not JSON compliant"),
        ({1, 2}, "Object of type set is not JSON serializable"),
        ("\ud800", "'utf-8' codec can't encode character"),
    ],
)
def test_a_result_that_is_not_json_is_refused(value: object, reason: str) -> None:
    with pytest.raises(Unserialisable, match=f"^the result cannot be written as JSON: {reason}"):
        pack_result(value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=_VALUES, before=st.text(" \t\r\n"), after=st.text(" \t\r\n"))
def test_a_result_comes_back_as_json_does(value: object, before: str, after: str) -> None:
    assert open_result(f"j{before}{json.dumps(value)}{after}".encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 2",
        "[1]]",
        "nul",
        "{",
        "[1,]",
        '"',
        '"\n"',
        "1\0",
        "\ufeff1",
        "\xa01",
        "1\xa0",
        "-",
    ],
)
def test_what_json_refuses_is_refused_in_the_same_words(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as refused:
        json.JSONDecoder().decode(text)

    with pytest.raises(json.JSONDecodeError) as error:
        open_result(b"j" + text.encode())

    assert str(error.value) == str(refused.value)


def test_what_is_no_json_but_is_read_as_such_still_is() -> None:
    assert open_result(b"j[Infinity,-Infinity]") == [float("inf"), -float("inf")]
    assert str(open_result(b"jNaN")) == "nan"


@pytest.mark.parametrize("value", [None, b"", b"j1", "", "text", 0, [], {"a": [1, None]}])
def test_a_result_comes_back_as_it_was(value: object) -> None:
    assert open_result(pack_result(value)) == value


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        ({"to": "Ann"}, "to", ("ann",)),
        (b'{"to": {"name": "Ann"}}', "to.name", ("ann",)),
        (pack_call("it", (1,), {"to": "Ann"})[0], "to", ("ann",)),
        (pack_call("it", (1,), {"to": {"name": "Ann"}, "cc": "Bob"})[0], "to.name", ("ann",)),
        ([[1], {"to": "Ann"}], "to", ("ann",)),
        ({"lines": ["one", "two"]}, "lines.1", ("two",)),
        ({"lines": ["one", "two"]}, "lines.2", ()),
        ({"lines": ["one", "two"]}, "lines." + 5000 * "9", ()),
        (["ann", "bob"], "to", ()),
        (b"no JSON", "to", ()),
    ],
)
def test_a_path_leads_to_words(data: object, path: str, words: tuple[str, ...]) -> None:
    assert words_of(data, (path,), 64) == words


def test_the_jobs_of_a_schedule_can_be_found_by_their_words() -> None:
    planned = make_schedule(
        "pulse", queue="mail", type="email", data=b'"Alice"', every=60, options={"search": True}
    )

    (group,) = scheduled_jobs(planned, 2)

    assert group.head == pack_head(make_options("email", {"search": True}), ("alice",))
    assert open_head(group.head).type == "email"
    assert [data for _, data in group.jobs] == [b'"Alice"'] * 2
