"""Puts a script together from its own text and the fragments that it includes.

A server sets up everything that a script defines with each call of it, used or not, so what is not
used is left out. That halves what the smaller scripts cost.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BEGINS = re.compile(r"(?:local |function |jobs\.)")
_DEFINED = re.compile(r"(?:local function |function |local )?([\w.]+(?:, [\w.]+)*)")
_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"\w+")


class _Definition(NamedTuple):
    """A function or constant of a fragment."""

    names: list[str]
    text: str
    words: set[str]


def link(fragments: str, body: str) -> str:
    """The definitions that `body` needs, in their order, and `body`."""
    definitions = _definitions(fragments)
    places = {name: place for place, one in enumerate(definitions) for name in one.names}
    needed: set[int] = set()
    pending = _words(body)
    while pending:
        found = {places[word] for word in pending if word in places} - needed
        needed |= found
        pending = {word for place in found for word in definitions[place].words}
    return "".join(definitions[place].text for place in sorted(needed)) + body


def _definitions(fragments: str) -> list[_Definition]:
    """A definition begins at the margin; whatever is not a definition belongs to the one before."""
    texts: list[list[str]] = []
    for line in fragments.splitlines(keepends=True):
        if _BEGINS.match(line):
            texts.append([line])
        elif texts and line.strip() and not line.startswith("--"):
            texts[-1].append(line)
    return [_definition("".join(lines)) for lines in texts]


def _definition(text: str) -> _Definition:
    defined = _DEFINED.match(text)
    assert defined is not None, text
    names = [name.removeprefix("jobs.") for name in defined[1].split(", ")]
    return _Definition(names, text, _words(text))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub("", text)))
