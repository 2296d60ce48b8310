"""What a simulation is made of: programs, their routines, and the requests on their way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from penstock.client.client import AsyncPenstock
from penstock.connection.store import AsyncStore
from penstock.store.script import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from penstock.client.session import AsyncWorkerSession
    from penstock.connection.settings import Settings
    from penstock.connection.wire import Meanwhile
    from penstock.store.command import Command
    from tests.simulation.engine import Engine

R = TypeVar("R")


class Ask:
    """A request on its way: what a coroutine hands to the scheduler. The answer is the reply."""

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        self.sent = 0
        """how often it may have reached the server"""

    def __await__(self) -> Generator[Ask, Any, list[Any]]:
        reply: list[Any] = yield self
        return reply


class Reading:
    """A command of Redis that only reads, in the form of one of ours."""

    def __init__(self, key: str, parts: tuple[Any, ...]) -> None:
        self.script = SimpleNamespace(name=parts[0])
        self.keys = (key,)
        self.arguments = parts


class Sleep:
    """Time passes, until something has come true if that is sooner."""

    def __init__(self, ms: float = math.inf, unless: Callable[[], bool] | None = None) -> None:
        self.ms = ms
        self.unless = unless

    def __await__(self) -> Generator[Sleep, Any, None]:
        yield self


class SimulatedStore(AsyncStore):
    """The real store, lanes and all; only the sending and sending again is the scheduler's."""

    async def _send(
        self, command: Command[Any], retry_for_s: float | None, meanwhile: Meanwhile = None
    ) -> list[Any]:
        return await Ask(command)

    async def call(self, key: str, *parts: bytes | str | int) -> Any:
        return await Ask(cast("Any", Reading(key, parts)))


class SilentHeartbeat:
    """Stands in for the two threads of a session, which are routines of their own here."""

    is_paused = False

    def start(self) -> None: ...

    def stop(self) -> None: ...


def new_client(settings: Settings) -> AsyncPenstock:
    client = AsyncPenstock(settings)
    client.store = SimulatedStore(settings.address, dialect=SIMULATED)
    return client


class Hands(Protocol):
    """What a worker believes that it holds."""

    session: AsyncWorkerSession

    def pause(self, is_paused: bool) -> None:
        """Start nothing for now, or go on."""


class Routine:
    """One coroutine of a program."""

    def __init__(self, program: Program, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self.program = program
        self.coroutine = coroutine
        self.name = name
        self.ask: Ask | None = None
        self.wake_at = 0.0
        self.unless: Callable[[], bool] | None = None
        self.done_last = ""
        """the last script that was answered"""
        self.incarnations: set[str] = set()
        """those that it has yet to create a queue with, or to take off the list of queues"""

    @property
    def ready_at(self) -> float:
        is_ready = self.ask is not None or (self.unless is not None and self.unless())
        return max(0.0 if is_ready else self.wake_at, self.program.paused_until)

    def resume(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Go on until the next request or sleep; False if it has ended."""
        self.ask = self.unless = None
        try:
            step = self.coroutine.throw(error) if error else self.coroutine.send(value)
        except StopIteration:
            return False
        if isinstance(step, Ask):
            self.ask = step
        else:
            assert isinstance(step, Sleep)
            self.wake_at = self.program.scheduler.now_ms + step.ms
            self.unless = step.unless
        return True

    def __str__(self) -> str:
        hands = self.program.hands
        worker = f" {hands.session.id}" if hands else ""
        return f"{self.program.name}{worker} {self.name}"


@dataclass(eq=False)
class Program:
    """A process of the operating system: its routines crash and stop together."""

    scheduler: Engine
    kind: str
    name: str
    client: AsyncPenstock
    routines: list[Routine] = field(default_factory=list)
    paused_until: float = 0.0
    hands: Any = None
    """what a worker believes that it holds; see `Hands`"""
    stages: list[str] = field(default_factory=list)
    """what a writer of a batch has staged"""

    @property
    def is_serving(self) -> bool:
        return self.kind in ("worker", "sweeper")

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self.routines.append(Routine(self, coroutine, name))

    def close(self) -> None:
        for routine in self.routines:
            routine.coroutine.close()
        self.routines.clear()
