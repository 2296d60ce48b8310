"""What the workers of the chaos tests do. A task says it itself: its id, a verb, a number and
whatever makes it big.
"""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path
from threading import Event

import penstock
from tests.chaos.journal import Journal, Record

JOURNAL = "PENSTOCK_CHAOS_JOURNAL"
GATE = "PENSTOCK_CHAOS_GATE"
QUEUE = "chaos"


def make_task(name: str, verb: str = "take", ms: int = 0, padding: int = 0) -> bytes:
    """take: lasts `ms`; spin: keeps the processor busy for `ms`; wait: until the gate is open;
    die: takes the worker with it.
    """
    return f"{name} {verb} {ms} {'x' * padding}".encode()


def name_of(task: bytes) -> str:
    return task.split(b" ", 1)[0].decode()


@penstock.handler(QUEUE)
def perform(task: bytes, context: penstock.Context) -> None:
    name, verb, ms, _ = task.decode().split(" ", 3)
    journal = _journal()
    journal.write(Record("start", name, context.token, context.worker))
    _VERBS[verb](int(ms) / 1000)
    journal.write(Record("end", name, context.token, context.worker))


@cache
def _journal() -> Journal:
    return Journal(Path(os.environ[JOURNAL]))


def _take(seconds: float) -> None:
    Event().wait(seconds)


def _spin(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass


def _wait(_: float) -> None:
    gate = Path(os.environ[GATE])
    while not gate.exists():
        Event().wait(0.01)


def _die(_: float) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_VERBS = {"take": _take, "spin": _spin, "wait": _wait, "die": _die}
