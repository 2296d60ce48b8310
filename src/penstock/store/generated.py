"""Fragments that are written from the Python side, so that a fact stands in one place.

`model` has what the model says of jobs; `forms` has functions to open and to pack each form of
`codec/forms.py`, as fast as those that would be written by hand: one format, one table.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from penstock.codec.forms import FORMS, HEAD_FLAGS, MARKS, PARTS, Field, Form, Part, Same
from penstock.codec.ids import SENDER_DIGITS
from penstock.model.job_snapshot import PAGE
from penstock.model.jobs import (
    LAYOUT,
    MAX_CRASHES,
    MAX_LAPSES,
    MOVES,
    STATE_CODES,
    SUSPECT_FROM,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@cache
def model_fragment() -> str:
    """The layout, the code of each state, and the allowed moves, for scripts that ask before they
    move.
    """
    constants = {
        **{"layout": LAYOUT, "page": PAGE, "sender_digits": SENDER_DIGITS},
        **{"max_crashes": MAX_CRASHES, "max_lapses": MAX_LAPSES, "suspect_from": SUSPECT_FROM},
    }
    pairs = (
        f"{STATE_CODES[old]}{STATE_CODES[new]} = true"
        for old, allowed in MOVES.items()
        for new in allowed
    )
    return (
        _constants(constants | STATE_CODES)
        + f"lib.MOVES = {{{', '.join(pairs)}}}\n"
        + f"lib.IS_STATE = {{{', '.join(f'{code} = true' for code in STATE_CODES.values())}}}\n"
        + "function lib.may_move(old, new) return lib.MOVES[old .. new] ~= nil end\n"
    )


@cache
def forms_fragment(forms: Sequence[Form] = FORMS, parts: Sequence[Part] = PARTS) -> str:
    """For each form `lib.open_<form>` and `lib.pack_<form>`, and `lib.new_<form>` if scripts keep
    it as a table. What opens a form whose values are passed one by one returns where its rest
    begins, then the values.
    """
    texts = [_constants(HEAD_FLAGS | MARKS)]
    for form in forms:
        texts += [_opener(form), _packer(form)]
        if form.is_table:
            texts.append(_maker(form))
    return "".join([*texts, _parts(parts)])


GENERATED = {"model": model_fragment, "forms": forms_fragment}
"""Name of a fragment -> what writes it."""


def _constants(values: dict[str, int] | dict[str, str] | dict[str, int | str]) -> str:
    return "".join(f"lib.{name.upper()} = {_literal(value)}\n" for name, value in values.items())


def _opener(form: Form) -> str:
    is_of_jobs = any(field.is_head for field in form.fields)
    unused = "" if is_of_jobs else "layout"
    names = ", ".join("_" if field.name == unused else field.name for field in form.fields)
    values = {field.name: field.name for field in _given(form)}
    values |= {field.name: f"lib.head_of({field.name})" for field in form.fields if field.is_head}
    if form.is_table:
        result = _table(values | {form.rest: "string.sub(text, at)"})
    else:
        result = ", ".join(["at", *values.values()])
    return (
        f"function lib.open_{form.name}(text)\n"
        f"  local {names}, at = struct.unpack('{_format(form.fields)}', text)\n"
        f"{_checks(form) if is_of_jobs else ''}"
        f"  return {result}\n"
        "end\n"
    )


def _checks(form: Form) -> str:
    """What was stored for a job may not be what a script has written. struct sees that it is too
    short; what is long enough has neither our layout nor a state that there is.
    """
    names = [field.name for field in form.fields]
    wrong = "layout ~= lib.LAYOUT"
    wrong += " or not lib.IS_STATE[state]" if "state" in names else ""
    return f"  if {wrong} then error('no {form.name}', 0) end\n"


def _packer(form: Form) -> str:
    holder = f"{form.name}." if form.is_table else ""
    values = []
    for field in form.fields:
        value = f"{holder}{field.name}" if field.name != "layout" else "lib.LAYOUT"
        value += ".text" if field.is_head else ""
        values += [f"#{value}", value] if field.is_text else [value]
    arguments = [form.name] if form.is_table else [field.name for field in _given(form)]
    arguments += [form.rest] if form.rest and not form.is_table else []
    rest = f" .. {holder}{form.rest}" if form.rest else ""
    return (
        f"function lib.pack_{form.name}({', '.join(arguments)})\n"
        f"  return struct.pack('{_format(form.fields)}', {', '.join(values)}){rest}\n"
        "end\n"
    )


def _maker(form: Form) -> str:
    values = {field.name: _usual(field) for field in _given(form)} | {form.rest: "''"}
    arguments = [field.name for field in _given(form) if field.usual is None]
    return f"function lib.new_{form.name}({', '.join(arguments)})\n  return {_table(values)}\nend\n"


def _parts(parts: Sequence[Part]) -> str:
    """A head that has no parts, and a function that opens those of one that has."""
    values = {name: name for name in ("text", "flags", "type", "parts_at")}
    values |= {part.name: _literal(part.usual) for part in parts}
    steps = (
        f"  if flags % {2 * part.flag} >= {part.flag} then "
        f"head.{part.name}, at = struct.unpack('{_format([part.field])}', text, at) end\n"
        for part in parts
    )
    formats = {part.name: _literal(_format([part.field])) for part in parts}
    return (
        _constants({"first_part": parts[0].flag})
        + f"lib.PART_FORMATS = {_table(formats)}\n"
        + f"function lib.new_head(text, flags, type, parts_at)\n  return {_table(values)}\nend\n"
        + "-- seldom\nfunction lib.open_parts(head)\n"
        + "  local flags, text, at = head.flags, head.text, head.parts_at\n"
        + f"{''.join(steps)}end\n"
    )


def _given(form: Form) -> list[Field]:
    """All fields but the layout, which is the same in all that this version writes."""
    return [field for field in form.fields if field.name != "layout"]


def _format(fields: Iterable[Field]) -> str:
    return ">" + "".join(field.format for field in fields)


def _usual(field: Field) -> str:
    if field.usual is None:
        return field.name
    return field.usual.name if isinstance(field.usual, Same) else _literal(field.usual)


def _literal(value: int | str) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _table(values: dict[str, str]) -> str:
    """A table that is made with all its fields is not copied while it grows."""
    return f"{{{', '.join(f'{name} = {value}' for name, value in values.items())}}}"
