"""One reply of every kind that a script on tasks, queues, workers and batches can give, as its
header lists them.
"""

from __future__ import annotations

from typing import Any

REPLIES: dict[str, dict[str, list[Any]]] = {
    "start_tasks": {
        "ok": [b"ok", b"7", b"task"],
        "empty": [b"empty"],
        "paused": [b"paused"],
        "not_working": [b"not_working"],
        "apart": [b"apart"],
        "too_many": [b"too_many"],
    },
    "finish_tasks": {
        "ok": [[b"7"], b"ok", b"8", b"task"],
        "empty": [[], b"empty"],
        "idle": [[], b"idle"],
        "paused": [[], b"paused"],
        "not_working": [[], b"not_working"],
        "apart": [[], b"apart"],
        "too_many": [[], b"too_many"],
    },
    "stop_tasks": {"ok": [b"ok", b"7"]},
    "fail_tasks": {"ok": [b"ok", 1, b"7"]},
    "find_processes": {"ok": [b"ok", b"7"]},
    "enqueue_tasks": {
        "ok": [b"ok", 1],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "full": [b"full", 3, 3],
        "jobs": [b"jobs"],
    },
    "enqueue_unique_task": {
        "ok": [b"ok", 1],
        "exists": [b"exists", b"task"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "full": [b"full", 3, 3],
        "jobs": [b"jobs"],
    },
    "cancel_tasks": {"ok": [b"ok", 1]},
    "retry_dead_tasks": {"ok": [b"ok", 1, 0]},
    "page_tasks": {"ok": [b"ok", 1, b"task"]},
    "join_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "leave_queue": {"ok": [b"ok", 1, 0], "jobs": [b"jobs"]},
    "pass_work": {"ok": [b"ok"]},
    "pause_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "resume_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "other_layout": [b"other_layout", 3],
    },
    "configure_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "delete_queue": {"ok": [b"ok", 1, 0, b"i1"], "no_queue": [b"no_queue"], "jobs": [b"jobs"]},
    "inspect_queue": {
        "ok": [b"ok", [b"incarnation", b"i1"], 1, 0, 0, 0, 0, 1, 0],
        "changed": [b"changed", b"w1"],
        "no_queue": [b"no_queue"],
    },
    "register_queue": {"ok": [b"ok"]},
    "unregister_queue": {"ok": [b"ok"]},
    "list_queues": {"ok": [b"ok", b"0", b"mail"]},
    "start_worker": {"ok": [b"ok"], "exists": [b"exists"]},
    "keep_worker_alive": {
        "ok": [b"ok", b"w2"],
        "paused": [b"paused", b"w2"],
        "lease_lost": [b"lease_lost"],
    },
    "pause_worker": {"ok": [b"ok"]},
    "list_paused_workers": {"ok": [b"ok", b"w1"]},
    "start_work": {"ok": [b"ok"], "lease_lost": [b"lease_lost"]},
    "stop_work": {"ok": [b"ok"]},
    "fail_worker": {"ok": [b"ok", b"mail"], "absent": [b"absent"]},
    "forget_worker": {"ok": [b"ok"], "alive": [b"alive"]},
    "list_workers": {"ok": [b"ok", 1, 0, b"9", b"w1", b"5", b"{}"]},
    "list_work": {"ok": [b"ok", b"mail"]},
    "describe_key": {"ok": [b"ok", b"list", -1]},
    "read_queue": {
        "ok": [b"ok", [], [], [], [], [], [], [], [], [], []],
        "counted": [b"counted", [], 0, 0, [], [], 0, 0, 0, 0, 0],
    },
    "stage_chunk": {"ok": [b"ok", 9], "too_much": [b"too_much", 9], "decided": [b"decided"]},
    "decide_batch": {
        "ok": [b"ok"],
        "known": [b"known"],
        "stage_lost": [b"stage_lost", 0],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "jobs": [b"jobs"],
        "tasks": [b"tasks"],
        "too_large": [b"too_large", 9, 3],
        "other_layout": [b"other_layout", 3],
    },
    "drop_stages": {"ok": [b"ok", 1]},
    "move_tasks": {"ok": [b"ok", 2, 1], "no_room": [b"no_room", 3, 3, 1], "empty": [b"empty"]},
    "mend_unique_key": {"ok": [b"ok", 1], "changed": [b"changed", b"w1"]},
    "forget_failures": {"ok": [b"ok", 1]},
}
"""Script -> first word -> a reply."""
