"""Work that waits behind some that takes long goes back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from penstock.executors.context import Context
from penstock.executors.coroutines import CoroutineExecutor
from penstock.worker.stalls import StallWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.worker.pump import Pump


class Queue:
    """As much of a pump as is asked of it here."""

    def __init__(self, when_held: Callable[[], None] = lambda: None) -> None:
        self.source = cast("Any", object())
        self.feed = SimpleNamespace(look=None, go_on=None)
        self.given_back: list[Context] = []
        self._when_held = when_held

    async def hold_back(self) -> None:
        self._when_held()

    async def give_back(self, contexts: list[Context]) -> None:
        self.given_back += contexts

    def happen(self, event: object) -> None: ...


def test_what_comes_while_others_are_held_back_goes_back_as_well() -> None:
    async def work() -> None:
        executor, pumps = CoroutineExecutor(1), cast("list[Pump]", [])
        late = Queue()
        context = Context(late.source, 1, b"")

        def come() -> None:
            pumps.append(cast("Pump", late))
            executor.submit([context])

        pumps.append(cast("Pump", Queue(come)))
        await StallWatch(executor, pumps, lambda: None).give_back_waiting()

        assert late.given_back == [context]

    asyncio.run(work())
