"""The private Redis that `penstock.connect()` uses when no URL is given.

One server per data folder, shared by all processes of one user, started by the first that needs it
and outliving it.

Whether a server lives is decided by one lock (`flock` on `server.lock`): the process that starts a
server takes it and hands it down, and the server holds it until it exits. The kernel lets go of it
however the server ends, so nothing has to be guessed from what a dead server left: pids are reused,
a socket file outlives a `kill -9` and can be deleted under a living server, and a server that is
starting or ending does not answer. So two servers never write one AOF.

A server that was killed is launched again by the clients that miss it (`revive`), under the same
lock; one that was stopped is not.
"""

from __future__ import annotations

import os
import shlex
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import hiredis

from penstock.errors import ServerFailed
from penstock.server.binary import find_binary, usable_binary
from penstock.server.folder import check_private, data_folder, make_private, socket_path
from penstock.server.process import (
    ended_on_request,
    forget,
    is_stop_wanted,
    last_log_lines,
    launch,
    life_lock,
    note_stop,
    recorded_pid,
    was_ever_started,
)
from penstock.server.stamp import stamp

_POLL_S = 0.01
_ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class ServerStatus:
    """What is known about the private server; what only a running server knows is None if none
    runs.
    """

    is_running: bool
    data: Path
    socket: Path
    url: str
    pid: int | None = None
    server: str | None = None
    """`Redis` or `Valkey`"""
    version: str | None = None
    binary: Path | None = None
    uptime_s: int | None = None
    memory_bytes: int | None = None
    aof_enabled: bool | None = None
    keys: int | None = None
    """Of all databases together; still growing while the server loads its data."""


