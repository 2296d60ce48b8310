"""Attempts at jobs, as the job keeps those that failed and as the history keeps all."""

from __future__ import annotations

import json

from penstock.codec.forms import ATTEMPT, ENDED
from penstock.codec.ids import id_text
from penstock.codec.layouts import check_layout
from penstock.model.jobs import STATES_BY_CODE, Attempt, EndedAttempt, JobError

FOLLOWING_STATES = {**STATES_BY_CODE, "-": "removed"}
"""Code in an entry of the history -> the state that followed."""


def open_attempt(packed: bytes) -> Attempt:
    found = ATTEMPT.open(packed)
    return Attempt(
        found["attempt"],
        found["outcome"].decode(),
        found["worker"].decode(),
        found["started"] / 1000,
        found["ended"] / 1000,
        open_error(found["error"]),
    )


def open_ended_attempt(place: str, packed: bytes) -> EndedAttempt:
    """An entry of the history. The oldest lack priority, creation, state and type of error."""
    check_layout(packed, oldest=1)  # an entry has only ever had more fields at its end
    found = ENDED.open(packed)
    is_whole = "priority" in found
    return EndedAttempt(
        place=place,
        job=id_text(int(found["id"])),
        type=found["type"].decode(),
        tenant=found["tenant"].decode(),
        attempt=found["attempt"],
        outcome=found["outcome"].decode(),
        waited_ms=found["waited_ms"],
        ran_us=int(found["ran_us"]),
        cpu_us=int(found["cpu_us"]),
        worker=found["worker"].decode(),
        bytes=found["bytes"],
        ended_at=found["ended"] / 1000,
        priority=found.get("priority"),
        created_at=found["created"] / 1000 if is_whole else None,
        state=FOLLOWING_STATES[found["state"]] if is_whole else None,
        error_type=found["error_type"].decode() if is_whole else None,
    )


def pack_error(error: JobError) -> bytes:
    """The type comes first and, unlike the rest, without escapes for letters, as the scripts put
    it into the history as it stands here.
    """
    kind = json.dumps(error.type, ensure_ascii=False).encode(errors="replace")
    rest = json.dumps([error.message, error.traceback]).encode()
    return b"[%b, %b" % (kind, rest[1:])


def open_error(payload: bytes) -> JobError | None:
    """None if there is no error, as when a worker has died."""
    if not payload:
        return None
    kind, message, traceback = json.loads(payload)
    return JobError(kind, message, traceback)
