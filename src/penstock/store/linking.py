"""Puts a script together from its own text and the fragments that it includes.

A server sets up everything that a script defines with each call of it, used or not, and that can
cost more than what the call then does. So a script is given

- only the definitions that it uses;
- numbers and words in place of the names of constants;
- one table of functions, made in one go, as a table that grows is copied again and again;
- this table, and whatever else is not used before, only after what it does without: what may be
  all, up to where the script says so;
- and what is marked as `-- seldom` in its fragment, with all that only such definitions use, within
  one function that is called when the first of them is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SELDOM = "-- seldom\n"
_FROM_HERE = "-- Shared functions from here.\n"
_BEGINS = re.compile(r"(?:local |function |jobs\.)")
_DEFINED = re.compile(r"(?:local function |function |local )?([\w.]+(?:, [\w.]+)*)")
_LITERALS = re.compile(
    r"(jobs\.[A-Z_]+(?:, jobs\.[A-Z_]+)*) = ((?:[\d.e]+|'[^']*')(?:, (?:[\d.e]+|'[^']*'))*)$"
)
_CONSTANT = re.compile(r"\bjobs\.[A-Z_]+\b")
_COMMENT = re.compile(r" *--[^\n]*")
_WORD = re.compile(r"\w+")


class _Definition(NamedTuple):
    """A function or value of a fragment."""

    names: list[str]
    text: str
    words: set[str]
    is_seldom: bool

    @property
    def is_shared(self) -> bool:
        """Whether it belongs to the table of functions."""
        return not self.text.startswith("local ")


def link(fragments: str, body: str) -> str:
    """The definitions that `body` needs, and `body`."""
    constants, definitions = _definitions(fragments)
    body = _inlined(body, constants)
    places = {name: place for place, one in enumerate(definitions) for name in one.names}
    usual = _reached(definitions, places, body, stops_at_seldom=True)
    needed = _reached(definitions, places, body, stops_at_seldom=False)
    first, _, rest = body.rpartition(_FROM_HERE)
    at_once = _reached(definitions, places, first or rest, stops_at_seldom=False)
    local = [place for place in sorted(needed) if not definitions[place].is_shared]
    shared = [definitions[place] for place in sorted(usual) if definitions[place].is_shared]
    seldom = [
        definitions[place] for place in sorted(needed - usual) if definitions[place].is_shared
    ]
    linked = "".join(definitions[place].text for place in local if place in at_once) + first
    linked += "".join(definitions[place].text for place in local if place not in at_once)
    if shared or seldom:
        linked += _table(shared) + _deferred(seldom)
    return linked + rest


def _reached(
    definitions: list[_Definition], places: dict[str, int], body: str, *, stops_at_seldom: bool
) -> set[int]:
    reached: set[int] = set()
    pending = _words(body)
    while pending:
        found = {places[word] for word in pending if word in places} - reached
        if stops_at_seldom:
            found = {place for place in found if not definitions[place].is_seldom}
        reached |= found
        pending = {word for place in found for word in definitions[place].words}
    return reached


def _table(shared: list[_Definition]) -> str:
    """As one constructor, which makes the table as large as it has to be."""
    functions = (re.sub(r"^function jobs\.(\w+)", r"\1 = function", one.text) for one in shared)
    entries = (text.removeprefix("jobs.").removesuffix("\n") + ",\n" for text in functions)
    # In two steps, as the functions refer to the table.
    return f"local jobs\njobs = {{\n{''.join(entries)}}}\n"


def _deferred(seldom: list[_Definition]) -> str:
    if not seldom:
        return ""
    return (
        "setmetatable(jobs, {__index = function(_, name)\n"
        "setmetatable(jobs, nil)\n"
        f"{''.join(one.text for one in seldom)}"
        "return jobs[name]\n"
        "end})\n"
    )


def _definitions(fragments: str) -> tuple[dict[str, str], list[_Definition]]:
    """A definition begins at the margin; whatever is not a definition belongs to the one before."""
    texts: list[list[str]] = []
    seldom: set[int] = set()
    for line in fragments.splitlines(keepends=True):
        if line == _SELDOM:
            seldom.add(len(texts))
        elif _BEGINS.match(line):
            texts.append([line])
        elif texts and line.strip() and not line.startswith("--"):
            texts[-1].append(line)
    constants: dict[str, str] = {}
    rest: list[tuple[str, bool]] = []
    for place, lines in enumerate(texts):
        text = "".join(lines)
        literals = _LITERALS.match(_COMMENT.sub("", text))
        if literals is None:
            rest.append((text, place in seldom))
        else:
            names, values = literals[1].split(", "), literals[2].split(", ")
            constants.update(zip(names, values, strict=True))
    return constants, [
        _definition(_inlined(text, constants), is_seldom) for text, is_seldom in rest
    ]


def _inlined(text: str, constants: dict[str, str]) -> str:
    return _CONSTANT.sub(lambda found: constants.get(found[0], found[0]), text)


def _definition(text: str, is_seldom: bool) -> _Definition:
    defined = _DEFINED.match(text)
    assert defined is not None, text
    names = [name.removeprefix("jobs.") for name in defined[1].split(", ")]
    return _Definition(names, text, _words(text), is_seldom)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub("", text)))
