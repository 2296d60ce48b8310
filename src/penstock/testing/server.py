"""The Redis of a test session: private, and gone when the session is, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.errors import ServerFailed
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

# The private server outlives the process that started it. This shell waits for a line that says
# that all is well; if the pipe breaks instead, the session was killed, and it ends the server.
_GUARD = 'read -r _ || { kill -9 "$1"; rm -rf -- "$2"; }'


@contextmanager
def private_server() -> Iterator[EmbeddedServer]:
    """A server in a temporary folder, for as long as the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    server = EmbeddedServer(folder)
    pid = None
    try:
        pid = server.start().pid
        assert pid is not None
        with _guarded(pid, folder):
            _keep_in_memory(server.url)
            yield server
    finally:
        _end(server, pid)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _guarded(pid: int, folder: Path) -> Iterator[None]:
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", str(pid), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the session, which then tells it
    )
    try:
        yield
    finally:
        guard.communicate(b"\n")


def _keep_in_memory(url: str) -> None:
    """Nothing here is worth a slow disk."""
    store = Store(parse_url(url))
    store.call("", "CONFIG", "SET", "appendonly", "no")
    store.close()


def _end(server: EmbeddedServer, pid: int | None) -> None:
    try:
        server.stop()
        server.stop()  # waits until the process is gone as well
    except ServerFailed:
        if pid is None:
            raise
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
