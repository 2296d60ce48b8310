"""Running a worker until it is told to stop: from Python, and from the command line."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvloop

from penstock.worker.handlers import choose_handlers, load_handlers
from penstock.worker.shared_memory import SharedMemory
from penstock.worker.stop_requests import StopRequests, stop_signals
from penstock.worker.totals import Report
from penstock.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from types import FrameType

    from penstock.client.client import AsyncPenstock, Penstock
    from penstock.connection.settings import Settings
    from penstock.worker.handlers import Function, Served

_SERVE_STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
"""a program that serves may have a use of its own for a hang-up"""


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
    _run_until_stopped(Worker(client.settings, handlers, **options), _SERVE_STOPS)


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
    """Serve queues with the handlers of a module until SIGTERM, SIGINT or SIGHUP; the exit status.
    With `shared`, this process is the worker's own, and its supervisor, if there is one, is told
    of it. `report` is a file to keep.
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
        worker.on_stop = shared.stop_asked
    _run_until_stopped(worker, stop_signals(), shared, None if report is None else Report(report))
    return 0


def _run_until_stopped(
    worker: Worker,
    signals: Collection[signal.Signals],
    shared: SharedMemory | None = None,
    report: Report | None = None,
) -> None:
    """Signals only set a flag; the worker acts on it where nothing is half done. With `shared`, the
    process ends afterwards.
    """
    told = shared or SharedMemory()
    requests = StopRequests(told)

    def stop() -> None:
        for _ in range(requests.heard()):
            worker.stop()

    async def work() -> None:
        loop = asyncio.get_running_loop()

        def hear(signum: int, frame: FrameType | None) -> None:
            told.stop_asked(1)  # at once, as the loop may be blocked
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(stop)

        before = {signum: signal.signal(signum, hear) for signum in signals}
        try:
            if report is None:
                await worker.run()
            else:
                await report.keep_while(worker, worker.run())
        finally:
            for signum, handler in before.items():
                # In a process that ends, one more request changes nothing.
                signal.signal(signum, handler if shared is None else signal.SIG_IGN)

    _keep_signals_from_children(signals)
    uvloop.run(work())


def _keep_signals_from_children(signals: Collection[signal.Signals]) -> None:
    """A process that a handler forks would tell its signals to this worker's event loop.

    So it forgets that it ever listened, and signals wait until it has.
    """
    masks: list[set[signal.Signals]] = []

    def hold_back() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, signals))  # type: ignore[arg-type]

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    def forget() -> None:
        signal.set_wakeup_fd(-1)
        for signum in signals:
            is_key = signum == signal.SIGINT
            signal.signal(signum, signal.default_int_handler if is_key else signal.SIG_DFL)
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=forget)
