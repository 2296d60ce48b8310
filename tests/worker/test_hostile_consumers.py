"""Consumers that do what no consumer should: the partition goes on, and so does the worker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.worker.handlers import collect_handlers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker

pytestmark = pytest.mark.stores("debian")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unspeakable(), "Unspeakable: <its text could not be made"),
        (ValueError("a\udc80b"), r"ValueError: a\udc80b"),
        (ValueError("long " * 100_000), "ValueError: long long"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
    ],
    ids=["no text", "lone surrogate", "long", "exit", "interrupt"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
def test_whatever_a_consumer_raises_is_noted_and_the_partition_goes_on(
    ps: penstock.Penstock,
    start_worker: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    reason: str,
    is_async: bool,
) -> None:
    # pytest-xdist cannot pass on what is captured of a lone surrogate.
    monkeypatch.setattr(logging.getLogger("penstock.worker"), "propagate", False)
    log = ps.log("clicks")
    log.append_many([b"bad", b"good"])
    done: list[bytes] = []

    def read(message: penstock.Message) -> None:
        if message.body == b"bad":
            raise error
        done.append(message.body)

    async def read_async(message: penstock.Message) -> None:
        read(message)

    mark = penstock.consumer("clicks", "g", attempts=1)
    start_worker(collect_handlers([mark(read_async) if is_async else mark(read)]))

    wait_for(lambda: done == [b"good"])
    [noted] = log.group("g").errors(0)
    assert noted.message.body == b"bad"
    assert noted.reason.startswith(reason)
    assert len(noted.reason) <= 1000


def test_a_coroutine_that_a_plain_function_returns_has_handled_nothing(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    log = ps.log("clicks")
    log.append(b"x")

    async def work(message: penstock.Message) -> None: ...

    def forgets(message: penstock.Message) -> object:
        return work(message)

    mark = penstock.consumer("clicks", "g", attempts=1)
    start_worker(collect_handlers([mark(forgets)]))

    wait_for(lambda: list(log.group("g").errors(0)))
    [noted] = log.group("g").errors(0)
    assert "the consumer returned a coroutine, which nobody runs" in noted.reason
