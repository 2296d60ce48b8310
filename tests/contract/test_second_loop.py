"""An async client belongs to the event loop on which it was opened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import WrongLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from tests.servers import RedisServer

pytestmark = pytest.mark.stores("debian")

USES: list[Callable[[penstock.AsyncPenstock], Coroutine[object, object, object]]] = [
    lambda ps: ps.jobs("mail").add("send"),
    lambda ps: ps.close(),
]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("use", USES)
def test_on_a_second_loop_it_says_what_to_do(
    server: RedisServer,
    namespace: str,
    loop: asyncio.AbstractEventLoop,
    use: Callable[[penstock.AsyncPenstock], Coroutine[object, object, object]],
) -> None:
    ps = loop.run_until_complete(penstock.aconnect(server.url, namespace=namespace))

    with pytest.raises(WrongLoop, match="open one for each loop"):
        asyncio.run(use(ps))

    loop.run_until_complete(ps.jobs("mail").add("send"))
    loop.run_until_complete(ps.close())
