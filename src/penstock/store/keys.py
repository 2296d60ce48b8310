"""Every key and channel, with its type and meaning. No other file spells one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from penstock.codec.ids import SENDER_DIGITS
from penstock.model.events import EVENT_KINDS, EventKind
from penstock.model.names import check_name, key_part

SIMULATED_CLOCK = "penstock:simulated_clock"
"""string, one for each namespace: the time in ms of a simulation or a test; never in production"""


KEY_TYPES = {
    "queues": "hash",
    "workers": "zset",
    "condemned": "zset",
    "paused_workers": "set",
    "info": "hash",
    "work": "set",
    "memory": "string",
}
"""What crosses queues: the last word of a key -> its type."""

QUEUE_KEY_TYPES = {
    "ready": "list",
    "dead": "list",
    "meta": "hash",
    "members": "set",
    "idle": "set",
    "failures": "hash",
    "unique": "hash",
    "unique_tasks": "zset",
    "running": "hash",
    "memory": "string",
    "stage": "hash",
    "staging": "string",
    "moving": "list",
    "batches": "hash",
    "batch_times": "zset",
    "keeps": "zset",
}

JOB_KEY_TYPES = {
    "jobs": "hash",
    "facts": "hash",
    "levels": "zset",
    "ring": "zset",
    "line": "list",
    "unhandled": "zset",
    "unhandled_types": "set",
    "parked": "zset",
    "unparks": "zset",
    "due": "zset",
    "finished": "zset",
    "buried": "zset",
    "pages": "zset",
    "page": "set",
    "unique_jobs": "hash",
    "windows": "zset",
    "limits": "hash",
    "buckets": "hash",
    "busy": "hash",
    "shares": "hash",
    "paused_types": "set",
    "types": "hash",
    "suspects": "hash",
    "progress": "hash",
    "log": "list",
    "attempts": "list",
    "alarms": "zset",
    "schedules": "hash",
    "slots": "zset",
    "history": "stream",
    "marks": "hash",
}
"""What a queue of jobs has beside `meta`, `members`, `idle`, `running` and `memory`; the scripts
put these words after the tag of the queue themselves, as there can be any number of lines and
pages.

