"""What can still be said of a job that could not be read."""

from __future__ import annotations

from penstock.codec.forms import DAMAGED, FACTS, RECORD
from penstock.codec.heads import open_head
from penstock.model.jobs import LAYOUT, STATES_BY_CODE


def describe_damaged(stored: bytes) -> str:
    """For people: what was kept of it, and how much of that makes sense."""
    try:
        found = DAMAGED.open(stored)
    except ValueError:
        return f"{len(stored)} bytes are kept of it, in which nothing can be read"
    return f"{_describe_record(found['record'])}; {_describe_facts(found['facts'])}"


def _describe_record(record: bytes) -> str:
    try:
        found = RECORD.open(record)
        head = open_head(found["head"])
    except (ValueError, IndexError):
        return f"its record of {len(record)} bytes cannot be read"
    if found["layout"] != LAYOUT or not head.type.isprintable():
        return f"its record of {len(record)} bytes cannot be read"
    return f"its record says type {head.type!r} with {len(found['data'])} bytes of data"


def _describe_facts(facts: bytes) -> str:
    if not facts:
        return "it has no facts"
    try:
        found = FACTS.open(facts)
    except ValueError:
        return f"its facts of {len(facts)} bytes cannot be read"
    state = STATES_BY_CODE.get(found["state"])
    if found["layout"] != LAYOUT or state is None:
        return f"its facts of {len(facts)} bytes cannot be read"
    return f"its facts say that it was {state}, with {found['failures']} failures"
