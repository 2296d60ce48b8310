"""Forms: what the scripts pack, Python opens, and the other way round, from one table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.codec.forms import (
    ENDED,
    FACTS,
    FORMS,
    HEAD,
    HEAD_FLAGS,
    PARTS,
    RECORD,
    SIZES,
    Field,
    Form,
    Part,
    Same,
)
from penstock.model.jobs import LAYOUT
from penstock.store.generated import forms_fragment, model_fragment
from penstock.store.linking import link

if TYPE_CHECKING:
    import penstock

HEADS = "function lib.head_of(text) return {text = text} end\n"
"""What `fragments/jobs/records.lua` does with a head, as far as a form needs it."""
VALUES = {"B": 7, "H": 500, "I4": 2**31, "I6": 2**41, "I7": 2**50, "i4": -10, "c1": "r"}
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def run(ps: penstock.Penstock, form: Form, body: str, *arguments: bytes) -> Any:
    """What a script answers that includes this form."""
    parts = (*PARTS, Part(131072, "colour", "Bc0", "grey"))
    fragments = {"model": model_fragment(), "forms": forms_fragment((form,), parts), "h": HEADS}
    return ps.store.call("key", "EVAL", link(fragments, body), "1", "key", *arguments)


def sample(form: Form) -> dict[str, Any]:
    """Some value for each field."""
    texts = {field.name: field.name.encode() for field in form.fields if field.is_text}
    numbers = {field.name: VALUES[field.format] for field in form.fields if not field.is_text}
    return texts | numbers | {"layout": LAYOUT} | ({form.rest: b"rest"} if form.rest else {})


@each_form
def test_python_opens_what_it_packs(form: Form) -> None:
    values = sample(form)
    if "layout" not in [field.name for field in form.fields]:
        del values["layout"]

    assert form.open(form.pack(**values)) == values


@each_form
def test_a_script_packs_what_it_opens(ps: penstock.Penstock, form: Form) -> None:
    packed = form.pack(**sample(form))
    names = ", ".join(field.name for field in form.fields if field.name != "layout")
    rest = ", string.sub(ARGV[1], at)" if form.rest else ""
    body = (
        f"return lib.pack_{form.name}(lib.open_{form.name}(ARGV[1]))\n"
        if form.is_table
        else f"local at, {names} = lib.open_{form.name}(ARGV[1])\n"
        f"return lib.pack_{form.name}({names}{rest})\n"
    )

    assert run(ps, form, body, packed) == packed


def test_a_new_field_of_the_facts_is_one_line(ps: penstock.Penstock) -> None:
    weight = Field("weight", "H", 300)
    facts = replace(FACTS, fields=(*FACTS.fields[:3], weight, *FACTS.fields[3:]))
    body = """
    local new = lib.new_facts(1, 2, 3, {text = 'head'})
    local opened = lib.open_facts(lib.pack_facts(new))
    opened.weight = opened.weight + 1
    return {lib.pack_facts(new), lib.pack_facts(opened)}
    """

    new, changed = (facts.open(packed) for packed in run(ps, facts, body))

    assert (new["weight"], changed["weight"]) == (300, 301)
    assert new | {"weight": 0} == changed | {"weight": 0}
    assert (new["turn"], new["since"], new["bytes"], new["head"]) == (2, 1, 3, b"head")


def test_a_new_field_of_the_record_is_one_line(ps: penstock.Penstock) -> None:
    sender = Field("sender", "Bc0")
    record = replace(RECORD, fields=(*RECORD.fields, sender))
    body = "return lib.pack_record(1, 2, {text = 'head'}, 'web-1', 'data')\n"

    packed = run(ps, record, body)

    assert record.open(packed) == {
        "layout": LAYOUT, "created": 1, "number": 2, "head": b"head", "sender": b"web-1",
        "data": b"data",
    }  # fmt: skip
    opened = "local at, _, _, _, sender = lib.open_record(ARGV[1])\nreturn {at, sender}\n"
    assert run(ps, record, opened, packed) == [len(packed) - len(b"data") + 1, b"web-1"]


def test_a_new_part_of_the_head_is_one_line(ps: penstock.Penstock) -> None:
    body = """
    local at, flags, type = lib.open_head(ARGV[1])
    local head = lib.new_head(ARGV[1], flags, type, at)
    lib.open_parts(head)
    return {head.priority, head.colour}
    """
    plain = HEAD.pack(flags=0, type=b"email", parts=b"")
    coloured = HEAD.pack(flags=64 + 131072, type=b"email", parts=b"\xff\xff\xff\xf6\x03red")

    assert run(ps, HEAD, body, plain) == [0, b"grey"]
    assert run(ps, HEAD, body, coloured) == [-10, b"red"]


def test_an_entry_of_the_history_may_get_fields_at_its_end() -> None:
    longer = replace(ENDED, fields=(*ENDED.fields, Field("peak_bytes", "I6", is_late=True)))
    old = sample(ENDED)

    assert "peak_bytes" not in longer.open(ENDED.pack(**old))
    assert ENDED.open(longer.pack(**old, peak_bytes=1)) == old


@each_form
def test_what_ends_too_soon_is_refused(form: Form) -> None:
    with pytest.raises(ValueError, match=f"0 bytes end before the {form.fields[0].name} of the"):
        form.open(b"")


@each_form
def test_a_form_names_each_field_once_and_its_formats_are_known(form: Form) -> None:
    names = [field.name for field in form.fields]
    copied = [field.usual.name for field in form.fields if isinstance(field.usual, Same)]

    assert len(set(names)) == len(names)
    assert set(copied) <= set(names)
    assert all(field.format in SIZES for field in form.fields)


def test_every_bit_of_a_head_has_one_meaning() -> None:
    parts = [part.flag for part in PARTS]
    bits = [*HEAD_FLAGS.values(), *parts]

    assert parts == sorted(parts)
    assert len(set(bits)) == len(bits)
    assert all(bit.bit_count() == 1 and bit < 2**32 for bit in bits)
