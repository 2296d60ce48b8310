"""What the tests of the process executor run in children. Imports little, as every child does."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.executors.child import ChildContext


class Job:
    """Stands for the function of a job: takes JSON, gives JSON behind the byte of a codec."""

    def __init__(self, function: Callable[[Any, ChildContext], Any]) -> None:
        self._function = function

    def run_in_child(self, data: bytes, context: ChildContext) -> bytes:
        return b"j" + json.dumps(self._function(json.loads(data), context)).encode()


@Job
def double(number: int, context: ChildContext) -> int:
    return number * 2


@Job
def echo(text: str, context: ChildContext) -> str:
    return text


@Job
def describe_self(_: object, context: ChildContext) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "job": [context.job, context.type, context.queue, context.token, context.attempt],
        "sockets": sum(_is_socket(descriptor) for descriptor in range(256)),
        "is_main_thread": threading.current_thread() is threading.main_thread(),
    }


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


@Job
def tell(_: object, context: ChildContext) -> None:
    context.progress({"done": 1, "of": 2})
    context.log("half way")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("even this fails")


@Job
def fail(how: str, context: ChildContext) -> None:
    if how == "plainly":
        raise KeyError("no such thing")
    if how == "unspeakably":
        raise Unspeakable
    if how == "at length":
        raise ValueError("x" * 1_000_000 + "\ud800")
    if how == "by exit":
        sys.exit(3)
    if how == "out of memory":
        bytearray(1 << 60)


@Job
def die(how: str, context: ChildContext) -> None:
    if how == "exit 0":
        os._exit(0)
    if how == "exit 7":
        os._exit(7)
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
    if how == "SIGSEGV":
        ctypes.string_at(0)
    if how == "close everything":
        os.closerange(3, 256)
        time.sleep(60)


@Job
def use_memory(size_and_then: tuple[int, str], context: ChildContext) -> None:
    size, then = size_and_then
    bytearray(b"x") * size
    if then == "and die":
        os.kill(os.getpid(), signal.SIGKILL)


@Job
def die_beside_a_fork(folder: str, context: ChildContext) -> None:
    """The fork keeps a copy of everything that the child has open."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    Path(folder, "fork").write_text(str(pid))
    os._exit(5)


@Job
def spin(how: str, context: ChildContext) -> None:
    """Never end by itself. `how` is what it does first."""
    folder = Path(how.partition(" ")[2])
    if how.startswith("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper = subprocess.Popen(["sleep", "60"])
    (folder / "helper").write_text(str(helper.pid))
    (folder / "child.new").write_text(str(os.getpid()))
    (folder / "child.new").rename(folder / "child")
    if how.startswith("stuck"):
        re.match(r"(a+)+$", "a" * 60 + "b")  # for years, and with the GIL
    try:
        while True:
            time.sleep(0.01)
    finally:
        (folder / "cleaned up").touch()


@Job
def obey(folder: str, context: ChildContext) -> str:
    Path(folder, "begun").touch()
    while not context.cancelled:
        time.sleep(0.001)
    return "obeyed"


@Job
def burn(seconds: float, context: ChildContext) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
