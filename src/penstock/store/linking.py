"""Puts a script together from its own text and the fragments that it includes.

What fragments define belongs to one table, `lib`, whatever kind of queue it is for. A server sets
up everything that a script defines with each call of it, used or not, and that can cost more than
what the call then does. So a script is given

- only the definitions that it uses;
- numbers and words in place of the names of constants;
- one table of functions, made in one go, as a table that grows is copied again and again;
- and what is marked as `-- seldom` in its fragment, with all that only such definitions use, within
  one function that is called when the first of them is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_SELDOM = "-- seldom\n"
_BEGINS = re.compile(r"(?:function )?lib\.")
_DEFINED = re.compile(r"(?:function )?(lib\.\w+(?:, lib\.\w+)*)")
_LITERALS = re.compile(
    r"(lib\.[A-Z_]+(?:, lib\.[A-Z_]+)*) = ((?:[\d.e]+|'[^']*')(?:, (?:[\d.e]+|'[^']*'))*)$"
)
_COMMENT = re.compile(r" *--[^\n]*")
_USED = re.compile(r"\blib\.(\w+)")


class LinkError(Exception):
    """A script and its fragments do not fit together: a mistake in the text of one of them."""


class _Definition(NamedTuple):
    """A function or value of a fragment."""

    names: list[str]
    text: str
    is_seldom: bool
    fragment: str

    @property
    def uses(self) -> set[str]:
        return _used(self.text) - set(self.names)


def link(fragments: Mapping[str, str], body: str) -> str:
    """The definitions that `body` needs of these fragments, and `body`.

    Raises LinkError if two fragments define one name, or none defines a name that is needed.
    """
    constants, definitions = _definitions(fragments)
    body = _inlined(body, constants)
    usual = _reached(definitions, body, stops_at_seldom=True)
    seldom = _reached(definitions, body, stops_at_seldom=False) - usual
    if not usual and not seldom:
        return body
    every = _by_place(definitions)
    return (
        _table([one for one in every if one.names[0] in usual])
        + _deferred([one for one in every if one.names[0] in seldom])
        + body
    )


def _reached(
    definitions: Mapping[str, _Definition], body: str, *, stops_at_seldom: bool
) -> set[str]:
    """The first names of the definitions that are used, by `body` or by each other."""
    reached: set[str] = set()
    pending = _used(body)
    while pending:
        for name in sorted(pending - definitions.keys()):
            raise LinkError(f"lib.{name} is used, but no fragment that is included defines it")
        found = {definitions[name].names[0] for name in pending} - reached
        if stops_at_seldom:
            found = {name for name in found if not definitions[name].is_seldom}
        reached |= found
        pending = {word for name in found for word in definitions[name].uses}
    return reached


def _by_place(definitions: Mapping[str, _Definition]) -> list[_Definition]:
    """Each once, in the order of the text."""
    return list({one.names[0]: one for one in definitions.values()}.values())


def _table(usual: list[_Definition]) -> str:
    """As one constructor, which makes the table as large as it has to be."""
    functions = (re.sub(r"^function lib\.(\w+)", r"\1 = function", one.text) for one in usual)
    entries = (text.removeprefix("lib.").removesuffix("\n") + ",\n" for text in functions)
    # In two steps, as the functions refer to the table.
    return f"local lib\nlib = {{\n{''.join(entries)}}}\n"


def _deferred(seldom: list[_Definition]) -> str:
    if not seldom:
        return ""
    return (
        "setmetatable(lib, {__index = function(_, name)\n"
        "setmetatable(lib, nil)\n"
        f"{''.join(one.text for one in seldom)}"
        "return lib[name]\n"
        "end})\n"
    )


def _definitions(
    fragments: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, _Definition]]:
    """The literal of each constant, and all other definitions by each of their names."""
    constants: dict[str, str] = {}
    definitions: dict[str, _Definition] = {}
    found: dict[str, _Definition] = {}
    for fragment, text in fragments.items():
        for one in _split(fragment, text):
            for name in one.names:
                if name in found:
                    raise LinkError(
                        f"lib.{name} is defined twice, in fragments {found[name].fragment!r} and "
                        f"{fragment!r}; give one of them another name"
                    )
                found[name] = one
            literals = _LITERALS.match(_COMMENT.sub("", one.text))
            if literals is None:
                definitions |= dict.fromkeys(one.names, one)
            else:
                constants.update(zip(one.names, literals[2].split(", "), strict=True))
    return constants, {
        name: one._replace(text=_inlined(one.text, constants)) for name, one in definitions.items()
    }


def _split(fragment: str, text: str) -> list[_Definition]:
    """A definition begins at the margin, and goes on to the next."""
    texts: list[list[str]] = []
    seldom: set[int] = set()
    for line in text.splitlines(keepends=True):
        if line == _SELDOM:
            seldom.add(len(texts))
        elif _BEGINS.match(line):
            texts.append([line])
        elif line.startswith("local "):
            raise LinkError(f"fragment {fragment!r} has {line.strip()!r}; define it in `lib`")
        elif texts and line.strip() and not line.startswith("--"):
            texts[-1].append(line)
    return [
        _definition(fragment, "".join(lines), place in seldom) for place, lines in enumerate(texts)
    ]


def _definition(fragment: str, text: str, is_seldom: bool) -> _Definition:
    defined = _DEFINED.match(text)
    assert defined is not None, text
    names = [name.removeprefix("lib.") for name in defined[1].split(", ")]
    return _Definition(names, text, is_seldom, fragment)


def _inlined(text: str, constants: Mapping[str, str]) -> str:
    return _USED.sub(lambda found: constants.get(found[1], found[0]), text)


def _used(text: str) -> set[str]:
    return set(_USED.findall(_COMMENT.sub("", text)))
