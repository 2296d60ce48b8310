"""Producers and operators of a log. All of them use the real client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import LogNotFound, StoreUnavailable
from penstock.model.logs import NewMessage
from tests.simulation.logs_workers import LOG
from tests.simulation.programs import Sleep

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from penstock.client.log import AsyncLog
    from tests.simulation.logs_scheduler import LogScheduler
    from tests.simulation.programs import Program

MAX_PARTITIONS = 4
_MANY = 150
"""more than a segment has, so that retention finds some"""


async def produce(scheduler: LogScheduler, program: Program) -> None:
    """Appends one message, or many of them, with and without a key."""
    random = scheduler.random
    log = program.client.log(LOG, partitions=scheduler.partitions)
    for _ in range(random.randint(3, 8)):
        if scheduler.is_draining:
            return
        try:
            await _append(scheduler, log)
        except StoreUnavailable:
            scheduler.happened("producer gave up")
        await Sleep(random.expovariate(1 / 800))


async def _append(scheduler: LogScheduler, log: AsyncLog) -> None:
    random = scheduler.random
    choice = random.random()
    if choice < 0.5:
        [body] = scheduler.new_bodies(1)
        key = random.choice((None, "red", "green"))
        scheduler.history.accepted(await log.append(body, key=key), body)
        return
    count = random.choice((2, 3, 8)) if choice < 0.95 else _MANY
    bodies = scheduler.new_bodies(count)
    partition = 0 if count == _MANY else None
    await log.append_many([NewMessage(body, partition=partition) for body in bodies])
    lost = [body for body in bodies if body not in scheduler.history.seen]
    assert not lost, f"{lost} were acknowledged and never appended"
    if count == _MANY:
        scheduler.happened("many messages appended")


async def operate(scheduler: LogScheduler, program: Program) -> None:
    """Somebody at a keyboard."""
    random = scheduler.random
    log = program.client.log(LOG)
    for _ in range(random.randint(2, 6)):
        await Sleep(random.expovariate(1 / 1_500))
        if scheduler.is_draining:
            return
        try:
            await random.choice(_OPERATIONS)(scheduler, log)
        except (StoreUnavailable, LogNotFound):
            continue


async def _trim(scheduler: LogScheduler, log: AsyncLog) -> None:
    number, id = _some_message(scheduler)
    is_forced = scheduler.random.random() < 0.3
    if id:
        await log.trim(id=id, partition=number, force=is_forced)
        scheduler.happened("trimmed by an operator")


async def _retain(scheduler: LogScheduler, log: AsyncLog) -> None:
    random = scheduler.random
    max_bytes = 16_000 if random.random() < 0.2 else None
    await log.configure(keep_count=random.choice((1, 50, None)), max_bytes=max_bytes)
    await log.trim()
    scheduler.happened("retention set")


async def _pause(scheduler: LogScheduler, log: AsyncLog) -> None:
    group = log.group(scheduler.random.choice(scheduler.groups))
    await group.pause()
    await Sleep(scheduler.random.expovariate(1 / 1_500))
    await group.resume()
    scheduler.happened("group paused and resumed")


async def _seek(scheduler: LogScheduler, log: AsyncLog) -> None:
    group = log.group(scheduler.random.choice(scheduler.groups))
    number, id = _some_message(scheduler)
    if scheduler.random.random() < 0.3:
        await group.seek()
    elif id:
        await group.seek(id=id, partition=number)
    scheduler.happened("group moved")


async def _grow(scheduler: LogScheduler, log: AsyncLog) -> None:
    partitions = (await log.facts()).partitions
    if partitions < MAX_PARTITIONS:
        await log.configure(partitions=partitions + 1)
        scheduler.happened("partition added")


async def _replay(scheduler: LogScheduler, log: AsyncLog) -> None:
    group = log.group(scheduler.random.choice(scheduler.groups))
    if await group.replay():
        scheduler.happened("errors replayed")


_OPERATIONS = (_trim, _trim, _retain, _pause, _seek, _grow, _replay, _replay)


def _some_message(scheduler: LogScheduler) -> tuple[int, str]:
    """One of those that were ever there."""
    known = scheduler.history.known
    if not known:
        return 0, ""
    number = scheduler.random.choice(sorted(known))
    return number, scheduler.random.choice(known[number])


async def heal(scheduler: LogScheduler, program: Program) -> None:
    """What somebody does when everything is over: nothing stays paused, and groups that stand
    still before a gap go on behind it.
    """
    log = program.client.log(LOG, partitions=scheduler.partitions)
    await log.configure(max_bytes=None)
    for name in scheduler.groups:
        await log.group(name).resume()
    scheduler.is_healed = True
    while not scheduler.is_stopping:
        for group, number in scheduler.standing_still():
            await log.group(group).seek(partition=number)
            scheduler.happened("group moved behind a gap")
        await Sleep(1_000, unless=lambda: scheduler.is_stopping)


ROUTINES = {"producer": produce, "operator": operate, "healer": heal}


def routine(scheduler: LogScheduler, program: Program) -> Coroutine[Any, Any, None]:
    return ROUTINES[program.kind](scheduler, program)
