"""`penstock worker run`: from a module name to a working worker, and out again on a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

import uvloop

from penstock.worker.handlers import choose_handlers, load_handlers
from penstock.worker.worker import Worker

if TYPE_CHECKING:
    from penstock.client.settings import Settings

log = logging.getLogger("penstock.worker")


def run_worker(
    settings: Settings,
    module: str,
    queues: list[str],
    concurrency: int,
    grace_s: float,
    name: str | None,
    lease_ms: int,
    heartbeat_ms: int,
) -> int:
    """Serve queues with the handlers of a module until SIGTERM or SIGINT; returns the exit
    status.
    """
    handlers = choose_handlers(load_handlers(module), queues, module)

    async def work() -> None:
        worker = Worker(
            settings,
            handlers,
            concurrency=concurrency,
            grace_s=grace_s,
            name=name,
            lease_ms=lease_ms,
            heartbeat_ms=heartbeat_ms,
        )
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, worker.stop)
        await worker.run()

    uvloop.run(work())
    return 0
