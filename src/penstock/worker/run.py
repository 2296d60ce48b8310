"""Running a worker until it is told to stop: from Python, and from the command line."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidArgument, WorkerBroken
from penstock.worker.event_loop import WorkerLoop
from penstock.worker.giving_back import give_back
from penstock.worker.handlers import choose_handlers, load_handlers
from penstock.worker.own_process import OwnProcess
from penstock.worker.shared_memory import SharedMemory
from penstock.worker.signals import stopped_by
from penstock.worker.stop_requests import stop_signals
from penstock.worker.supervisor import RENEWED
from penstock.worker.totals import Report
from penstock.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from pathlib import Path

    from penstock.client.client import AsyncPenstock, Penstock
    from penstock.connection.settings import Settings
    from penstock.worker.handlers import Function, Served

    Work = Coroutine[Any, Any, None]

log = logging.getLogger("penstock.worker")


def serve(
    client: Penstock | AsyncPenstock,
    handlers: Iterable[Served] | Mapping[str, Function],
    *,
    stop: threading.Event | None = None,
    **options: Any,
) -> list[str]:
    """Work until SIGTERM or SIGINT, on the store of `client`, or until `stop` is set; with
    `until_empty`, at most until nothing is left in the queues. In a thread that is not the main one
    it cannot hear signals, so `stop` is the way to end it.

    `handlers` are functions marked with `@penstock.handler` or `@penstock.job`, with
    `@penstock.backoff` those that jobs name, and hooks (`@penstock.lifespan`,
    `@penstock.middleware`); or a mapping from queue to function.
    Other options are those of `Worker`: concurrency, grace_s, name, lease_ms, heartbeat_ms, strict,
    weights, until_empty, max_jobs, max_memory.

    Returns what still runs, in words; usually nothing does. What is not done in the grace time is
    given back, but a thread cannot be ended. Nothing that comes of it counts, and another worker
    may be running the same.

    Raises WorkerBroken if a job has ended the event loop.
    """
    _refuse_running_loop()
    worker = Worker(client.settings, handlers, **options)
    return _run_as_guest(worker, client.settings, worker.run(), stop)


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
    on_loaded: Callable[[], None] = lambda: None,
    max_jobs: int | None = None,
    max_memory: int | None = None,
) -> int:
    """Serve queues with the handlers of a module until SIGTERM, SIGINT or SIGHUP; the exit status.
    With `shared`, this process is the worker's own, and its supervisor, if there is one, is told
    of it. `report` is a file to keep. `on_loaded` is called when the module was imported. The
    status is RENEWED if the worker has ended to be started again.
    """
    loaded = load_handlers(module)
    on_loaded()
    handlers = choose_handlers(loaded, queues, module)
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
        max_jobs=max_jobs,
        max_memory=max_memory,
    )
    work = worker.run() if report is None else Report(report).keep_while(worker, worker.run())
    if shared is None:
        _run_as_guest(worker, settings, work)
    else:
        worker.events.renewed = shared.beats.renewed
        shared.beats.describe(lease_ms, heartbeat_ms, concurrency)
        _run_in_own_process(worker, OwnProcess(settings, shared, grace_s), work, shared)
    return RENEWED if worker.is_renewed else 0


def _run_as_guest(
    worker: Worker, settings: Settings, work: Work, stop: threading.Event | None = None
) -> list[str]:
    """In the process of a program that goes on afterwards. Returns what still runs."""
    shared, loop = SharedMemory(), WorkerLoop()
    worker.owns_loop = True
    worker.events.registered = shared.name_worker
    is_main_thread = threading.current_thread() is threading.main_thread()
    # The program may have a use of its own for a hang-up.
    signals = (signal.SIGTERM, signal.SIGINT) if is_main_thread else ()
    if stop is not None:
        _stop_when_set(stop, worker, loop)
    try:
        with stopped_by(signals, worker, loop, shared):
            loop.run(work)
    except WorkerBroken as error:
        if shared.worker:
            give_back(settings, shared.worker, how=f"{error.__cause__!r} on its event loop")
        raise
    finally:
        left = loop.close()
    unended = [*worker.unended, *left]
    if unended:
        log.warning("the worker has ended, but this still runs: %s", ", ".join(unended))
    return unended


def _run_in_own_process(
    worker: Worker, process: OwnProcess, work: Work, shared: SharedMemory
) -> None:
    """In a process that ends afterwards."""
    loop = WorkerLoop()
    worker.owns_loop = worker.owns_process = True
    worker.events.registered = shared.name_worker
    worker.events.stop_asked = process.stop_asked
    signals = stop_signals()
    with stopped_by(
        *(signals, worker, loop, shared),
        at_once=lambda: process.stop_asked(1),
        restores=False,
    ):
        try:
            loop.run(work)
        except WorkerBroken as error:
            process.break_off(error)
    for signum in signals:
        signal.signal(signum, signal.SIG_IGN)  # it is ending, and one more changes nothing
    if worker.has_given_up:
        process.give_up()
    loop.close()


def _stop_when_set(stop: threading.Event, worker: Worker, loop: WorkerLoop) -> None:
    def wait() -> None:
        stop.wait()
        loop.call(worker.stop)

    threading.Thread(target=wait, name="penstock-stop", daemon=True).start()


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidArgument(
        "serve() needs an event loop of its own, and one is running in this thread, as in a "
        "notebook; call it in another thread (`await asyncio.to_thread(penstock.serve, ps, [job], "
        "stop=event)`), or `await penstock.Worker(ps.settings, [job]).run()` here"
    )
