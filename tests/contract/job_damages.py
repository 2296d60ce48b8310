"""What can be wrong with a queue of jobs, how to make it so, and what `penstock fsck` calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.model.jobs import LAYOUT

if TYPE_CHECKING:
    from penstock.store.keys import QueueKeys


class Places:
    """Where to damage what: `at.due` is a key, `at.line("0:")` one of several, `at["later"]` the
    number of a job.
    """

    def __init__(self, keys: QueueKeys, ids: dict[str, int]) -> None:
        self._keys = keys
        self._ids = ids

    def __getattr__(self, kind: str) -> Any:
        return getattr(self._keys, kind)

    def __getitem__(self, name: str) -> int:
        return self._ids[name]


def _page(client: Any, at: Places, listing: str) -> str:
    """The only page of a listing."""
    [page] = client.zrange(at.pages(listing), 0, -1)
    return str(at.page(f"{page.decode()}:{listing}"))


Damage = Callable[[Any, Places], object]

DAMAGES: dict[str, tuple[Damage, tuple[str, str]]] = {
    "a job is lost": (
        lambda r, at: (r.hdel(at.jobs, at["done"]), r.hdel(at.facts, at["done"])),
        ("I1", "sent_jobs_add_up"),
    ),
    "a start is not counted": (
        lambda r, at: r.hincrby(at.meta, "started", -1),
        ("I1", "started_jobs_add_up"),
    ),
    "an end is not counted": (
        lambda r, at: r.hincrby(at.meta, "dead", -1),
        ("I1", "ended_jobs_add_up"),
    ),
    "a counter went below zero": (
        lambda r, at: r.hset(at.meta, "retried", -1),
        ("I3", "counter_is_negative"),
    ),
    "a ready job is in no line": (
        lambda r, at: r.lrem(at.line("0:"), 1, at["ready"]),
        ("I2", "job_in_no_line"),
    ),
    "a job put aside is gone": (
        lambda r, at: r.delete(at.parked("host"), at.unparks),
        ("I2", "job_in_no_line"),
    ),
    "a job is in its line twice": (
        lambda r, at: r.rpush(at.line("0:"), at["ready"]),
        ("I2", "job_in_two_lines"),
    ),
    "a job is in the line of others": (
        lambda r, at: (r.lrem(at.line("0:"), 1, at["ready"]), r.rpush(at.line("10:"), at["ready"])),
        ("I2", "job_in_wrong_line"),
    ),
    "a scheduled job is never due": (
        lambda r, at: r.zrem(at.due, at["later"]),
        ("I2", "job_in_no_place"),
    ),
    "a scheduled job is due at another time": (
        lambda r, at: r.zadd(at.due, {at["later"]: 5}),
        ("I2", "job_in_no_place"),
    ),
    "a finished job would be kept for ever": (
        lambda r, at: r.zrem(at.finished, at["done"]),
        ("I2", "job_in_no_place"),
    ),
    "a ready job is due": (
        lambda r, at: r.zadd(at.due, {at["ready"]: 5}),
        ("I2", "place_of_no_job"),
    ),
    "a job that is not there is buried": (
        lambda r, at: r.zadd(at.buried, {12345: 5}),
        ("I2", "place_of_no_job"),
    ),
    "a running job is held by nobody": (
        lambda r, at: r.delete(at.running("hand")),
        ("I2", "job_is_held_by_another"),
    ),
    "a ready job is held": (
        lambda r, at: r.hset(at.running("hand"), 1, at["ready"]),
        ("I2", "place_of_no_job"),
    ),
    "facts without a record": (
        lambda r, at: r.hdel(at.jobs, at["dead"]),
        ("I2", "facts_of_no_job"),
    ),
    "turns went back": (
        lambda r, at: r.hset(at.meta, "turn", 1),
        ("I2", "turn_from_the_future"),
    ),
    "the newest id is another": (
        lambda r, at: r.hset(at.meta, "newest", 1),
        ("I2", "newest_is_behind"),
    ),
    "the newest id is no number": (
        lambda r, at: r.hset(at.meta, "newest", "abc"),
        ("I3", "figure_is_no_number"),
    ),
    "the bytes that wait are no number": (
        lambda r, at: r.hset(at.meta, "waiting_bytes", b"\xff"),
        ("I3", "figure_is_no_number"),
    ),
    "the last turn is no number": (
        lambda r, at: r.hset(at.meta, "turn", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "the most that may wait is no number": (
        lambda r, at: r.hset(at.meta, "max_length", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "the layout is no number": (
        lambda r, at: r.hset(at.meta, "layout", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "the layout is newer": (
        lambda r, at: r.hset(at.meta, "layout", LAYOUT + 1),
        ("I13", "layout_is_newer"),
    ),
    "the layout is older": (
        lambda r, at: r.hset(at.meta, "layout", LAYOUT - 1),
        ("I13", "layout_is_older"),
    ),
    "a count is no number": (
        lambda r, at: r.hset(at.meta, "rA:", "abc"),
        ("I12", "count_is_wrong"),
    ),
    "what runs of a key is no number": (
        lambda r, at: r.hset(at.busy, "host", ""),
        ("I12", "count_is_wrong"),
    ),
    "a counter is no number": (
        lambda r, at: r.hset(at.meta, "sent", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "a line in no ring": (
        lambda r, at: r.zrem(at.ring("0"), "acme"),
        ("I2", "line_is_not_named"),
    ),
    "a ring without a line": (
        lambda r, at: r.zadd(at.ring("0"), {"nobody": 1}),
        ("I2", "line_is_not_there"),
    ),
    "a level that is not listed": (
        lambda r, at: r.zrem(at.levels, "-10"),
        ("I2", "ring_is_not_named"),
    ),
    "a level without a ring": (
        lambda r, at: r.zadd(at.levels, {"7": 7}),
        ("I2", "ring_is_not_there"),
    ),
    "unhandled jobs that nobody looks for": (
        lambda r, at: r.delete(at.unhandled_types),
        ("I2", "unhandled_is_not_named"),
    ),
    "unhandled jobs that are not there": (
        lambda r, at: r.sadd(at.unhandled_types, "nothing"),
        ("I2", "unhandled_is_not_there"),
    ),
    "parked jobs that nobody looks for": (
        lambda r, at: r.delete(at.unparks),
        ("I2", "parked_is_not_named"),
    ),
    "a key without parked jobs": (
        lambda r, at: r.zadd(at.unparks, {"nothing": 5}),
        ("I2", "parked_is_not_there"),
    ),
    "a job is not listed": (
        lambda r, at: r.srem(_page(r, at, "rA:"), at["ready"]),
        ("I12", "job_not_listed"),
    ),
    "a word does not find its job": (
        lambda r, at: r.delete(_page(r, at, "*W:seven")),
        ("I12", "job_not_listed"),
    ),
    "a job is listed by mistake": (
        lambda r, at: r.sadd(_page(r, at, "rA:"), at["done"]),
        ("I12", "listed_by_mistake"),
    ),
    "a job that is not there is listed": (
        lambda r, at: r.sadd(_page(r, at, "rA:"), 12345),
        ("I12", "listed_by_mistake"),
    ),
    "a page is empty": (
        lambda r, at: r.zadd(at.pages("rA:"), {"77": 77}),
        ("I12", "empty_page"),
    ),
    "a page is not in its directory": (
        lambda r, at: r.delete(at.pages("rA:")),
        ("I12", "page_not_listed"),
    ),
    "a count is wrong": (
        lambda r, at: r.hincrby(at.meta, "rT:email", 3),
        ("I12", "count_is_wrong"),
    ),
    "a count of nothing": (
        lambda r, at: r.hset(at.meta, "rG:blue", 0),
        ("I12", "count_is_wrong"),
    ),
    "a key is busy with nothing": (
        lambda r, at: r.hincrby(at.busy, "host", 1),
        ("I12", "count_is_wrong"),
    ),
    "more bytes wait than there are": (
        lambda r, at: r.hincrby(at.meta, "waiting_bytes", 100),
        ("I12", "count_is_wrong"),
    ),
    "fewer bytes are kept than there are": (
        lambda r, at: r.hincrby(at.meta, "kept_bytes", -1),
        ("I12", "count_is_wrong"),
    ),
    "a state counts more jobs than are in its place": (
        lambda r, at: r.hincrby(at.meta, "xA:", 1),
        ("I12", "states_add_up"),
    ),
    "a unique key of a job that is not there": (
        lambda r, at: r.hset(at.unique_jobs, "=gone", 12345),
        ("I6", "unique_key_of_no_job"),
    ),
    "a unique key of a type and of a job that is not there": (
        lambda r, at: r.hset(at.unique_jobs, ":email\0gone", 12345),
        ("I6", "unique_key_of_no_job"),
    ),
    "a window of no key of a type": (
        lambda r, at: r.zadd(at.windows, {":email\0gone": 5}),
        ("I6", "window_of_no_key"),
    ),
    "a unique key of a job that has ended": (
        lambda r, at: r.hset(at.unique_jobs, "=gone", at["done"]),
        ("I6", "unique_key_of_no_job"),
    ),
    "a unique key of what is no job": (
        lambda r, at: r.hset(at.unique_jobs, b"=\xff\0gone", b"non\0sense\xff"),
        ("I13", "entry_is_no_id"),
    ),
    "a suspect that is no job": (
        lambda r, at: r.hset(at.suspects, "hand", "nonsense"),
        ("I13", "entry_is_no_id"),
    ),
    "progress of what is no job": (
        lambda r, at: r.hset(at.progress, "nonsense", "[1, null]"),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job is listed": (
        lambda r, at: r.sadd(_page(r, at, "rA:"), "nonsense"),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job is due": (
        lambda r, at: r.zadd(at.due, {"nonsense": 5}),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job is buried": (
        lambda r, at: r.zadd(at.buried, {"-1": 5}),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job is held": (
        lambda r, at: r.hset(at.running("hand"), 1, "nonsense"),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job stands in line": (
        lambda r, at: r.rpush(at.line("0:"), "nonsense"),
        ("I13", "entry_is_no_id"),
    ),
    "what is no job is unhandled": (
        lambda r, at: r.zadd(at.unhandled("fax"), {"nonsense": 5}),
        ("I13", "entry_is_no_id"),
    ),
    "what is no page is in a directory": (
        lambda r, at: r.zadd(at.pages("rA:"), {"nonsense": 5}),
        ("I13", "entry_is_no_id"),
    ),
    "a window of no key": (
        lambda r, at: r.zadd(at.windows, {"=gone": 5}),
        ("I6", "window_of_no_key"),
    ),
    "a unique job without its key": (
        lambda r, at: r.hdel(at.unique_jobs, ":sms\0sms"),
        ("I6", "unique_key_not_held"),
    ),
    "progress of no job": (
        lambda r, at: r.hset(at.progress, 12345, "[1, null]"),
        ("I13", "extra_of_no_job"),
    ),
    "a log of no job": (
        lambda r, at: r.rpush(at.log(12345), "line"),
        ("I13", "extra_of_no_job"),
    ),
    "attempts of no job": (
        lambda r, at: r.rpush(at.attempts(12345), "attempt"),
        ("I13", "extra_of_no_job"),
    ),
    "a log that its job does not know of": (
        lambda r, at: r.rpush(at.log(at["done"]), "line"),
        ("I13", "extra_of_no_job"),
    ),
    "types of a worker that is gone": (
        lambda r, at: r.hset(at.types, "gone", "*"),
        ("I13", "trace_of_no_member"),
    ),
    "an offer of a worker that is gone": (
        lambda r, at: r.sadd(at.idle, "+gone"),
        ("I2", "waiter_is_no_member"),
    ),
    "an alarm of a worker that is gone": (
        lambda r, at: r.zadd(at.alarms, {"gone": 5}),
        ("I13", "trace_of_no_member"),
    ),
    "a suspect that its worker does not hold": (
        lambda r, at: r.hset(at.suspects, "hand", at["ready"]),
        ("I13", "trace_of_no_member"),
    ),
    "the slot of a schedule is lost": (
        lambda r, at: r.delete(at.slots),
        ("I13", "slot_is_missing"),
    ),
    "a schedule is garbage": (
        lambda r, at: r.hset(at.schedules, "nightly", "garbage"),
        ("I13", "schedule_cannot_be_read"),
    ),
    "a limit is garbage": (
        lambda r, at: r.hset(at.limits, "host", "garbage"),
        ("I13", "foreign_entry"),
    ),
    "a share is garbage": (
        lambda r, at: r.hset(at.shares, "acme", "garbage"),
        ("I13", "foreign_entry"),
    ),
    "a bucket is garbage": (
        lambda r, at: r.hset(at.buckets, "host", "garbage"),
        ("I13", "foreign_entry"),
    ),
    "a worker of which nobody knows what it handles": (
        lambda r, at: r.delete(at.types),
        ("I13", "member_handles_nothing"),
    ),
    "a field of what runs that is no number": (
        lambda r, at: r.hset(at.running("hand"), "x", at["ready"]),
        ("I13", "foreign_entry"),
    ),
    "what is no name among the members": (
        lambda r, at: r.sadd(at.members, b"\xff"),
        ("I13", "foreign_entry"),
    ),
    "what is no level": (
        lambda r, at: r.zadd(at.levels, {"x": 7}),
        ("I2", "ring_is_not_there"),
    ),
    "the layout is not told": (
        lambda r, at: r.hdel(at.meta, "layout"),
        ("I13", "layout_is_missing"),
    ),
    "progress is lost": (
        lambda r, at: r.delete(at.progress),
        ("I13", "extra_is_missing"),
    ),
    "a setting that nobody knows": (
        lambda r, at: r.hset(at.meta, "surprise", 1),
        ("I13", "foreign_entry"),
    ),
    "a record is empty": (
        lambda r, at: r.hset(at.jobs, at["ready"], ""),
        ("I2", "job_is_damaged"),
    ),
    "what is no job is stored as one": (
        lambda r, at: r.hset(at.jobs, "nonsense", ""),
        ("I13", "entry_is_no_id"),
    ),
    "a slot of no schedule": (
        lambda r, at: r.zadd(at.slots, {"gone": 5}),
        ("I13", "slot_of_no_schedule"),
    ),
    "jobs in a queue that was deleted": (
        lambda r, at: r.delete(at.meta),
        ("I13", "jobs_without_a_queue"),
    ),
    "a holder that nobody knows": (
        lambda r, at: r.rename(at.running("hand"), at.running("gone")),
        ("I13", "holder_is_unknown"),
    ),
    "live state that expires": (
        lambda r, at: r.expire(at.jobs, 1000),
        ("I13", "live_state_expires"),
    ),
    "an unknown key": (
        lambda r, at: r.set(at.log("of nothing"), "1"),
        ("I13", "unknown_key"),
    ),
    "a key of another type": (
        lambda r, at: (r.delete(at.due), r.set(at.due, "1")),
        ("I13", "mistyped_key"),
    ),
}

NOT_REPAIRABLE = {
    "a schedule is garbage",
    "a limit is garbage",
    "a share is garbage",
    "a worker of which nobody knows what it handles",
    "a field of what runs that is no number",
    "progress is lost",
    "a setting that nobody knows",
    "a record is empty",  # it is set aside, and named until it is removed
    "what is no job is stored as one",
    "a job is lost",
    "a start is not counted",
    "an end is not counted",
    "a counter went below zero",
    "a counter is no number",
    "the most that may wait is no number",
    "the layout is no number",
    "the layout is newer",
    "the layout is older",
    "a job is in its line twice",
    "a job is in the line of others",
    "a running job is held by nobody",
    "a ready job is held",
    "facts without a record",
    "turns went back",
    "a tenant with two turns",
    "a state counts more jobs than are in its place",
    "a unique job without its key",
    "what is no job is held",
    "what is no job stands in line",
    "what is no job is unhandled",
    "what is no page is in a directory",
    "a log that its job does not know of",
    "jobs in a queue that was deleted",
    "a holder that nobody knows",
    "an unknown key",
    "a key of another type",
}
