"""What the measured workers run: nothing, or a note of when."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import TYPE_CHECKING

from penstock.bench.latency import Stamper
from penstock.worker.handlers import handler

if TYPE_CHECKING:
    from penstock.executors.context import Context

SYNC, ASYNC, STAMPED = "sync", "async", "stamped"
RECORDS = "PENSTOCK_BENCH_RECORDS"


@handler(SYNC)
def nothing(task: bytes, context: Context) -> None:
    pass


@handler(ASYNC)
async def nothing_async(task: bytes, context: Context) -> None:
    pass


@handler(STAMPED)
def stamp(task: bytes, context: Context) -> None:
    arrived_at = time.monotonic_ns()
    _stamper().note(arrived_at, task)


@cache
def _stamper() -> Stamper:
    return Stamper(os.environ[RECORDS])
