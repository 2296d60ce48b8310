"""What is said on channels about jobs: events for all who watch a queue, notices of endings for
programs that wait for results.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.codec.forms import EVENT, NOTICE
from penstock.codec.ids import id_text
from penstock.model.jobs import JobEvent


def open_event(queue: str, message: bytes) -> JobEvent:
    found = EVENT.open(message)
    return JobEvent(
        found["kind"].decode(),
        queue,
        id_text(int(found["id"])),
        found["type"].decode(),
        found["happened"] / 1000,
        found["attempt"],
        found["worker"].decode(),
        found["detail"],
    )


_DONE = NOTICE.pack(id=b"", state="d", has_outcome="y", reason=b"")[1:]
"""What follows the id in a notice that a job is done."""


class Notice(NamedTuple):
    """What is said when a job ends."""

    number: int
    """the id of the job"""
    state: str
    """code of the state; '-': the job was removed"""
    reason: str
    outcome: bytes | None
    """None if it is too large to be said and must be read"""


def done_notice(number: int) -> bytes:
    """How a notice begins that a job is done; what follows is its outcome. A program that waits for
    one job need not open the notice to see that it is the one.
    """
    text = b"%d" % number
    return b"%c%b%b" % (len(text), text, _DONE)


def open_notice(message: bytes) -> Notice:
    found = NOTICE.open(message)
    outcome = found["outcome"] if found["has_outcome"] == "y" else None
    return Notice(int(found["id"]), found["state"], found["reason"].decode(), outcome)
