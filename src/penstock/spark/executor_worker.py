"""A worker on an executor: what one Spark task does that serves a queue.

Spark carries this module to its executors as a value, so that these need no penstock in the Python
of Spark itself. So it imports nothing but the standard library and PySpark.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PATIENCE_S = 10.0
_RESTART_S = 1.0
_COPY_EVERY_S = 0.2
_MOST_LOGGED = 1024 * 1024
_COUNTED = ("finished", "failed", "refused")
_PR_SET_PDEATHSIG, _SIGTERM = 1, 15

# Asks the kernel for SIGTERM when the parent dies, and becomes the program in the arguments.
_TIED = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {_SIGTERM})
if os.getppid() != int(sys.argv[1]):
    sys.exit("its parent has died already")
os.execv(sys.argv[2], sys.argv[2:])
"""


class WorkerNotStarted(Exception):
    """The worker ended before it had joined its queues: something is wrong with its set-up."""


def run_in_task(_: Iterable[object], **plan: Any) -> Iterator[dict[str, Any]]:
    """The body of a Spark task: `run_worker`, with what Spark has brought along."""
    yield run_worker(Path(SparkFiles.getRootDirectory()).resolve(), **plan)


def run_worker(
    root: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    shipped: Sequence[str] = (),
    archives: Sequence[str] = (),
    grace_s: float = 30.0,
    only_host: str = "",
    refusal: str = "",
) -> dict[str, Any]:
    """Run `penstock worker run` with `arguments` until it ends by itself, and say what it has done.

    The worker is a process of its own: Spark has no way to tell a Python process of a cancelled
    task anything before it kills it. A worker that is killed by its work is started again, as a
    service manager would, so that its jobs come under the poison guard and not under the number of
    failures that Spark allows. `shipped` and `archives` are names of files and folders in `root`.
    If there is an `only_host`, the store can be reached from there alone.

    Raises WorkerNotStarted.
    """
    if sys.platform != "linux":
        raise WorkerNotStarted(
            f"this executor runs on {sys.platform!r}, where a worker cannot learn that its Spark "
            "task was cancelled; use executors on Linux"
        )
    if only_host and socket.gethostname() != only_host:
        raise WorkerNotStarted(refusal.replace("HERE", socket.gethostname()))
    command = [python_in(root, archives), "-m", "penstock", "worker", "run", *arguments]
    environment = {**os.environ, **environment, "PYTHONPATH": python_path(root, shipped)}
    began_at = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="penstock-", dir=root))
    try:
        reports = _run_until_done(command, environment, folder, grace_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    counts = {name: sum(each[name] for each in reports) for name in _COUNTED}
    return {
        "worker": reports[-1]["worker"],
        "host": platform.node(),
        **counts,
        "restarts": len(reports) - 1,
        "seconds": round(time.monotonic() - began_at, 3),
    }


def _run_until_done(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, grace_s: float
) -> list[dict[str, Any]]:
    """The reports of a worker, one for each time that it was started."""
    reports: list[dict[str, Any]] = []
    while True:
        report, log = folder / f"report-{len(reports)}", folder / f"log-{len(reports)}"
        status = run_tied([*command, "--report", str(report)], environment, log, grace_s)
        if not report.exists():
            raise WorkerNotStarted(last_words(log, status))
        reports.append(json.loads(report.read_text()))
        if status == 0:
            return reports
        log.unlink()
        time.sleep(_RESTART_S)


def run_tied(
    command: Sequence[str], environment: Mapping[str, str], log: Path, grace_s: float
) -> int:
    """Run a program in a session of its own that gets SIGTERM when this process dies, however it
    does; the exit status. What the program prints is copied to stderr.

    It prints to a file, as a pipe would break together with this process, and with it the last jobs
    that print something.
    """
    with log.open("ab") as output, log.open("rb") as printed:
        child = subprocess.Popen(
            [command[0], "-S", "-c", _TIED, str(os.getpid()), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    return child.wait(_COPY_EVERY_S)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    _copy(printed)
        finally:
            _end(child, grace_s)


def python_in(root: Path, archives: Sequence[str]) -> str:
    """The Python that an archive has brought, else the one that runs this."""
    for archive in archives:
        python = root / archive / "bin" / "python"
        if python.exists():
            return str(python)
    return sys.executable


def python_path(root: Path, shipped: Sequence[str]) -> str:
    """Where the worker finds modules: shipped ones first."""
    packages = [str(root / name) for name in shipped if not name.endswith(".py")]
    return os.pathsep.join(filter(None, [*packages, str(root), os.environ.get("PYTHONPATH")]))


def last_words(log: Path, status: int) -> str:
    """The last text that a program has printed, in one text line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = lines[-1].removeprefix("penstock: ") if lines else "it said nothing"
    return f"a worker on {platform.node()!r} ended with status {status} before it began: {said}"


def _copy(printed: Any) -> None:
    """Hand on what is new. A long log begins anew; what is printed just then is not seen."""
    if text := printed.read():
        sys.stderr.write(text.decode(errors="replace"))
        sys.stderr.flush()
    if printed.tell() > _MOST_LOGGED:
        os.truncate(printed.name, 0)
        printed.seek(0)


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a program and all that it started, also if waiting for it has failed."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_s + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
