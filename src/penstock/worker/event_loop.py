"""The event loop of a worker, which jobs share and cannot keep from ending."""

from __future__ import annotations

import asyncio
import ctypes
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvloop

from penstock.errors import WorkerBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger("penstock.worker")

_END_S = 1.0


class WorkerLoop:
    """Unlike `asyncio.run`, it does not wait for tasks that do not let themselves be cancelled, nor
    for threads of `asyncio.to_thread`; and it tells a worker that has ended from one that was torn
    out of its loop.
    """

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._threads = _Threads(thread_name_prefix="asyncio")
        self._loop.set_default_executor(self._threads)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it to its end, and raise what it raises.

        Raises WorkerBroken if something else has ended the loop, or cancelled the work: a job that
        calls `loop.stop`, or `sys.exit` in a callback or a task.
        """
        task = self._loop.create_task(work)
        try:
            self._loop.run_until_complete(task)
        except BaseException as error:
            if task.done() and not task.cancelled():
                raise
            raise WorkerBroken(
                f"a job has ended the event loop of its worker ({error!r}), which counts as a "
                "crash of all that ran there; let a job end by returning or raising, and never "
                "stop the loop, cancel tasks that are not its own or call sys.exit outside of it"
            ) from error

    def call(self, act: Callable[[], None]) -> None:
        """Have something done on the loop, from any thread or a signal handler."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(act)

    def close(self) -> list[str]:
        """Cancel what is left on the loop, and close it. Returns what did not end: tasks, which
        stay where they are, and threads, which go on.
        """
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._try(asyncio.wait(tasks, timeout=_END_S))
        self._try(asyncio.wait_for(self._loop.shutdown_asyncgens(), _END_S))
        stubborn = [task for task in tasks if not task.done()]
        unended = [f"task {task.get_name()!r}" for task in stubborn]
        if busy := self._threads.busy:
            unended.append(f"{busy} of the threads of asyncio.to_thread")
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._loop.close()
        for task in stubborn:
            _keep_for_ever(task)
        return unended

    def _try(self, work: Coroutine[Any, Any, Any]) -> None:
        """What jobs have left behind may end the loop once more."""
        try:
            self._loop.run_until_complete(work)
        except BaseException as error:
            work.close()
            log.warning("the event loop was ended while it was being closed error=%r", error)


def _keep_for_ever(task: asyncio.Task[Any]) -> None:
    """Never let Python collect a task that has caught a cancel: its code would go on then, where no
    loop runs, and could keep the whole process busy (`while True`, with an `except` for all).
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


class _Threads(ThreadPoolExecutor):
    """The default ones of the loop; they say how many are busy."""

    _under_way: set[Future[Any]]

    def __init__(self, thread_name_prefix: str) -> None:
        super().__init__(thread_name_prefix=thread_name_prefix)
        self._under_way = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    @property
    def busy(self) -> int:
        return sum(future.running() for future in list(self._under_way))
