"""Futures of another thread, in the order in which they are done."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest

from penstock.connection.transport import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def busy_interpreter() -> Iterator[None]:
    """A thread that lets go of the interpreter gets it back late."""
    is_over = threading.Event()

    def burn() -> None:
        while not is_over.is_set():
            pass

    before = sys.getswitchinterval()
    # The shortest: the more often they take turns, the sooner one is held up where it matters.
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=burn, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    sys.setswitchinterval(before)
    for thread in threads:
        thread.join()


@pytest.mark.timeout(60, method="thread")
def test_a_wait_ends_also_if_its_time_is_up_before_it_begins(busy_interpreter: None) -> None:
    ended = threading.Event()

    def wait_often() -> None:
        for _ in range(1000):
            arrivals: Arrivals[int] = Arrivals()
            arrivals.expect(Future())
            assert arrivals.take(1e-6) == []
        ended.set()

    threading.Thread(target=wait_often, daemon=True).start()

    assert ended.wait(50)


def test_all_that_are_done_come_at_once_and_in_order() -> None:
    arrivals: Arrivals[int] = Arrivals()
    futures: list[Future[int]] = [Future() for _ in range(4)]
    for future in futures:
        arrivals.expect(future)

    for number in (2, 0, 1):
        futures[number].set_result(number)

    assert [future.result() for future in arrivals.take(5)] == [2, 0, 1]
    assert arrivals.take(0) == []
    threading.Timer(0.05, futures[3].set_result, [3]).start()
    assert arrivals.take(None) == [futures[3]]


def test_nothing_comes_in_time() -> None:
    arrivals: Arrivals[int] = Arrivals()
    arrivals.expect(Future())
    began_at = time.monotonic()

    assert arrivals.take(0.05) == []

    assert time.monotonic() - began_at >= 0.05
