"""One reply of every kind that a script on jobs can give, as its header lists them."""

from __future__ import annotations

from typing import Any

QUEUE_WORDS: dict[str, list[Any]] = {
    "other_layout": [b"other_layout", 9],
    "tasks": [b"tasks", b""],
    "no_queue": [b"no_queue"],
    "queue_exists": [b"queue_exists"],
}
ROOM_WORDS: dict[str, list[Any]] = {
    "taken": [b"taken", b"7"],
    "conflict": [b"conflict", b"7"],
    "full": [b"full", 3, 3, 0, -1, 1, 5],
    "no_number": [b"no_number", b"turn"],
}
CLAIM_WORDS = ("empty", "again", "apart", "limited", "paused", "not_working", "too_many")
CLAIMS: dict[str, list[Any]] = {
    "ok": [b"ok", -1, [], [], b"7"],
    **{word: [word.encode(), -1, [b"nightly"], [b"8"]] for word in CLAIM_WORDS},
}


def replies(*words: str, **own: list[Any]) -> dict[str, list[Any]]:
    known = QUEUE_WORDS | ROOM_WORDS | {"ok": [b"ok"], "absent": [b"absent"]}
    return {word: known[word] for word in words} | own


REPLIES: dict[str, dict[str, list[Any]]] = {
    "send_jobs": replies(*QUEUE_WORDS, *ROOM_WORDS, ok=[b"ok", 0, b"7", 0]),
    "move_jobs": replies(
        *("other_layout", "tasks", "no_number"),
        ok=[b"ok", 2, 1, 0],
        taken=[b"taken"],
        no_room=[b"no_room", 3],
        empty=[b"empty"],
    ),
    "join_jobs": replies("ok", *QUEUE_WORDS),
    "start_jobs": replies("other_layout", "tasks", **CLAIMS),
    "report_jobs": {
        word: [[b"8"], *reply]
        for word, reply in replies(
            "other_layout", "tasks", **CLAIMS, idle=[b"idle", -1, [], []]
        ).items()
    },
    "leave_jobs": replies("other_layout", "tasks", ok=[b"ok", 1, 0]),
    "note_job": replies("ok", "other_layout", lease_lost=[b"lease_lost"]),
    "find_cancelled": replies("other_layout", ok=[b"ok", b"7"]),
    "find_handed": replies("other_layout", ok=[b"ok"]),
    "pass_jobs": replies("other_layout", ok=[b"ok", -1, [b"nightly"]]),
    "cancel_jobs": replies("other_layout", ok=[b"ok", b"cancelled", b"u"]),
    "retry_jobs": replies("other_layout", ok=[b"ok", b"retried", b"taken"]),
    "remove_jobs": replies("other_layout", ok=[b"ok", b"removed", b"absent"]),
    "change_job": replies("absent", "other_layout", ok=[b"ok", b"r"], state=[b"state", b"d"]),
    "read_jobs": replies("other_layout", ok=[b"ok", b"", b"", b"", b"", b"", b""]),
    "read_job_lists": replies("other_layout", ok=[b"ok", 1, b"5 line"]),
    "page_jobs": replies("other_layout", ok=[b"ok", 1, b"0", b"7"]),
    "count_jobs": replies("other_layout", ok=[b"ok", 1, 1]),
    "tally_jobs": replies("other_layout", ok=[b"ok", b"0", b"rT:email", b"1"]),
    "list_running": replies("other_layout", ok=[b"ok", b"7", b"8"]),
    "explain_job": replies("absent", "other_layout"),
    "read_history": replies("ok", "other_layout"),
    "describe_history": replies(
        "other_layout", "tasks", ok=[b"ok", b"5", b"i1", 1, 1, b"1-0", b"1-0", 0, b"1-0", b"9", []]
    ),
    "step_history": replies("other_layout", ok=[b"ok", 1, b"1-0"]),
    "mark_history": replies(
        "absent", "other_layout", "tasks", ok=[b"ok", 1], too_many=[b"too_many", 100]
    ),
    "purge_jobs": replies("other_layout", ok=[b"ok", 1, 0]),
    "delete_jobs": replies("no_queue", "other_layout", ok=[b"ok", 1, 0, 0, b"i1"]),
    "pause_type": replies("ok", *QUEUE_WORDS),
    "set_limit": replies("ok", *QUEUE_WORDS, more=[b"more"]),
    "set_share": replies("ok", *QUEUE_WORDS),
    "read_rules": replies("other_layout", ok=[b"ok", [], [], [], []]),
    "put_schedule": replies(
        *QUEUE_WORDS, ok=[b"ok", 1], late=[b"late"], too_many=[b"too_many", 1000]
    ),
    "remove_schedule": replies("ok", "absent", "other_layout"),
    "list_schedules": replies("other_layout", ok=[b"ok", b"5", b"nightly", b"{}", b""]),
    "fire_schedule": replies(
        "other_layout", "taken", "full", "no_number", ok=[b"ok"], late=[b"late"]
    ),
    "read_totals": replies("other_layout", ok=[b"ok", b"5", [], [], [], [0] * 5, [b"0"] * 7]),
    "scan_jobs": replies("other_layout", ok=[b"ok", b"0"]),
    **{
        f"mend_{what}": replies("other_layout", ok=[b"ok", 1])
        for what in ("count", "job", "line", "page", "trace")
    },
}
"""Script -> first word -> a reply."""
