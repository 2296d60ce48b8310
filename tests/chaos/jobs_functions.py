"""What the workers of the chaos tests do with jobs. Each execution is noted in a journal, with the
token under which it ran, and a job returns that token.

Child processes import this module, so it imports little.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import cache
from pathlib import Path
from threading import Event
from time import time

import penstock
from tests.chaos.handlers import JOURNAL, QUEUE
from tests.chaos.jobs_journal import JobJournal, JobRecord

LIMITED_AT_ONCE = 3


@penstock.job(queue=QUEUE)
def quick(name: str) -> int:
    return _perform(name, 0)


@penstock.job(queue=QUEUE)
def slow(name: str, ms: int) -> int:
    return _perform(name, ms)


@penstock.job(queue=QUEUE, attempts=20, backoff=penstock.exponential(0.05, 0.4))
def flaky(name: str, fails: int) -> int:
    return _perform(name, 5, fails)


@penstock.job(queue=QUEUE, attempts=3, backoff=penstock.fixed(0.05))
def doomed(name: str) -> int:
    return _perform(name, 2, fails=1000)


@penstock.job(queue=QUEUE, process=True)
def isolated(name: str, ms: int) -> int:
    return _perform(name, ms)


@penstock.job(queue=QUEUE)
async def patient(name: str, ms: int) -> int:
    _note("start", name)
    await asyncio.sleep(ms / 1000)
    return _note("end", name)


@penstock.job(queue=QUEUE)
def single(name: str, ms: int) -> int:
    """Sent with a unique key."""
    return _perform(name, ms)


@penstock.job(queue=QUEUE, key="host")
def limited(name: str, ms: int) -> int:
    """No more than `LIMITED_AT_ONCE` at a time."""
    return _perform(name, ms)


@penstock.job(queue=QUEUE)
def tick(name: str) -> int:
    """Sent by a schedule."""
    return _perform(name, 0)


@penstock.job(queue=QUEUE, attempts=10)
def deadly(name: str) -> None:
    """Takes the worker with it."""
    _note("start", name)
    os.kill(os.getpid(), signal.SIGKILL)


def _perform(name: str, ms: int, fails: int = 0) -> int:
    token = _note("start", name)
    Event().wait(ms / 1000)
    if penstock.current().attempt <= fails:
        _note("fail", name)
        raise ConnectionError(f"attempt {penstock.current().attempt} of {name}")
    _note("end", name)
    return token


def _note(kind: str, name: str) -> int:
    job = penstock.current()
    _journal().write(JobRecord(kind, name, job.job, job.attempt, job.token, time()))
    return job.token


@cache
def _journal() -> JobJournal:
    return JobJournal(Path(os.environ[JOURNAL]))
