"""A worker of logs as a process: an event loop of its own, and requests on their way."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.connection.store import AsyncStore
from penstock.store.script import SIMULATED
from tests.simulation.programs import Ask, Program, Reading, Routine
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.connection.wire import Meanwhile
    from penstock.store.command import Command
    from penstock.worker.pump import Pump
    from tests.simulation.logs_scheduler import LogScheduler

R = TypeVar("R")


class Process(Program):
    """The scheduler decides when its loop turns, and what becomes of each of its requests."""

    scheduler: LogScheduler

    def boot(self, number: int, main: Coroutine[Any, Any, None]) -> None:
        scheduler = self.scheduler
        self.number = number
        self.loop = VirtualLoop(lambda: scheduler.now_ms / 1000)
        self.client.store = ProcessStore(self)
        self.listening: dict[str, Pump] = {}
        """channel -> who hears what is said there"""
        self.is_dead = False
        self.main = self.loop.create_task(main)
        self.routines.append(Turns(self))

    async def request(self, command: Command[Any] | Reading) -> Any:
        """Have a request sent, and wait for the reply."""
        if self.is_dead:
            raise ConnectionError("nobody is there any more")
        request = Request(self, command)
        self.routines.append(request)
        try:
            return await request.reply
        except asyncio.CancelledError:
            if request in self.routines:
                self.routines.remove(request)
                self.scheduler.was_left_alone(command)
            raise

    def close(self) -> None:
        """It is gone, wherever it was. What its coroutines do when they are collected reaches
        nobody.
        """
        self.is_dead = True
        self.routines.clear()

    def bury(self) -> None:
        """Let its coroutines come to an end, in a world in which nothing can happen any more."""
        self.close()
        for slot in self.slots:
            slot.close()
        for _ in range(20):
            for task in asyncio.all_tasks(self.loop.as_loop):
                task.cancel()
            while self.loop.next_at == 0.0:
                self.loop.turn()
            if not asyncio.all_tasks(self.loop.as_loop):
                return

    @property
    def slots(self) -> list[Any]:
        """Executors, which have to be closed."""
        return [self.hands.executor.coroutines] if self.hands is not None else []


class Turns(Routine):
    """The event loop of a process, as the scheduler sees it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.program = process
        self.name = "main"
        self.ask = None
        self.done_last = ""
        self.incarnations = set()

    @property
    def ready_at(self) -> float:
        return max(self.process.loop.next_at * 1000, self.process.paused_until)

    def resume(self, value: Any = None, error: BaseException | None = None) -> bool:
        loop = self.process.loop
        loop.turn()
        if loop.failures:
            raise loop.failures[0]
        if not self.process.main.done():
            return True
        self.process.routines[:] = [self]  # nobody waits for what is still under way
        return False

    def __str__(self) -> str:
        return f"{self.process.name} turns"


class Request(Routine):
    """A request of a process. It goes its way while the process is stopped; the reply waits."""

    def __init__(self, process: Process, command: Command[Any] | Reading) -> None:
        self.process = process
        self.program = process
        self.name = "request"
        self.ask: Ask = Ask(cast("Command[Any]", command))
        self.done_last = ""
        self.incarnations = set()
        self.reply: asyncio.Future[Any] = process.loop.create_future()
        self._sent_at = process.scheduler.now_ms

    @property
    def ready_at(self) -> float:
        # What was sent is on its way, also while nobody is awake to send it again.
        return max(self._sent_at, self.process.paused_until if self.ask.sent else 0.0)

    def resume(self, value: Any = None, error: BaseException | None = None) -> bool:
        if self.reply.done():
            return False
        if error is not None:
            self.reply.set_exception(error)
        else:
            self.reply.set_result(value)
        return False

    def __str__(self) -> str:
        return self.process.name


class ProcessStore(AsyncStore):
    """The real store, lanes and all; only the sending and sending again is the scheduler's."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.scheduler.address, dialect=SIMULATED)
        self.process = process

    async def _send(
        self, command: Command[R], retry_for_s: float | None, meanwhile: Meanwhile = None
    ) -> list[Any]:
        reply: list[Any] = await self.process.request(command)
        return reply

    async def call(self, key: str, *parts: bytes | str | int) -> Any:
        return await self.process.request(Reading(key, parts))


def listen(store: ProcessStore, pumps: list[Pump]) -> list[asyncio.Task[None]]:
    """In the place of a subscription."""
    return [asyncio.create_task(_listen(store.process, pumps))]


async def _listen(process: Process, pumps: list[Pump]) -> None:
    mine = {channel: pump for pump in pumps for channel in pump.source.channels}
    process.listening.update(mine)
    for pump in pumps:
        pump.happen(pump.feed.resubscribed)
    try:
        await asyncio.sleep(math.inf)
    finally:
        for channel, pump in mine.items():
            if process.listening.get(channel) is pump:
                del process.listening[channel]
