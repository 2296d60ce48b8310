"""The same jobs in a thread, on the event loop and in a process, and what they can be told to do.

Child processes import this module, so it imports little.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import penstock
from penstock.errors import NoResources


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("even this fails")


class Passing(Exception):
    """Worth another try."""


class Hopeless(Exception):
    """Worth none."""


class Broken(dict[str, int]):
    """Cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("the database is gone")


class HalfRetry(penstock.Retry):
    """Forgets to call what it overrides."""

    def __init__(self, why: str) -> None:
        self.why = why


def behave(how: str) -> Any:
    job = penstock.current()
    match how:
        case "describe itself":
            return {"job": job.job, "type": job.type, "queue": job.queue, "attempt": job.attempt}
        case "talk":
            for number in range(100):
                job.log("line %d", number)
                job.progress(number + 1, 100, {"step": number})
        case "return an object":
            return object()
        case "return nan":
            return [float("nan")]
        case "return what breaks":
            return Broken(a=1)
        case "ask half for a retry":
            raise HalfRetry("why not")
        case "say that another was cancelled":
            raise penstock.errors.JobCancelled("job 7 was cancelled, so it has no result")
        case "return too much":
            return "x" * 2_000_000
        case "raise":
            raise KeyError("no such thing")
        case "raise what cannot be said":
            raise Unspeakable
        case "exit":
            sys.exit(3)
        case "reject":
            raise penstock.Reject("of no use")
        case "retry later":
            if job.attempt < 3:
                raise penstock.Retry(after=0.05)
        case "fail in passing":
            if job.attempt < 3:
                raise Passing("again")
        case "fail for good":
            raise Hopeless("never again")
        case "fail as nobody expected":
            raise KeyError("what is this")
        case "report too much":
            job.progress(1, 2, "x" * 70_000)
        case "report nonsense":
            job.progress(float("nan"))
        case _:
            raise AssertionError(how)
    return how


@penstock.job(queue="mail", type="thread")
def in_thread(how: str) -> Any:
    return behave(how)


@penstock.job(queue="mail", type="coroutine")
async def in_coroutine(how: str) -> Any:
    await asyncio.sleep(0)
    return behave(how)


@penstock.job(queue="mail", type="process", process=True)
def in_process(how: str) -> Any:
    return behave(how)


EVERYWHERE = (in_thread, in_coroutine, in_process)


def _known_by_another_name(how: str) -> Any:
    return behave(how)


renamed = penstock.job(queue="mail", type="renamed", process=True)(_known_by_another_name)


@penstock.job(queue="mail", type="picky thread", retry_on=(Passing,), attempts=5, backoff="none")
def picky_in_thread(how: str) -> Any:
    return behave(how)


@penstock.job(
    queue="mail",
    type="picky process",
    retry_on=(Passing,),
    attempts=5,
    backoff="none",
    process=True,
)
def picky_in_process(how: str) -> Any:
    return behave(how)


@penstock.job(queue="mail", type="doomed thread", dead_on=(Hopeless,), attempts=2, backoff="none")
def doomed_in_thread(how: str) -> Any:
    return behave(how)


@penstock.job(
    queue="mail",
    type="doomed process",
    dead_on=(Hopeless,),
    attempts=2,
    backoff="none",
    process=True,
)
def doomed_in_process(how: str) -> Any:
    return behave(how)


def _raise_flag(flag: str) -> None:
    Path(flag).touch()


# Jobs that last. `flag` is a file that says that they have begun.


@penstock.job(queue="mail", type="long thread")
def long_in_thread(flag: str) -> str:
    """Ends when it sees that it is cancelled, and not before."""
    _raise_flag(flag)
    while not penstock.current().cancelled:
        time.sleep(0.001)
    return "obeyed"


@penstock.job(queue="mail", type="long coroutine")
async def long_in_coroutine(flag: str) -> None:
    _raise_flag(flag)
    await asyncio.sleep(60)


@penstock.job(queue="mail", type="long process", process=True)
def long_in_process(flag: str) -> str:
    _raise_flag(flag)
    while not penstock.current().cancelled:
        time.sleep(0.001)
    return "obeyed"


@penstock.job(queue="mail", type="deaf process", process=True)
def deaf_in_process(flag: str) -> None:
    _raise_flag(flag)
    time.sleep(60)


@penstock.job(queue="mail", type="killer", process=True)
def kill_own_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@penstock.job(queue="mail", type="leaver", process=True)
def leave_own_process() -> None:
    os._exit(7)


@penstock.job(queue="mail", type="ask for resources", process=True)
def ask_for_resources() -> str:
    try:
        return str(penstock.current().resources)
    except NoResources as error:
        return str(error)
