"""The program of a child process: runs one job after another, as the worker that started it says.

`child_process.py` starts it as `python -m penstock.executors.child PIPE LIFE PARENT`. Nothing
else imports this module, or Python would warn that it is there twice.
"""

from __future__ import annotations

import faulthandler
import fcntl
import importlib
import os
import resource
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from queue import SimpleQueue
from time import process_time
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from penstock.codec.failures import describe
from penstock.errors import HandlerNotFound
from penstock.executors.memory import forget_peak, peak_rss
from penstock.executors.pipe import Pipe

if TYPE_CHECKING:
    from types import FrameType

    from penstock.executors.pipe import Message

_PARENT_POLL_MS = 1000


class ChildFunction(Protocol):
    """What "module:qualname" stands for."""

    def run_in_child(self, data: bytes, context: ChildContext) -> bytes:
        """The encoded result, with the byte of its codec in front."""


class ChildContext:
    """What a job in a child process can ask, and what it can report while it runs."""

    def __init__(self, child: Child, run: int, header: dict[str, Any]) -> None:
        self.job: str = header["job"]
        self.type: str = header["type"]
        self.queue: str = header["queue"]
        self.worker: str = header["worker"]
        self.token: int = header["token"]
        self.attempt: int = header["attempt"]
        self.timeout_s: float = header["timeout_s"]
        self._child = child
        self._run = run
        self._is_over = False

    @property
    def cancelled(self) -> bool:
        """True as soon as the result is not wanted any more; a job that goes on is killed soon
        after.
        """
        return self._child.cancelled_run >= self._run

    @property
    def is_stopping(self) -> bool:
        """Nothing more is to begin of what can end at no cost."""
        return self._child.stopped_run >= self._run

    def progress(self, payload: object) -> None:
        """Anything that JSON can say."""
        self.report("progress", payload)

    def log(self, payload: object) -> None:
        """Anything that JSON can say."""
        self.report("log", payload)

    def report(self, kind: str, payload: object) -> None:
        """Send a report to the worker; not after the job has ended, and not from a fork."""
        if not self._is_over and self._child.is_here:
            self._child.pipe.send("report", run=self._run, what=kind, payload=payload)

    def end(self) -> None:
        self._is_over = True


class Child:
    """Jobs run in the main thread, where signals and most libraries want to be."""

    def __init__(self, pipe: Pipe, parent: int) -> None:
        self.pipe = pipe
        self.cancelled_run = 0
        """runs are numbered; a later one is never cancelled before an earlier one has ended"""
        self.stopped_run = 0
        """the same for runs that are to begin nothing more"""
        self._parent = parent
        self._pid = os.getpid()
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._is_terminated = False

    @property
    def is_here(self) -> bool:
        """False in a fork that a job made."""
        return os.getpid() == self._pid

    def serve(self) -> NoReturn:
        signal.signal(signal.SIGTERM, self._terminate)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        threading.Thread(target=self._read, name="penstock-pipe", daemon=True).start()
        try:
            self._get_ready()
            while True:
                self._run(self._inbox.get())
        except BaseException:
            self._end_if_terminated()
            traceback.print_exc()
            # sys.exit() would wait for threads that jobs have left behind.
            os._exit(1)

    def _get_ready(self) -> None:
        start = self._inbox.get()
        sys.path[:] = start.header["sys_path"]
        try:
            for module in start.header["modules"]:
                importlib.import_module(module)
        except Exception as error:
            self.pipe.send("unready", **describe(error)._asdict())
            os._exit(1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.pipe.send("ready", cpu_s=process_time(), max_rss=peak)

    def _run(self, message: Message) -> None:
        run: int = message.header["run"]
        context = ChildContext(self, run, message.header)
        forget_peak()
        self.pipe.send("begun", run=run, peak_rss=peak_rss(os.getpid()))
        cpu_began_s = process_time()
        result, failure = b"", None
        try:
            result = find(message.header["path"]).run_in_child(message.body, context)
            if not isinstance(result, bytes):
                raise TypeError(f"run_in_child returned {type(result).__name__}, not bytes")
        except BaseException as error:
            failure = describe(error)
        if not self.is_here:
            os._exit(1)  # a fork that a job made has come back here
        context.end()
        _flush()
        self._end_if_terminated()
        total_s = process_time()
        times: dict[str, Any] = {"run": run, "cpu_s": total_s, "run_cpu_s": total_s - cpu_began_s}
        if failure is None:
            self.pipe.send("returned", result, **times)
        else:
            self.pipe.send("raised", **times, **failure._asdict())

    def _read(self) -> None:
        """Read what the worker sends, in a thread of its own: so a running job sees that it is
        cancelled, and the child notices that the worker is gone.
        """
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        try:
            while True:
                if poll.poll(_PARENT_POLL_MS):
                    self._take(self.pipe.receive())
                elif os.getppid() != self._parent:
                    break  # and a fork of it still holds its end of the pipe
        finally:
            die()

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            if message.kind == "cancel":
                self.cancelled_run = message.header["run"]
            elif message.kind == "stop":
                self.stopped_run = message.header["run"]
            else:
                self._inbox.put(message)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """Let the job clean up: it has a second."""
        if not self.is_here:
            os._exit(128 + number)
        self._is_terminated = True
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(128 + number)

    def _end_if_terminated(self) -> None:
        if self._is_terminated and self.is_here:
            _flush()
            os.kill(self._pid, signal.SIGTERM)


def find(path: str) -> ChildFunction:
    """The object that "module:qualname" stands for."""
    module, _, qualname = path.partition(":")
    found: Any = importlib.import_module(module)
    try:
        for name in qualname.split("."):
            found = getattr(found, name)
    except AttributeError:
        raise HandlerNotFound(
            f"a child process finds no {qualname!r} in module {module!r}; "
            "define it at the top level of a module that can be imported by its name"
        ) from None
    if not hasattr(found, "run_in_child"):
        raise HandlerNotFound(
            f"{path!r} is not what was decorated with @penstock.job or @penstock.consumer; let the "
            "decorated function have a name of its own in its module"
        )
    return found  # type: ignore[no-any-return]


def die() -> NoReturn:
    """End this process at once, with every process that jobs have started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def die_with(life: int) -> None:
    """Have the kernel kill this process and its group as soon as no process holds the other end.

    That works even when a job keeps the GIL, so that no thread of ours could see it. Linux only.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def main() -> NoReturn:
    pipe, life, parent = (int(argument) for argument in sys.argv[1:])
    del sys.argv[1:]
    for descriptor in (pipe, life):
        os.set_inheritable(descriptor, False)
    if sys.platform == "linux" and os.getpgrp() == os.getpid():
        die_with(life)
    with suppress(Exception):  # there may be no stderr
        faulthandler.enable()
    Child(Pipe(socket.socket(fileno=pipe)), parent).serve()


if __name__ == "__main__":
    main()
