"""Programs that need an event loop, on a clock that stands still until the scheduler moves it."""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
import sys
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from penstock.model.workers import lease_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from types import ModuleType

_CLOCKS = (time.monotonic, time.perf_counter, lease_clock)


class VirtualLoop:
    """An event loop that waits for nothing: whoever owns it says when it goes on. What the process
    waits for is a future, and who has the answer sets it. It has what coroutines ask of a loop;
    what is about sockets, signals and other processes is left out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.time = clock
        self.failures: list[BaseException] = []
        """what callbacks have raised"""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """What asyncio takes it for."""
        return cast("asyncio.AbstractEventLoop", self)

    @property
    def next_at(self) -> float:
        """When there is something to do."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._ready:
            return 0.0
        return self._timers[0][0] if self._timers else float("inf")

    def turn(self) -> None:
        """Do what can be done now; what follows from it is for the next turn."""
        while self._timers and self._timers[0][0] <= self.time():
            self._ready.append(heapq.heappop(self._timers)[2])
        asyncio._set_running_loop(self.as_loop)
        try:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)

    # What asyncio asks of a loop.

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.as_loop, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.as_loop, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.as_loop)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self.as_loop, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # What a task has raised is not in here before the collector comes by, which is chance.
        if "handle" in context and "exception" in context:
            self.failures.append(context["exception"])

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


@contextmanager
def virtual_time(
    clock: Callable[[], float], chance: random.Random, others: Mapping[tuple[str, str], object]
) -> Iterator[None]:
    """While this lasts, every clock and all chance in every module of penstock are these, and
    nothing is logged, as what goes wrong is meant to. `others`: module and name of what else is not
    the machine's.
    """
    logger = logging.getLogger("penstock")
    with ExitStack() as replaced:
        replaced.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        for (name, attribute), stand_in in others.items():
            _replace(replaced, sys.modules[name], attribute, stand_in)
        fake_time = SimpleNamespace(**vars(time))
        fake_time.monotonic = fake_time.perf_counter = clock
        for name, module in list(sys.modules.items()):
            if not name.startswith("penstock."):
                continue
            for attribute, value in list(vars(module).items()):
                if value is time:
                    _replace(replaced, module, attribute, fake_time)
                elif value is random:
                    _replace(replaced, module, attribute, chance)
                elif any(value is known for known in _CLOCKS):
                    _replace(replaced, module, attribute, clock)
        yield


def _replace(replaced: ExitStack, module: ModuleType, attribute: str, stand_in: object) -> None:
    replaced.callback(setattr, module, attribute, getattr(module, attribute))
    setattr(module, attribute, stand_in)
