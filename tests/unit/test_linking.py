"""How a script is put together: what of its fragments it is given, and when it is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.linking import LinkError, link

if TYPE_CHECKING:
    import penstock

FRAGMENTS = {
    "numbers": """-- What is said of the whole.
function lib.twice(number)
  return 2 * number
end
""",
    "rest": """
lib.LIMIT, lib.WORD = 7, 'seven'
lib.LARGE = 100 -- and why

lib.known = {first = 1}
function lib.usual(number) return lib.twice(number) + lib.LIMIT end

-- seldom
function lib.rare(number)
  return lib.helper(number) + lib.LARGE
end

function lib.helper(number) return number * 10 end
function lib.unused() return lib.WORD end
""",
}


def test_a_script_is_given_only_what_it_uses() -> None:
    text = link(FRAGMENTS, "return lib.usual(1)\n")

    assert "usual" in text
    assert "twice" in text
    assert "rare" not in text
    assert "unused" not in text
    assert "known" not in text
    assert link(FRAGMENTS, "return 1\n") == "return 1\n"


def test_a_word_that_is_the_name_of_a_function_does_not_bring_it() -> None:
    assert link(FRAGMENTS, "local usual = 'rare' -- lib.helper\n") == (
        "local usual = 'rare' -- lib.helper\n"
    )


def test_constants_are_written_as_what_they_are() -> None:
    text = link(FRAGMENTS, "return {lib.usual(1), lib.WORD, lib.LARGE}\n")

    assert text.endswith("return {lib.usual(1), 'seven', 100}\n")
    assert "lib.twice(number) + 7" in text
    assert "LIMIT" not in text


def test_what_is_used_seldom_is_set_up_when_it_is_used() -> None:
    text = link(FRAGMENTS, "if ARGV[1] then return lib.rare(1) end return lib.usual(1)\n")

    table, deferred = text.split("setmetatable(lib, {")
    assert "usual = function" in table
    assert "rare" not in table
    assert "helper" not in table, "only what is seldom uses it"
    assert "function lib.helper" in deferred


def test_a_name_that_two_fragments_define_is_an_error() -> None:
    more = FRAGMENTS | {"more": "function lib.helper(number) return number end\n"}

    with pytest.raises(LinkError) as raised:
        link(more, "return lib.usual(1)\n")
    assert str(raised.value) == (
        "lib.helper is defined twice, in fragments 'rest' and 'more'; give one of them another name"
    )


def test_a_constant_and_a_function_of_one_name_are_an_error() -> None:
    with pytest.raises(LinkError, match=r"lib\.LIMIT is defined twice, in fragments 'rest' and"):
        link(FRAGMENTS | {"m": "function lib.LIMIT() return 1 end\n"}, "return lib.usual(1)\n")


def test_a_name_that_no_fragment_defines_is_an_error() -> None:
    rest = {"rest": FRAGMENTS["rest"]}

    with pytest.raises(LinkError, match=r"lib\.twice is used, but no fragment that is included"):
        link(rest, "return lib.usual(1)\n")
    with pytest.raises(LinkError, match=r"lib\.nothing is used"):
        link(FRAGMENTS, "return lib.nothing\n")


def test_a_fragment_defines_nothing_outside_of_the_table() -> None:
    with pytest.raises(LinkError, match="fragment 'own' has 'local LIMIT = 1'; define it in `lib`"):
        link({"own": "local LIMIT = 1\n"}, "return 1\n")


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        ("return lib.usual(1)", 9),
        ("return lib.rare(2)", 120),
        ("return {lib.rare(2), lib.rare(3), lib.usual(1), lib.helper(1)}", [120, 130, 9, 10]),
        ("return lib.known.first", 1),
        ("return {lib['nothing'] == nil and 1 or 2, lib.rare(1)}", [1, 110]),
    ],
)
def test_a_linked_script_runs(ps: penstock.Penstock, body: str, reply: object) -> None:
    assert ps.store.call("key", "EVAL", link(FRAGMENTS, body + "\n"), "1", "key") == reply
