"""Every key and channel, with its type and meaning. No other file spells one."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from penstock.codec.ids import SENDER_DIGITS
from penstock.model.events import EVENT_KINDS, EventKind
from penstock.model.names import check_name, key_part

if TYPE_CHECKING:
    from collections.abc import Callable

SIMULATED_CLOCK = "penstock:simulated_clock"
"""string, one for each namespace: the time in ms of a simulation or a test; never in production"""


class DeclaredKey:
    """A key as a class of keys declares it. Its name there is the last word of the key, or the last
    before the owner.
    """

    def __init__(self, type: str, owner: str | None = None) -> None:
        self.type = type
        """what Redis calls it"""
        self.name = ""
        self._owner = re.compile(owner or "", re.DOTALL)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def can_belong_to(self, owner: str) -> bool:
        """Whether this can be the owner in such a key; empty for a key without one."""
        return self._owner.fullmatch(owner) is not None


class Key(DeclaredKey):
    """A key of which there is one; read from an object, it is the text of the key."""

    def __init__(self, type: str) -> None:
        super().__init__(type)

    def __get__(self, keys: Any, owner: type) -> str:
        text = f"{keys.tag}:{self.name}"
        keys.__dict__[self.name] = text  # Python finds it there first from now on
        return text


class KeyOf(DeclaredKey):
    """A key of which each worker, lane, line or the like has one; read from an object, it makes the
    text of the key from the name of the owner.
    """

    def __init__(self, type: str, owner: str = ".+") -> None:
        """`owner` is how an owner is written, where its name is not one that somebody chose."""
        super().__init__(type, owner)

    def __get__(self, keys: Any, owner: type) -> Callable[[str | int], str]:
        make = partial(_key_of, f"{keys.tag}:{self.name}:")
        keys.__dict__[self.name] = make
        return make


class KeyName(NamedTuple):
    """What a key of ours is."""

    queue: str
    """empty for what crosses queues"""
    kind: str
    """the name under which it is declared"""
    owner: str
    """the worker, lane or the like of a key that belongs to one"""
    partition: int | None = None
    """of a log, for what lies in the slot of one"""

    @property
    def type(self) -> str:
        """What Redis calls what it should hold."""
        return _declared(self.queue, self.partition)[self.kind].type


class NamespaceKeys:
    """What crosses queues. One hash tag, so one cluster slot."""

    queues = Key("hash")
    """incarnation -> when it was registered (ms), a space, the queue"""
    workers = Key("zset")
    """worker -> end of its lease (ms)"""
    condemned = Key("zset")
    """worker -> when the next peer may try to recover it (ms)"""
    paused_workers = Key("set")
    """names of workers that are to start nothing, also after a restart"""
    info = Key("hash")
    """worker -> what it said about itself (JSON)"""
    work = KeyOf("set")
    """by worker: queue, zero byte and kind, of each queue that it serves"""
    memory = KeyOf("string")
    """by lane, with expiry: number and reply of its last operation"""

    def __init__(self, namespace: str) -> None:
        self.namespace = check_name("namespace", namespace)
        self.tag = f"{{{key_part(namespace)}}}"
        self.pattern = f"{{{key_part(namespace)}[:}}]*"
        """matches every key of the namespace and nothing else"""
        self.simulated_clock = f"{SIMULATED_CLOCK}:{key_part(namespace)}"
        """string: what time it is for scripts of the simulated dialect (ms)"""

    def queue(self, queue: str) -> QueueKeys:
        return _queue_keys(self.namespace, queue)

    def identify(self, key: str) -> KeyName | None:
        """What a key found in the store is; None if it is none that this version writes."""
        found = _KEY.fullmatch(key)
        if found is None or unquote(found["namespace"]) != self.namespace:
            return None
        partition = None if found["partition"] is None else int(found["partition"])
        declared = _declared(found["queue"] or "", partition).get(found["name"])
        owner = found["owner"] or ""
        if declared is None or not declared.can_belong_to(owner):
            return None
        return KeyName(unquote(found["queue"] or ""), declared.name, owner, partition)


class TaskKeys:
    """What only a queue of tasks has."""

    ready = Key("list")
    """tasks; the next to run is at the right"""
    dead = Key("list")
    """tasks that failed too often; the oldest is at the right"""
    failures = Key("hash")
    """digest of a task -> failed deliveries"""
    unique = Key("hash")
    """key -> holder and task, of every unique task not yet gone"""
    unique_tasks = Key("zset")
    """digest of the task, then key; all scores 0"""


class JobKeys:
    """What only a queue of jobs has. There can be any number of lines and pages, so scripts put
    these names after the tag of the queue themselves.
    """

    jobs = Key("hash")
    """id -> record, written once"""
    facts = Key("hash")
    """id -> what has happened since, once something has"""
    levels = Key("zset")
    """priority -> itself, of those with a line"""
    ring = KeyOf("zset", r"-?\d+")
    """by priority: tenant -> rounds had"""
    line = KeyOf("list", r"-?\d+:.*")
    """by priority and tenant, with a colon between: entries, the next at the left"""
    unhandled = KeyOf("zset")
    """by type: turn and id -> priority, of jobs that no worker that asked could take"""
    unhandled_types = Key("set")
    """types that have some"""
    parked = KeyOf("zset")
    """by key: turn and id -> priority, of jobs that a limit holds back"""
    unparks = Key("zset")
    """key -> when to look at what is parked behind it (ms; +inf: when a slot is free)"""
    due = Key("zset")
    """id -> when (ms)"""
    finished = Key("zset")
    """id -> when it ended (ms), of done and cancelled jobs"""
    buried = Key("zset")
    """id -> when it ended (ms), of dead jobs"""
    pages = KeyOf("zset")
    """by listing: numbers of its pages that are not empty"""
    page = KeyOf("set", r"\d+:.+")
    """by number and listing, with a colon between: ids"""
    unique_jobs = Key("hash")
    """unique key -> id"""
    windows = Key("zset")
    """unique key -> until when it is taken (ms)"""
    limits = Key("hash")
    """key -> slots, rate, per_ms, burst"""
    buckets = Key("hash")
    """key -> tokens and when they were counted"""
    busy = Key("hash")
    """key -> how many of its jobs run"""
    shares = Key("hash")
    """tenant -> jobs a round"""
    paused_types = Key("set")
    """types of which no job is started"""
    types = Key("hash")
    """worker -> what it handles"""
    suspects = Key("hash")
    """worker -> the job that may be what kills workers, which it holds"""
    progress = Key("hash")
    """id -> what the job said last"""
    log = KeyOf("list", r"\d+")
    """by id: what the job wrote down"""
    attempts = KeyOf("list", r"\d+")
    """by id: those that did not end well"""
    alarms = Key("zset")
    """worker -> when it was told to look (ms)"""
    schedules = Key("hash")
    """name -> definition"""
    slots = Key("zset")
    """name of a schedule -> when it is due (ms)"""
    damaged = Key("hash")
    """id -> record and facts byte for byte, of jobs that could not be read and were set aside"""
    history = Key("stream")
    """one entry for each attempt that has ended, and each job that ended without one"""
    marks = Key("hash")
    """reader of the history -> the last entry that it has read, and when it said so (ms)"""


class LogKeys:
    """What only the slot of a log itself has; the messages are in the slots of its partitions."""

    groups = Key("hash")
    """group -> when it was first seen (ms)"""
    batch_tokens = Key("hash")
    """name of a decided batch -> token of the attempt that was decided"""
    group_members = KeyOf("hash")
    """by group, if the store coordinates it: member -> until when it is one (ms), weight,
    partitions that it knows of
    """
    group_owners = KeyOf("hash")
    """by group, if the store coordinates it: partition -> member"""


class QueueKeys(TaskKeys, JobKeys, LogKeys):
    """What belongs to one queue: what is declared here whatever it holds, the rest if it holds
    tasks or jobs, or is a log. One hash tag, so that every script on it also runs on a cluster.
    """

    meta = Key("hash")
    """incarnation, settings (paused, max_length, max_failures), process (last id) and counters; of
    batches: staged (decided, to be moved), merged and moved_at (ms); in a queue of jobs also how
    many there are of each listing; of a log how many partitions it has, and for how long it keeps
    messages
    """
    members = Key("set")
    """workers that have started work on this queue"""
    idle = Key("set")
    """workers that wait for a wake-up; those that take a job unasked with a plus before their name
    """
    running = KeyOf("hash")
    """by worker: process id -> task, or id of the job"""
    memory = KeyOf("string")
    """by lane, with expiry: number and reply of its last operation"""
    stage = KeyOf("hash")
    """by attempt to write a batch: index -> chunk; with expiry until the batch is decided"""
    staging = KeyOf("string")
    """by batch, with expiry: bytes that were staged for it, by all attempts"""
    moving = Key("list")
    """name and number of chunks of each decided stage; the next to be moved is at the left"""
    batches = Key("hash")
    """name of a decided batch -> its version"""
    batch_times = Key("zset")
    """name of a decided batch -> when that was (ms)"""
    keeps = Key("zset")
    """tag of the jobs of a batch -> until when they are kept once they have ended (ms)"""

    def __init__(self, namespace: str, queue: str) -> None:
        self.namespace = namespace
        self.queue = check_name("queue", queue)
        self.tag = tag = f"{{{key_part(namespace)}:{key_part(queue)}}}"
        self.shown = f"queue {queue!r}"
        """what it is called in errors"""
        self.wake = f"{tag}:wake:"
        """channels: prefix + worker; says that there may be work"""
        self.hand = f"{tag}:hand:"
        """channels: prefix + worker; hands it a job"""
        self.work, self.done, self.cancel, self.delete = (self.channel(k) for k in EVENT_KINDS)
        self.events = f"{tag}:events"
        """channel: what happens to jobs"""
        self.cancel_job = f"{tag}:cancel_job"
        """channel: worker and process of a running job that is to end"""

    def partition(self, number: int) -> PartitionKeys:
        """What belongs to one partition, if this is a log."""
        return _partition_keys(self.namespace, self.queue, number)

    def named(self, name: str, owner: str = "") -> str:
        """The key that `identify` gives this name and owner."""
        return _key_of(f"{self.tag}:{name}:", owner) if owner else f"{self.tag}:{name}"

    def ending_channel(self, id_number: int) -> str:
        """channel: how jobs have ended, of all that have the same sender as this one"""
        return f"{self.tag}:job:{str(id_number)[-SENDER_DIGITS:]}"

    def channel(self, kind: EventKind) -> str:
        """channel: events of one kind"""
        return f"{self.tag}:{kind}"


class PartitionKeys:
    """What belongs to one partition of a log. A hash tag of its own, so that a log spreads over a
    cluster. No queue has such a tag, as no name has a slash in a key.
    """

    messages = Key("stream")
    """messages; the oldest first"""
    state = Key("hash")
    """born (of the log), version and settings, as the log has them; added and added_bytes since
    ever, trimmed and trimmed_bytes of those, trimmed_to (id), lost (trimmed before a reader has
    read them); closed, closed_bytes and opened_at (ms) of the segment that is not in the list yet;
    floor (id): what the slowest reader has read; floor_at (ms): when a reader was last seen
    """
    segments = Key("list")
    """id of the last message, and added and added_bytes up to it, of about a hundred messages each;
    the oldest at the left
    """
    offsets = Key("hash")
    """group or other reader -> epoch, offset (id), when it was last seen (ms), owner; a line more
    if owners have died at that offset: how often, whether the message after it is being tried
    alone (1 or 0), how the last one died
    """
    errors = KeyOf("stream")
    """by group: messages that it has given up, with the reason"""
    paused = Key("set")
    """groups that read nothing here for now"""
    stage = KeyOf("hash")
    """by attempt to write a batch: index -> chunk; with expiry until it is prepared"""
    staging = KeyOf("string")
    """by batch, with expiry: bytes that were staged for it here, by all attempts"""
    prepared = Key("hash")
    """stage that is whole -> token of the attempt, version of the batch, when it was prepared (ms),
    chunks and batch; until it is moved, or dropped as another attempt was decided
    """
    memory = KeyOf("string")
    """by lane, with expiry: number and reply of its last operation"""

    def __init__(self, namespace: str, log: str, number: int) -> None:
        self.namespace = namespace
        self.log = check_name("log", log)
        self.number = number
        self.tag = tag = f"{{{key_part(namespace)}:{key_part(log)}/{number}}}"
        self.shown = f"partition {number} of log {log!r}"
        """what it is called in errors"""
        self.appended = f"{tag}:appended"
        """channel: the id of the first of the messages that were just appended; or an @ and a
        group that goes on, or elsewhere
        """


def declared_keys(*classes: type) -> dict[str, DeclaredKey]:
    """Every key that these classes declare themselves, by name."""
    return {
        name: key
        for each in classes
        for name, key in vars(each).items()
        if isinstance(key, DeclaredKey)
    }


def key_types(*classes: type) -> dict[str, str]:
    """Name -> type, of every key that these classes declare themselves."""
    return {name: key.type for name, key in declared_keys(*classes).items()}


KEY_TYPES = key_types(NamespaceKeys)
QUEUE_KEY_TYPES = key_types(QueueKeys)
TASK_KEY_TYPES = key_types(TaskKeys)
JOB_KEY_TYPES = key_types(JobKeys)
PARTITION_KEY_TYPES = key_types(PartitionKeys)

_OF_NAMESPACE = declared_keys(NamespaceKeys)
_OF_QUEUES = declared_keys(QueueKeys, *QueueKeys.__bases__)
_OF_PARTITIONS = declared_keys(PartitionKeys)
_KEY = re.compile(
    r"\{(?P<namespace>[^:{}]+)(?::(?P<queue>[^:{}/]+)(?:/(?P<partition>0|[1-9]\d*))?)?\}"
    r":(?P<name>\w+)(?::(?P<owner>.+))?",
    re.DOTALL,
)


def _declared(queue: str, partition: int | None) -> dict[str, DeclaredKey]:
    if partition is not None:
        return _OF_PARTITIONS
    return _OF_QUEUES if queue else _OF_NAMESPACE


def _key_of(prefix: str, owner: str | int) -> str:
    return f"{prefix}{owner}"


@lru_cache(maxsize=4096)
def _queue_keys(namespace: str, queue: str) -> QueueKeys:
    return QueueKeys(namespace, queue)


@lru_cache(maxsize=4096)
def _partition_keys(namespace: str, log: str, number: int) -> PartitionKeys:
    return PartitionKeys(namespace, log, number)