class EmbeddedServer:
    """The server of one data folder. Holds nothing open: it can be forked, copied and forgotten."""

    def __init__(self, data: Path | None = None, binary: Path | None = None) -> None:
        """Without `data`, `PENSTOCK_DATA`, else the user's data folder; see also `find_binary`."""
        self.data = data_folder(data)
        self.socket = socket_path(self.data)
        self._binary = binary

    @property
    def url(self) -> str:
        """`unix:///path`, percent-encoded where the path needs it."""
        return f"unix://{quote(os.fsencode(self.socket))}"

    def start(self, timeout_s: float = 30.0) -> ServerStatus:
        """Make sure that a server runs and answers; one that runs already is kept.

        A server that is loading its data is waited for as long as it takes: `timeout_s` counts only
        while it is silent.

        Raises ServerNotFound when there is nothing to start, ServerFailed when it does not come up.
        """
        make_private(self.data)
        deadline = time.monotonic() + timeout_s
        has_launched = False
        while True:
            problem = f"does not listen on {self.socket}"
            try:
                info = self._info(timeout_s=min(_ANSWER_TIMEOUT_S, timeout_s))
            except _NoAnswer as error:
                problem = str(error)
            else:
                if info is not None and info["loading"] == "0":
                    stamp(self.data, info)
                    return self._status(info)
                if info is not None:
                    deadline = time.monotonic() + timeout_s
                elif self._launch_unless_alive(is_first=not has_launched):
                    has_launched = True
            if time.monotonic() > deadline:
                raise self._failure(problem, f"within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def revive(self) -> None:
        """Launch a server that has ended, for a client that misses it; unless it was stopped (see
        `stop`), lives, or its folder is gone. Returns before it answers.

        Raises ServerNotFound and ServerFailed as `start` does.
        """
        check_private(self.data)
        if not was_ever_started(self.data):
            return
        with life_lock(self.data) as lock:
            if lock is not None and not is_stop_wanted(self.data):
                self._launch(lock)

    @property
    def start_command(self) -> str:
        """What a person types to start it."""
        command = "penstock server start"
        if self.data != data_folder(None):
            command += f" --data {shlex.quote(str(self.data))}"
        return command

    def status(self) -> ServerStatus:
        """How the server is; a quick look that starts nothing.

        Raises ServerFailed when a server is there but does not answer.
        """
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while True:
            try:
                return self._status(self._info(timeout_s=_ANSWER_TIMEOUT_S))
            except _NoAnswer as error:
                if time.monotonic() > deadline:
                    raise self._failure(str(error), f"within {_ANSWER_TIMEOUT_S:g} s") from error
            # A server that is just ending cuts us off; the next look finds it gone.
            time.sleep(_POLL_S)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Shut the server down with everything written to disk. True if one was running. Clients
        that miss it do not start it again.

        Raises ServerFailed when it is still there after `timeout_s`; it is never killed.
        """
        check_private(self.data)
        if not was_ever_started(self.data):
            return False
        note_stop(self.data, is_wanted=True)
        try:
            return self._stop(time.monotonic() + timeout_s, timeout_s)
        except ServerFailed:
            note_stop(self.data, is_wanted=False)
            raise

    def _stop(self, deadline: float, timeout_s: float) -> bool:
        was_running = False
        while True:
            problem = f"does not listen on {self.socket}"
            try:
                if self._shut_down(max(deadline - time.monotonic(), _POLL_S)):
                    self._tidy_unless_alive()
                    return True
            except _NoAnswer as error:
                problem = str(error)
            # Nothing listens: no server, or one that is just starting or just ending.
            if self._tidy_unless_alive():
                return was_running
            was_running = True
            if time.monotonic() > deadline:
                raise self._failure(problem, f"and could not be stopped within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def _status(self, info: dict[str, str] | None) -> ServerStatus:
        if info is None:
            return ServerStatus(False, self.data, self.socket, self.url)
        return ServerStatus(
            is_running=True,
            data=self.data,
            socket=self.socket,
            url=self.url,
            pid=int(info["process_id"]),
            server="Valkey" if "valkey_version" in info else "Redis",
            version=info.get("valkey_version", info["redis_version"]),
            binary=Path(info["executable"]),
            uptime_s=int(info["uptime_in_seconds"]),
            memory_bytes=int(info["used_memory"]),
            aof_enabled=info["aof_enabled"] == "1",
            keys=sum(
                int(value.split(",")[0].removeprefix("keys="))
                for name, value in info.items()
                if name.startswith("db") and value.startswith("keys=")
            ),
        )

    def _info(self, timeout_s: float) -> dict[str, str] | None:
        """What the server says about itself; None when no server listens."""
        # INFO, not PING: it is answered while the data is loading, too.
        try:
            reply = self._ask("INFO", timeout_s=timeout_s)
        except EOFError as error:
            raise _NoAnswer("closes the connection") from error
        if reply is None:
            return None
        if not isinstance(reply, bytes):
            raise _NoAnswer(f"answers INFO with {str(reply)!r}")
        lines = reply.decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _shut_down(self, timeout_s: float) -> bool:
        """True when the server has gone at our request; False when no server listens."""
        try:
            reply = self._ask("SHUTDOWN", timeout_s=timeout_s)
        except EOFError:
            # A server that obeys flushes the AOF and exits, which closes the connection.
            return True
        if reply is not None:
            raise _NoAnswer(f"refuses to shut down ({reply})")
        return False

    def _ask(self, command: str, timeout_s: float) -> object:
        """The reply to one command, or None when no server listens.

        Raises EOFError when the server closes the connection instead of replying.
        """
        check_private(self.socket.parent)
        reader = hiredis.Reader()
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(timeout_s)
                connection.connect(str(self.socket))
                connection.sendall(hiredis.pack_command((command,)))
                while (reply := reader.gets()) is False:
                    if not (received := connection.recv(65536)):
                        raise EOFError
                    reader.feed(received)
                return reply
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise _NoAnswer(f"does not answer on {self.socket} ({error})") from error

    def _launch_unless_alive(self, is_first: bool) -> bool:
        """True when no server lived and one was launched."""
        with life_lock(self.data) as lock:
            if lock is None:
                return False
            if not is_first and not ended_on_request(self.data):
                raise ServerFailed(
                    f"the private server ended while starting; the reason is in {self._log_quote()}"
                )
            self._launch(lock)
            return True

    def _launch(self, lock: int) -> None:
        binary = usable_binary(self._binary) if self._binary else find_binary()
        make_private(self.socket.parent)
        launch(binary, self.data, self.socket, lock)

    def _tidy_unless_alive(self) -> bool:
        """True when no server lives."""
        with life_lock(self.data) as lock:
            if lock is None:
                return False
            forget(self.data, self.socket)
            return True

    def _failure(self, problem: str, within: str) -> ServerFailed:
        pid = recorded_pid(self.data)
        return ServerFailed(
            f"the private server (pid {pid}) {problem} {within}; if it does not recover, "
            f"end it with `kill {pid}` and start again; see {self._log_quote()}"
        )

    def _log_quote(self) -> str:
        return f"its log in '{self.data}', which ends with:\n{last_log_lines(self.data)}"


class _NoAnswer(Exception):
    """The error for a server that listens, but does not answer as asked, or not yet."""
