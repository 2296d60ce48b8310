"""What holds for many jobs of a queue: pauses, limits, shares, schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import QueueFull
from penstock.model.job_rules import JobRules, open_limit, open_settings
from penstock.model.schedules import MAX_SCHEDULES
from penstock.store.command import Argument, Command, Operation, unexpected
from penstock.store.commands.jobs import check_jobs, group_arguments
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.commands.jobs import Group
    from penstock.store.keys import QueueKeys

PAUSE_TYPE = load("jobs/pause_type")
SET_LIMIT = load("jobs/set_limit")
SET_SHARE = load("jobs/set_share")
READ_RULES = load("jobs/read_rules")
PUT_SCHEDULE = load("jobs/put_schedule")
REMOVE_SCHEDULE = load("jobs/remove_schedule")
LIST_SCHEDULES = load("jobs/list_schedules")
FIRE_SCHEDULE = load("jobs/fire_schedule")

_MAX_RULES = 10_000


def pause_type(
    keys: QueueKeys, operation: Operation, job_type: str, is_paused: bool, incarnation: str = ""
) -> Command[bool]:
    """Hand out no jobs of a type, or hand them out again. Raises WrongKind, QueueAbsent,
    QueueTaken.
    """
    return _rule(PAUSE_TYPE, keys, operation, incarnation, job_type, int(is_paused))


class MoreToDo(Exception):
    """A reply: done in part; ask again. Never seen by an application."""


def set_limit(
    keys: QueueKeys,
    operation: Operation,
    key: str,
    slots: int,
    rate: float,
    per_ms: int,
    burst: float,
    incarnation: str = "",
) -> Command[bool]:
    """Limit a key ('' the queue, '*' any key); all zero lifts it. Raises WrongKind, QueueAbsent,
    QueueTaken, and MoreToDo for the client.
    """
    settings = f"{slots} {rate!r} {per_ms} {burst!r}" if slots or rate else ""
    return _rule(SET_LIMIT, keys, operation, incarnation, key, settings)


def set_share(
    keys: QueueKeys, operation: Operation, tenant: str, share: int, incarnation: str = ""
) -> Command[bool]:
    """How many jobs of a tenant start in a round. Raises WrongKind, QueueAbsent, QueueTaken."""
    return _rule(SET_SHARE, keys, operation, incarnation, tenant, share)


def read_rules(keys: QueueKeys) -> Command[JobRules]:
    """Settings, limits, shares and paused types."""

    def decode(reply: list[Any]) -> JobRules:
        if reply[0] != b"ok":
            check_jobs(keys, READ_RULES, reply)
            raise unexpected(READ_RULES, reply)
        settings, limits, shares = (_named(pairs) for pairs in reply[1:4])
        return JobRules(
            open_settings(settings),
            {key: open_limit(value) for key, value in sorted(limits.items())},
            {tenant: int(share) for tenant, share in sorted(shares.items())},
            sorted(name.decode() for name in reply[4]),
        )

    return Command(READ_RULES, (keys.meta,), (_MAX_RULES,), decode)


def _named(pairs: list[bytes]) -> dict[str, str]:
    values = [part.decode() for part in pairs]
    return dict(zip(values[::2], values[1::2], strict=True))


class StoredSchedule(NamedTuple):
    """A schedule as it is kept."""

    name: str
    definition: bytes
    slot_ms: int | None
    """when it is due next; None: never again"""

    @property
    def as_read(self) -> bytes:
        """What a change of it sends along, so that it undoes nothing that happened meanwhile."""
        return b"%b %b" % (self.definition, str(_slot(self.slot_ms)).encode())


NO_SCHEDULE = b" "
"""The same of a schedule that is not there."""


def put_schedule(
    keys: QueueKeys,
    operation: Operation,
    name: str,
    definition: bytes,
    slot_ms: int | None,
    incarnation: str = "",
    read: bytes = b"*",
) -> Command[bool | None]:
    """Store a schedule; True if there was none of this name, None if it is not as it was `read` any
    more (see `StoredSchedule.as_read`). Raises QueueFull, WrongKind, QueueAbsent, QueueTaken.
    """

    def decode(reply: list[Any]) -> bool | None:
        if reply[0] == b"ok":
            return bool(reply[1])
        if reply[0] == b"late":
            return None
        if reply[0] == b"too_many":
            raise QueueFull(
                f"queue {keys.queue!r} has {reply[1]} schedules, which is as many as it may have; "
                "remove one, choose another queue, or let it have more "
                f"(`penstock job configure {keys.queue} --max-schedules N`)"
            )
        check_jobs(keys, PUT_SCHEDULE, reply)
        raise unexpected(PUT_SCHEDULE, reply)

    return Command(
        PUT_SCHEDULE,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, incarnation, name, definition, _slot(slot_ms), read, MAX_SCHEDULES),
        decode,
    )


def remove_schedule(keys: QueueKeys, operation: Operation, name: str) -> Command[bool]:
    """Remove a schedule; False if there is none of this name."""
    return _rule(REMOVE_SCHEDULE, keys, operation, name)


def list_schedules(
    keys: QueueKeys, names: Sequence[str] = ()
) -> Command[tuple[int, list[StoredSchedule]]]:
    """The time (ms) and the schedules of a queue, or those named."""

    def decode(reply: list[Any]) -> tuple[int, list[StoredSchedule]]:
        if reply[0] != b"ok":
            check_jobs(keys, LIST_SCHEDULES, reply)
            raise unexpected(LIST_SCHEDULES, reply)
        found = [
            StoredSchedule(name.decode(), definition, int(slot) if slot else None)
            for name, definition, slot in zip(reply[2::3], reply[3::3], reply[4::3], strict=True)
        ]
        return int(reply[1]), found

    return Command(LIST_SCHEDULES, (keys.meta,), tuple(names), decode)


def fire_schedule(
    keys: QueueKeys,
    operation: Operation,
    schedule: StoredSchedule,
    next_slot_ms: int | None,
    groups: Sequence[Group],
) -> Command[bool]:
    """Send what a schedule sends; False if somebody else was first. Raises QueueFull, IdTaken."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"late"):
            return bool(reply[0] == b"ok")
        check_jobs(keys, FIRE_SCHEDULE, reply)
        raise unexpected(FIRE_SCHEDULE, reply)

    return Command(
        FIRE_SCHEDULE,
        (keys.memory(operation.lane), keys.meta),
        (
            operation.number,
            schedule.name,
            schedule.definition,
            _slot(schedule.slot_ms),
            _slot(next_slot_ms),
            *group_arguments(groups),
        ),
        decode,
    )


def _slot(slot_ms: int | None) -> Argument:
    return "" if slot_ms is None else slot_ms


def _rule(
    script: Script, keys: QueueKeys, operation: Operation, *arguments: Argument
) -> Command[bool]:
    """Change a rule; the answer says whether there was something to change it of."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"absent"):
            return bool(reply[0] == b"ok")
        if reply[0] == b"more":
            raise MoreToDo
        check_jobs(keys, script, reply)
        raise unexpected(script, reply)

    names = (keys.memory(operation.lane), keys.meta)
    return Command(script, names, (operation.number, *arguments), decode)
