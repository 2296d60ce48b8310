"""Starting the private server as a process of its own, and its traces in the data folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import ServerFailed
from penstock.server.stamp import check_readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCK = "server.lock"
_LOG = "server.log"
_PID = "server.pid"
_STOPPED = "server.stopped"

# Through a shell that ends at once, so that the server is not our child: it leaves no zombie in the
# process that started it, which never has to wait for it.
_DETACH = f'"$@" & echo $! > {_PID}'


@contextmanager
def life_lock(data: Path) -> Iterator[int | None]:
    """The lock that a server of this folder holds while it lives, or None when one does live.

    Given back at the end, unless a server was launched with it.
    """
    lock = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield lock
    finally:
        # Closed, never unlocked: that would take the lock from the server as well, which shares it.
        os.close(lock)


def launch(binary: Path, data: Path, socket: Path, lock: int) -> None:
    """Start a server that outlives this process and holds `lock` as long as it lives.

    Returns before the server answers. Raises ServerFailed if it could not read the data.
    """
    check_readable(data, binary)
    (data / _STOPPED).unlink(missing_ok=True)
    launch_detached([binary, *_options(data, socket)], data, lock)


def launch_detached(command: list[str | Path], data: Path, lock: int) -> None:
    """Start a program in its data folder that outlives this process and holds `lock` as long as it
    lives. Its output is the log there.
    """
    try:
        with _fresh_log(data).open("wb") as log:
            subprocess.run(
                ["/bin/sh", "-c", _DETACH, "sh", *command],
                cwd=data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
                umask=0o077,
                check=True,
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ServerFailed(
            f"'{command[0]}' could not be started in '{data}': {error}; "
            "make the folder writable or choose another one (PENSTOCK_DATA)"
        ) from error


def was_ever_started(data: Path) -> bool:
    return (data / _LOCK).exists()


def note_stop(data: Path, is_wanted: bool) -> None:
    """Tell clients whether somebody wants the server to be gone. A launch forgets it."""
    if is_wanted:
        (data / _STOPPED).touch(mode=0o600)
    else:
        (data / _STOPPED).unlink(missing_ok=True)


def is_stop_wanted(data: Path) -> bool:
    return (data / _STOPPED).exists()


def forget(data: Path, socket: Path | None = None) -> None:
    """Remove what a server leaves behind outside its data; only while holding the lock."""
    (data / _PID).unlink(missing_ok=True)
    if socket is not None and socket.parent != data:
        socket.unlink(missing_ok=True)
        with suppress(OSError):
            socket.parent.rmdir()


def recorded_pid(data: Path) -> int | None:
    """The server started last, for people to read: it may have ended and its pid be another's."""
    with suppress(OSError, ValueError):
        return int((data / _PID).read_text())
    return None


def ended_on_request(data: Path) -> bool:
    """Whether the last server was stopped, by another process for one, rather than failed."""
    return "ready to exit, bye bye" in last_log_lines(data, limit=1)


def last_log_lines(data: Path, limit: int = 10) -> str:
    try:
        lines = (data / _LOG).read_text(errors="replace").splitlines()[-limit:]
    except OSError as error:
        return f"  (no log: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines) or "  (empty)"


def _fresh_log(data: Path) -> Path:
    log = data / _LOG
    with suppress(FileNotFoundError):
        # The log of the last server is kept, to see why it ended; older ones would pile up.
        log.replace(data / f"{_LOG}.1")
    return log


def _options(data: Path, socket: Path) -> list[str | Path]:
    """The settings of the server, with names that Redis 6.2, Redis 7 and Valkey share."""
    return [
        *("--port", "0"),
        *("--unixsocket", socket),
        *("--unixsocketperm", "700"),
        *("--daemonize", "no"),
        *("--dir", data),
        *("--save", ""),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        *("--aof-load-truncated", "yes"),
        *("--maxmemory-policy", "noeviction"),
    ]