jobs: id -> record, written once. facts: id -> what has happened since, once something has.
levels: priority -> itself, of those with a line. ring:<priority>: tenant -> rounds had.
line:<priority>:<tenant>: entries, the next at the left. unhandled:<type>: turn and id -> priority,
of jobs that no worker who asked could take; unhandled_types: those that have some. parked:<key>:
the same of jobs that a limit holds back; unparks: key -> when to look (ms; +inf: when a slot is
free).
due: id -> when (ms). finished, buried: id -> when it ended (ms); done and cancelled, dead jobs.
pages:<listing>: numbers of the pages that are not empty; page:<number>:<listing>: ids.
unique_jobs: key -> id; windows: key -> until when it is taken (ms).
limits: key -> slots, rate, per_ms, burst; buckets: key -> tokens and when they were counted; busy:
key -> jobs that run. shares: tenant -> jobs a round. paused_types. types: worker -> what it
handles. suspects: worker -> the job that may be what kills workers, which it holds.
progress: id -> what it said last; log:<id>; attempts:<id>: those that did not end well. alarms:
worker -> when it was told to look (ms). schedules: name -> definition; slots: name -> when it is
due (ms). history: one entry for each attempt that has ended, and each job that ended without one.
marks: reader of the history -> the last entry that it has read, and when it said so (ms).
"""

OWNED_KINDS = frozenset(
    {
        *("work", "running", "memory", "stage", "staging"),
        *("ring", "line", "unhandled", "parked", "pages", "page", "log", "attempts"),
    }
)
"""One key for each worker, lane, line and the like, whose name comes last."""

_OWNERS = {
    "log": re.compile(r"\d+"),
    "attempts": re.compile(r"\d+"),
    "ring": re.compile(r"-?\d+"),
    "line": re.compile(r"-?\d+:.*", re.DOTALL),
    "page": re.compile(r"\d+:.+", re.DOTALL),
}
"""How the owner of a key is written, where it is not a name that somebody chose."""

_KEY = re.compile(
    r"\{(?P<namespace>[^:{}]+)(?::(?P<queue>[^:{}]+))?\}:(?P<kind>\w+)(?::(?P<owner>.+))?",
    re.DOTALL,
)


class KeyName(NamedTuple):
    """What a key of ours is."""

    queue: str
    """empty for what crosses queues"""
    kind: str
    owner: str
    """the worker or lane of a key that belongs to one"""


class NamespaceKeys:
    """What crosses queues. One hash tag, so one cluster slot."""

    def __init__(self, namespace: str) -> None:
        self.namespace = check_name("namespace", namespace)
        self.tag = f"{{{key_part(namespace)}}}"
        self.queues = f"{self.tag}:queues"
        """hash: incarnation -> when it was registered (ms), a space, the queue"""
        self.workers = f"{self.tag}:workers"
        """zset: worker -> end of its lease (ms)"""
        self.condemned = f"{self.tag}:condemned"
        """zset: worker -> when the next peer may try to recover it (ms)"""
        self.paused_workers = f"{self.tag}:paused_workers"
        """set: names of workers that are to start nothing, also after a restart"""
        self.info = f"{self.tag}:info"
        """hash: worker -> what it said about itself (JSON)"""
        self.pattern = f"{{{key_part(namespace)}[:}}]*"
        """matches every key of the namespace and nothing else"""
        self.simulated_clock = f"{SIMULATED_CLOCK}:{key_part(namespace)}"
        """string: what time it is for scripts of the simulated dialect (ms)"""

    def work(self, worker: str) -> str:
        """set: queues that this worker serves"""
        return f"{self.tag}:work:{worker}"

    def memory(self, lane: str) -> str:
        """string with expiry: number and reply of the last operation of a lane"""
        return f"{self.tag}:memory:{lane}"

    def queue(self, queue: str) -> QueueKeys:
        return _queue_keys(self.namespace, queue)

    def identify(self, key: str) -> KeyName | None:
        """What a key found in the store is; None if it is none that this version writes."""
        found = _KEY.fullmatch(key)
        if found is None or unquote(found["namespace"]) != self.namespace:
            return None
        queue = unquote(found["queue"] or "")
        kinds = KEY_TYPES if found["queue"] is None else QUEUE_KEY_TYPES | JOB_KEY_TYPES
        name = KeyName(queue, found["kind"], found["owner"] or "")
        is_whole = (name.kind in OWNED_KINDS) == bool(name.owner)
        spelling = _OWNERS.get(name.kind)
        is_spelt = spelling is None or spelling.fullmatch(name.owner) is not None
        return name if name.kind in kinds and is_whole and is_spelt else None


class QueueKeys:
    """What belongs to one queue. One hash tag, so that every script on it also runs on a
    cluster.
    """

    def __init__(self, namespace: str, queue: str) -> None:
        self.namespace = namespace
        self.queue = check_name("queue", queue)
        self.tag = tag = f"{{{key_part(namespace)}:{key_part(queue)}}}"
        self.ready = f"{tag}:ready"
        """list: tasks; the next to run is at the right"""
        self.dead = f"{tag}:dead"
        """list: tasks that failed too often; the oldest is at the right"""
        self.meta = f"{tag}:meta"
        """hash: incarnation, settings (paused, max_length, max_failures), process (last id) and
        counters; of batches: staged (decided, to be moved), merged and moved_at (ms); in a queue of
        jobs also how many there are of each listing
        """
        self.members = f"{tag}:members"
        """set: workers that have started work on this queue"""
        self.idle = f"{tag}:idle"
        """set: workers that wait for a wake-up; those that take a job unasked with a plus before
        their name
        """
        self.failures = f"{tag}:failures"
        """hash: digest of a task -> failed deliveries"""
        self.unique = f"{tag}:unique"
        """hash: key -> holder and task, of every unique task not yet gone"""
        self.unique_tasks = f"{tag}:unique_tasks"
        """zset: digest of the task, then key; all scores 0"""
        self.moving = f"{tag}:moving"
        """list: name and number of chunks of each decided stage; the next to be moved is at the
        left
        """
        self.batches = f"{tag}:batches"
        """hash: name of a decided batch -> its version"""
        self.batch_times = f"{tag}:batch_times"
        """zset: name of a decided batch -> when that was (ms)"""
        self.keeps = f"{tag}:keeps"
        """zset: tag of the jobs of a batch -> until when they are kept once they have ended (ms)"""
        self.wake = f"{tag}:wake:"
        """channels: prefix + worker; says that there may be work"""
        self.hand = f"{tag}:hand:"
        """channels: prefix + worker; hands it a job"""
        self.work, self.done, self.cancel, self.delete = (self.channel(k) for k in EVENT_KINDS)
        self.events = f"{tag}:events"
        """channel: what happens to jobs"""
        self.cancel_job = f"{tag}:cancel_job"
        """channel: worker and process of a running job that is to end"""

    def running(self, worker: str) -> str:
        """hash: process id -> task, of one worker"""
        return f"{self.tag}:running:{worker}"

    def memory(self, lane: str) -> str:
        """string with expiry: number and reply of the last operation of a lane"""
        return f"{self.tag}:memory:{lane}"

    def stage(self, name: str) -> str:
        """hash: index -> chunk, of one attempt to write a batch; with expiry until the batch is
        decided
        """
        return f"{self.tag}:stage:{name}"

    def staging(self, batch: str) -> str:
        """string with expiry: bytes that were staged for one batch, by all attempts"""
        return f"{self.tag}:staging:{batch}"

    def of_jobs(self, kind: str, owner: str = "") -> str:
        """what `JOB_KEY_TYPES` says; the owner is the line, page or the like, if it has one"""
        return f"{self.tag}:{kind}:{owner}" if kind in OWNED_KINDS else f"{self.tag}:{kind}"

    def job_list(self, kind: Literal["log", "attempts"], id_number: int) -> str:
        """list: what was written down about one job"""
        return f"{self.tag}:{kind}:{id_number}"

    def ending_channel(self, id_number: int) -> str:
        """channel: how jobs have ended, of all that have the same sender as this one"""
        return f"{self.tag}:job:{str(id_number)[-SENDER_DIGITS:]}"

    def channel(self, kind: EventKind) -> str:
        """channel: events of one kind"""
        return f"{self.tag}:{kind}"


@lru_cache(maxsize=4096)
def _queue_keys(namespace: str, queue: str) -> QueueKeys:
    return QueueKeys(namespace, queue)
