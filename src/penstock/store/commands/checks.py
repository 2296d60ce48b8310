"""What `penstock fsck` reads and mends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.codec.elements import open_element, open_unique
from penstock.model.numbers import whole_number
from penstock.model.queues import DEFAULT_MAX_FAILURES, Counters
from penstock.model.snapshot import Element, QueueSnapshot, Registration, no_numbers
from penstock.store.command import Command, unexpected
from penstock.store.commands.queues import kind_of
from penstock.store.foreign_entries import ForeignEntries, text_of
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.keys import QueueKeys

DESCRIBE_KEY = load("queues/describe_key")
READ_QUEUE = load("tasks/read_queue")
MEND_UNIQUE_KEY = load("tasks/mend_unique_key")
FORGET_FAILURES = load("tasks/forget_failures")


_WORKER = "the name of a worker"


class KeyFacts(NamedTuple):
    """What the server says about a key."""

    type: str
    """none if there is no such key"""
    ttl_ms: int
    """-1: it stays for ever"""


def describe_key(key: str) -> Command[KeyFacts]:
    """The type of a key, and how long it will live."""

    def decode(reply: list[Any]) -> KeyFacts:
        if reply[0] == b"ok":
            return KeyFacts(reply[1].decode(), int(reply[2]))
        raise unexpected(DESCRIBE_KEY, reply)

    return Command(DESCRIBE_KEY, (key,), (), decode)


def read_queue(keys: QueueKeys, workers: Sequence[str], limit: int) -> Command[QueueSnapshot]:
    """Everything in a queue and in the hands of `workers`, at one instant. If that is more than
    `limit` entries, it is only counted, and `waiting` is None.
    """

    def decode(reply: list[Any]) -> QueueSnapshot:
        if reply[0] in (b"ok", b"counted"):
            return queue_snapshot(keys, workers, reply)
        raise unexpected(READ_QUEUE, reply)

    return Command(
        READ_QUEUE,
        (
            keys.meta,
            keys.ready,
            keys.dead,
            keys.members,
            keys.idle,
            keys.failures,
            keys.unique,
            keys.unique_tasks,
            *map(keys.running, workers),
        ),
        (limit,),
        decode,
    )


def mend_unique_key(
    keys: QueueKeys, members: Sequence[str], unique_key: bytes, entry: bytes
) -> Command[bool | list[str]]:
    """Free a unique key if its task is gone. If `members` are not the members, the answer is who
    they are now.
    """

    def decode(reply: list[Any]) -> bool | list[str]:
        if reply[0] == b"ok":
            return bool(reply[1])
        if reply[0] == b"changed":
            return [worker.decode() for worker in reply[1:]]
        raise unexpected(MEND_UNIQUE_KEY, reply)

    return Command(
        MEND_UNIQUE_KEY,
        (keys.ready, keys.members, keys.unique, keys.unique_tasks, *map(keys.running, members)),
        (unique_key, entry, *members),
        decode,
    )


def forget_failures(keys: QueueKeys, digest: str, count: int) -> Command[bool]:
    """Forget the failures of a task that is gone."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] == b"ok":
            return bool(reply[1])
        raise unexpected(FORGET_FAILURES, reply)

    return Command(FORGET_FAILURES, (keys.failures,), (digest, count), decode)


def queue_snapshot(keys: QueueKeys, workers: Sequence[str], reply: list[Any]) -> QueueSnapshot:
    """A reply of `read_queue`, opened."""
    word, meta, ready, dead, members, idle, failures, unique, unique_tasks, *running = reply
    settings = {field.decode(errors="backslashreplace"): value for field, value in pairs(meta)}
    found = {name: whole_number(value) for name, value in settings.items()}
    numbers = {name: number for name, number in found.items() if number is not None}
    foreign = ForeignEntries(keys.queue)
    known = foreign.names(keys.members, "set", members, _WORKER)
    waiting = foreign.names(keys.idle, "set", idle, _WORKER)
    head = QueueSnapshot(
        name=keys.queue,
        incarnation=settings.get("incarnation", b"").decode(errors="backslashreplace"),
        process=numbers.get("process", 0),
        no_numbers=no_numbers(settings),
        kind=kind_of(settings),
        is_paused="paused" in settings,
        max_length=numbers.get("max_length"),
        max_failures=numbers.get("max_failures", DEFAULT_MAX_FAILURES),
        counters=Counters(**{n: numbers.get(n, 0) for n in Counters.__dataclass_fields__}),
        members=frozenset(known),
        idle=frozenset(worker.removeprefix("+") for worker in waiting),
    )
    if word == b"counted":
        head = replace(head, ready=ready, dead=dead, held=sum(running))
        return replace(head, foreign=tuple(foreign.found))
    opened = replace(
        head,
        ready=len(ready),
        dead=len(dead),
        held=sum(len(held) // 2 for held in running),
        waiting=tuple(open_element(element) for element in reversed(ready)),
        buried=tuple(reversed(dead)),
        running={
            worker: held_processes(foreign, keys.running(worker), held)
            for worker, held in zip(workers, running, strict=True)
            if held
        },
        failures=counted_failures(foreign, keys, pairs(failures)),
        unique={key: open_unique(value) for key, value in pairs(unique)},
        unique_tasks=frozenset(unique_tasks),
    )
    return replace(opened, foreign=tuple(foreign.found))


def held_processes(foreign: ForeignEntries, key: str, flat: list[bytes]) -> dict[int, Element]:
    """The processes of one worker. What is under another name may be a task all the same, which
    goes back when the worker leaves.
    """
    found = {}
    for process, element in pairs(flat):
        number = whole_number(process)
        if number is None:
            foreign.add(key, "hash", process, "the number of a process", is_removable=False)
        else:
            found[number] = open_element(element)
    return found


def counted_failures(
    foreign: ForeignEntries, keys: QueueKeys, counts: Sequence[tuple[bytes, bytes]]
) -> dict[str, int]:
    """Digest of a task -> how often it has failed."""
    found = {}
    for digest, count in counts:
        name, number = text_of(digest), whole_number(count)
        if name is None or number is None:
            foreign.add(keys.failures, "hash", digest, "a task with a number of failures")
        else:
            found[name] = number
    return found


def open_registration(entry: bytes) -> Registration:
    """An entry of the list of queues, as `scripts/register_queue.lua` writes it. One that somebody
    else wrote counts as old.
    """
    time, _, queue = entry.decode(errors="backslashreplace").partition(" ")
    if not time.isdecimal():
        return Registration(entry.decode(errors="backslashreplace"), 0)
    return Registration(queue, int(time))


def pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    """A hash as the server sends it."""
    return list(zip(flat[::2], flat[1::2], strict=True))
