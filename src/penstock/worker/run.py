"""Running a worker until it is told to stop: from Python, and from the command line."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import uvloop

from penstock.worker.handlers import choose_handlers, load_handlers
from penstock.worker.supervisor import StopRequests
from penstock.worker.totals import Report
from penstock.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from penstock.client.client import AsyncPenstock, Penstock
    from penstock.connection.settings import Settings
    from penstock.worker.handlers import Function, Served
    from penstock.worker.supervisor import SharedMemory

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def serve(
    client: Penstock | AsyncPenstock,
    handlers: Iterable[Served] | Mapping[str, Function],
    **options: Any,
) -> None:
    """Work until SIGTERM or SIGINT, on the store of `client`; with `until_empty`, at most until
    nothing is left in the queues.

    `handlers` are functions marked with `@penstock.handler` or `@penstock.job`, and with
    `@penstock.backoff` those that jobs name; or a mapping from queue to function.
    Options are those of `Worker`: concurrency, grace_s, name, lease_ms, heartbeat_ms, strict,
    weights, until_empty.
    """
    run_until_stopped(Worker(client.settings, handlers, **options))


def run_worker(
    settings: Settings,
    module: str,
    queues: list[str],
    concurrency: int,
    grace_s: float,
    name: str | None,
    lease_ms: int,
    heartbeat_ms: int,
    strict: bool = False,
    weights: Mapping[str, int] | None = None,
    until_empty: bool = False,
    report: Path | None = None,
    shared: SharedMemory | None = None,
) -> int:
    """Serve queues with the handlers of a module until SIGTERM or SIGINT; the exit status. With
    `shared`, a supervisor is watching. `report` is a file to keep.
    """
    handlers = choose_handlers(load_handlers(module), queues, module)
    worker = Worker(
        settings,
        handlers,
        concurrency=concurrency,
        grace_s=grace_s,
        name=name,
        lease_ms=lease_ms,
        heartbeat_ms=heartbeat_ms,
        modules=[module],
        strict=strict,
        weights=weights,
        until_empty=until_empty,
    )
    if shared is not None:
        worker.on_registered = shared.name_worker
    run_until_stopped(worker, shared, None if report is None else Report(report))
    return 0


def run_until_stopped(
    worker: Worker, shared: SharedMemory | None = None, report: Report | None = None
) -> None:
    """Signals only set a flag; the worker acts on it where nothing is half done."""
    requests = StopRequests(shared)

    def stop() -> None:
        for _ in range(requests.heard()):
            worker.stop()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for signum in _STOPPING:
            loop.add_signal_handler(signum, stop)
        if report is None:
            await worker.run()
        else:
            await report.keep_while(worker, worker.run())

    _keep_signals_from_children()
    uvloop.run(work())


def _keep_signals_from_children() -> None:
    """A process that a handler forks would tell its signals to this worker's event loop.

    So it forgets that it ever listened, and signals wait until it has.
    """
    masks: list[set[signal.Signals]] = []

    def hold_back() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING))  # type: ignore[arg-type]

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    def forget() -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=forget)
