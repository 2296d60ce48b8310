"""How a script is put together: what of its fragments it is given, and when it is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.linking import link

if TYPE_CHECKING:
    import penstock

FRAGMENTS = """-- What is said of the whole.
local function twice(number)
  return 2 * number
end

jobs.LIMIT, jobs.WORD = 7, 'seven'
jobs.LARGE = 100 -- and why

jobs.known = {first = 1}
function jobs.usual(number) return twice(number) + jobs.LIMIT end

-- seldom
function jobs.rare(number)
  return jobs.helper(number) + jobs.LARGE
end

function jobs.helper(number) return number * 10 end
function jobs.unused() return jobs.WORD end
"""


def test_a_script_is_given_only_what_it_uses() -> None:
    text = link(FRAGMENTS, "return jobs.usual(1)\n")

    assert "usual" in text
    assert "twice" in text
    assert "rare" not in text
    assert "unused" not in text
    assert "known" not in text
    assert link(FRAGMENTS, "return 1\n") == "return 1\n"


def test_constants_are_written_as_what_they_are() -> None:
    text = link(FRAGMENTS, "return {jobs.usual(1), jobs.WORD, jobs.LARGE}\n")

    assert text.endswith("return {jobs.usual(1), 'seven', 100}\n")
    assert "twice(number) + 7" in text
    assert "LIMIT" not in text


def test_what_is_used_seldom_is_set_up_when_it_is_used() -> None:
    text = link(FRAGMENTS, "if ARGV[1] then return jobs.rare(1) end return jobs.usual(1)\n")

    table, deferred = text.split("setmetatable(jobs, {")
    assert "usual = function" in table
    assert "rare" not in table
    assert "helper" not in table, "only what is seldom uses it"
    assert "function jobs.helper" in deferred


def test_what_may_be_all_comes_before_the_functions() -> None:
    body = "if twice(1) > ARGV[1] then return 1 end\n-- Shared functions from here.\nreturn {}\n"
    text = link(FRAGMENTS, body.format("jobs.usual(1)"))

    assert text.index("local function twice") < text.index("return 1") < text.index("local jobs")
    assert text.endswith("return jobs.usual(1)\n")


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        ("return jobs.usual(1)", 9),
        ("return jobs.rare(2)", 120),
        ("return {jobs.rare(2), jobs.rare(3), jobs.usual(1), jobs.helper(1)}", [120, 130, 9, 10]),
        ("return jobs.known.first", 1),
        ("return {jobs.nothing == nil and 1 or 2, jobs.rare(1)}", [1, 110]),
    ],
)
def test_a_linked_script_runs(ps: penstock.Penstock, body: str, reply: object) -> None:
    assert ps.store.call("key", "EVAL", link(FRAGMENTS, body + "\n"), "1", "key") == reply
