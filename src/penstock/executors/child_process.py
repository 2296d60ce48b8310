"""A child process, seen from the worker: started, spoken with, ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from penstock.errors import JobCrashed
from penstock.executors.death import RSS_UNIT, death_of
from penstock.executors.memory import peak_rss
from penstock.executors.pipe import Pipe

if TYPE_CHECKING:
    from penstock.executors.death import Death
    from penstock.executors.pipe import Message

_SEND_S = 10.0
_LOOK_S = 1.0
"""how often its use of memory is looked at"""


class ChildProcess:
    """Leads a process group of its own, so that what it has started ends with it.

    To be used by one thread: a thread that both signals a process and reaps it cannot signal
    another process that has got the same id meanwhile.
    """

    def __init__(self, modules: list[str], wake: int) -> None:
        """Returns before the child is ready. Raises JobCrashed if none can be started."""
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        passed = (theirs.fileno(), life)
        program = [sys.executable, "-m", "penstock.executors.child"]
        try:
            self._process = subprocess.Popen(
                [*program, *map(str, passed), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(self._life)
            raise JobCrashed(
                f"no process could be started for the job ({error}); "
                "see whether the machine has run out of memory or of process ids"
            ) from error
        finally:
            theirs.close()
            os.close(life)
        self.is_ready = False
        self.is_gone = False
        """it has ended, or will not answer any more; `end` it"""
        self._runs = 0
        self._cpu_s = 0.0
        self._rss_floor = sys.maxsize
        self._rss_seen = 0
        self._look_at = perf_counter() + _LOOK_S
        ours.settimeout(_SEND_S)
        self._pipe = Pipe(ours)
        self._pidfd = _open_pidfd(self.pid)
        self._poll = select.poll()
        for descriptor in (ours.fileno(), self._pidfd, wake):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)
        with suppress(OSError):  # it died at once, which the next read finds out
            self._pipe.send("start", modules=modules, sys_path=[*map(str, sys.path)])

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, data: bytes, **header: Any) -> None:
        """Hand it a job. It says so as soon as the job has begun."""
        self._runs += 1
        try:
            self._pipe.send("run", data, run=self._runs, **header)
        except OSError:
            self.is_gone = True

    def cancel(self) -> None:
        """Tell the job; it ends when it chooses to."""
        with suppress(OSError):  # it has ended, and its last messages are still to be read
            self._pipe.send("cancel", run=self._runs)

    def stop(self) -> None:
        """Tell it to begin nothing more that could be left for later."""
        with suppress(OSError):
            self._pipe.send("stop", run=self._runs)

    def hear(self, until: float) -> list[Message]:
        """Wait until it sends a message, or ends, or `wake` can be read, or `until` comes, or for
        about a second. Messages about an earlier job are left out.
        """
        until = min(until, self._look_at)
        self._poll.poll(max(0.0, until - perf_counter()) * 1000)
        if perf_counter() >= self._look_at:
            self._look()
        # First, so that its last messages have arrived when they are read.
        self._look_for_end()
        messages: list[Message] = []
        while _is_readable(self._pipe.fileno()):
            try:
                messages += self._pipe.receive()
            except (EOFError, OSError, ValueError):
                self.is_gone = True
                break
            if not self.is_gone:
                break
        for message in messages:
            self._note(message)
        return [m for m in messages if m.header.get("run", self._runs) == self._runs]

    def signal(self, number: signal.Signals) -> None:
        """To its group. It leads the group until it is reaped, even when it is dead."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self) -> Death:
        """Kill what is left of its group, and reap it."""
        self.signal(signal.SIGKILL)
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:
            code, peak, cpu_s = -signal.SIGKILL, self._rss_seen, 0.0
        else:
            code = os.waitstatus_to_exitcode(status)
            peak = self._peak(usage.ru_maxrss * RSS_UNIT)
            cpu_s = usage.ru_utime + usage.ru_stime - self._cpu_s
        self._process.returncode = code
        self._pipe.close()
        os.close(self._life)
        if self._pidfd is not None:
            os.close(self._pidfd)
        return death_of(code, peak, cpu_s)

    def _peak(self, max_rss: int) -> int:
        """The most memory that it had during its last job, as far as can be known.

        With an exec, Linux also counts the memory that was in use before it, which after a vfork
        is the worker's. So the figure that the child finds when it is ready is a floor: above it,
        the peak is its own; at it, what was last seen in /proc is closer, if anything was.
        """
        return max_rss if max_rss > self._rss_floor or not self._rss_seen else self._rss_seen

    def _note(self, message: Message) -> None:
        self._cpu_s = message.header.get("cpu_s", self._cpu_s)
        if message.kind == "ready":
            self.is_ready = True
            self._rss_floor = message.header["max_rss"] * RSS_UNIT
        elif message.kind == "begun":
            # The child reports it itself, as it may be dead before the worker reads /proc.
            self._rss_seen = message.header["peak_rss"] or self._rss_seen
            self._look()

    def _look(self) -> None:
        self._rss_seen = peak_rss(self.pid) or self._rss_seen
        self._look_at = perf_counter() + _LOOK_S

    def _look_for_end(self) -> None:
        """Where the system does not say, the end of the pipe has to do; but a fork that outlives
        the child may keep that open.
        """
        if self._pidfd is not None and _is_readable(self._pidfd):
            self.is_gone = True


def _open_pidfd(pid: int) -> int | None:
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
