"""One reply of every kind that a script on logs can give, as its header lists them."""

from __future__ import annotations

from typing import Any

QUEUE_WORDS: dict[str, list[Any]] = {
    "no_queue": [b"no_queue"],
    "queue_exists": [b"queue_exists"],
    "tasks": [b"tasks", b"jobs"],
}
NO_PARTITION: dict[str, list[Any]] = {"no_partition": [b"no_partition"]}
TOO_MANY: dict[str, list[Any]] = {"too_many": [b"too_many", 100]}
STALE: dict[str, list[Any]] = {"stale": [b"stale", 7]}
LOST: dict[str, list[Any]] = {"lost": [b"lost"]}
OK: dict[str, list[Any]] = {"ok": [b"ok"]}
ABSENT: dict[str, list[Any]] = {"absent": [b"absent"], "tasks": [b"tasks", b""]}
FACTS: list[Any] = [b"ok", b"5", b"2", b"1", [b"keep_ms", b"5"]]

REPLIES: dict[str, dict[str, list[Any]]] = {
    "put_log": {"ok": FACTS} | QUEUE_WORDS,
    "describe_log": {"ok": [*FACTS, [b"sessions", b"5"]]} | ABSENT,
    "open_partition": OK | {"other_log": [b"other_log", b"6"]},
    "append_messages": {"ok": [b"ok", b"5-0", 2]} | NO_PARTITION,
    "describe_partition": {
        "ok": [b"ok", b"5", [b"born", b"5"], 1, b"5-0", b"5-0", [b"sessions", b"7 5-0 5 w1"]]
    },
    "describe_range": {"ok": [b"ok", b"5", b"5", b"1-0", b"5-0", b"2-0", 3, b"3-0", b"5-0"]},
    "trim_partition": {"ok": [b"ok", 2, 70, 0]},
    "delete_log": {"ok": [b"ok", b"5", b"2", b"i1", b"sessions"]} | ABSENT,
    "delete_partition": {"ok": [b"ok", 2], "other_log": [b"other_log", b"6"]},
    "prepare_stages": NO_PARTITION | {"ok": [b"ok", b"5"], "stage_lost": [b"stage_lost", 0]},
    "decide_append": OK
    | {
        "known": [b"known", 1, b"t1"],
        "unfinished": [b"unfinished", b"t1"],
        "too_late": [b"too_late"],
        "no_log": [b"no_log"],
    },
    "move_messages": NO_PARTITION | {"ok": [b"ok", 2, 1], "empty": [b"empty"]},
    "drop_prepared": {"ok": [b"ok", 1]},
    "note_group": OK | ABSENT | TOO_MANY,
    "take_partition": {"ok": [b"ok", b"7", b"5-0", b"6", 1, b"SIGKILL"]}
    | STALE
    | TOO_MANY
    | NO_PARTITION,
    "commit_offset": OK | STALE | {"back": [b"back", b"6-0"]},
    "seek_group": {"ok": [b"ok", b"7"]} | TOO_MANY | NO_PARTITION,
    "mark_partition": OK | TOO_MANY | NO_PARTITION | {"group": [b"group", 7]},
    "forget_group": {"ok": [b"ok", 1]},
    "note_error": {"ok": [b"ok", b"5-0"]} | STALE,
    "replay_errors": {"ok": [b"ok", 1]} | NO_PARTITION,
    "keep_member": LOST
    | TOO_MANY
    | {"ok": [b"ok", [b"w1", b"1", b"2", b"w2", b"1", b"2"], [b"0", b"w1"], 500]},
    "own_partition": OK | LOST | {"owned": [b"owned", b"w2"]},
    "disown_partitions": OK,
    **dict.fromkeys(
        ("check_reading", "try_message"),
        LOST | {"ok": [b"ok"], "paused": [b"paused"], "trimmed": [b"trimmed", b"4-0"]},
    ),
    "note_death": {"ok": [b"ok", 1]},
    "pause_reading": OK | NO_PARTITION,
    "count_lag": {"ok": [b"ok", b"5", b"sessions", 2, b"4-0", b"archive", 0, b""]},
}
