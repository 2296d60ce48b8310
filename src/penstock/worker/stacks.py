"""Says on request where a process is: each thread, and each task of its event loop."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_STDERR = 2


def write_stacks_on_request() -> None:
    """From now on SIGUSR1 has them written to stderr, and the process goes on. A program that has a
    use of its own for the signal sets its handler later, and has it.

    Threads are written by the signal handler itself, so also if none of them can run Python code.
    Tasks follow when the main thread can.
    """
    signal.signal(signal.SIGUSR1, _write_tasks)
    faulthandler.register(signal.SIGUSR1, file=_STDERR, all_threads=True, chain=True)


def _write_tasks(signum: int, frame: FrameType | None) -> None:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return  # no event loop is running
    lines = [line for task in tasks for line in _lines(task)]
    sys.stderr.write("\n".join([f"{len(tasks)} tasks of the event loop:", *lines, ""]))
    sys.stderr.flush()


def _lines(task: asyncio.Task[Any]) -> Iterator[str]:
    """Where a task waits: what it has called last comes first, as for threads."""
    yield f"Task {task.get_name()} (most recent call first):"
    awaited: Any = task.get_coro()
    places = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        code = frame.f_code
        places.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_qualname}')
        awaited = awaited.cr_await
    yield from reversed(places)
