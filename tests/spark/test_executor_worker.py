"""A worker on an executor, in plain processes: what Spark does to it is done by the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from penstock.spark.executor_worker import WorkerNotStarted, run_worker
from penstock.spark.store import refuse_socket
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from tests.servers import RedisServer

APP = """
import os, signal, sys, time
from pathlib import Path
import penstock

@penstock.job(queue="mail", type="wait")
def wait(folder):
    (Path(folder) / "begun").write_text(str(os.getpid()))
    while not (Path(folder) / "end").exists():
        time.sleep(0.01)
    print("it is printed also when nobody reads it", flush=True)
    return "waited"

@penstock.job(queue="mail", type="die")
def die():
    os.kill(os.getpid(), signal.SIGKILL)

@penstock.job(queue="mail", type="tell")
def tell(name):
    return os.environ.get(name)
"""
PYTHON_WORKER = """
import json, sys, threading
from pathlib import Path
from penstock.spark.executor_worker import run_worker

for _ in range(8):  # as libraries start them; the kernel tells of the death of each
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(json.dumps(run_worker(Path.cwd(), **json.loads(sys.argv[1]))))
"""
LEASE = ("--lease-ms", "60000")  # so long that only a worker that leaves in order gives work back


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    return ps.jobs("mail")


@pytest.fixture
def store(server: RedisServer, namespace: str) -> dict[str, str]:
    return {"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where Spark puts what it ships to an executor."""
    (tmp_path / "shipped.py").write_text(APP)
    return tmp_path


@pytest.fixture
def start(store: dict[str, str], root: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A process that stands for the Python process of a Spark task."""
    started: list[subprocess.Popen[str]] = []

    def start(grace_s: float) -> subprocess.Popen[str]:
        arguments = ["shipped", "-q", "mail", *LEASE, "--grace", str(grace_s)]
        plan = {"arguments": arguments, "environment": store, "grace_s": grace_s}
        process = subprocess.Popen(
            [sys.executable, "-c", PYTHON_WORKER, json.dumps(plan)],
            cwd=root,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=10)


def tree_of(root: Path) -> list[Any]:
    """The worker that runs a job, and its supervisor."""
    begun = root / "begun"
    wait_for(lambda: begun.exists() and begun.read_text())
    worker = psutil.Process(int(begun.read_text()))
    return [worker, worker.parent()]


def have_ended(processes: list[Any]) -> bool:
    return not any(process.is_running() for process in processes)


def test_a_killed_task_lets_its_worker_finish_what_runs(
    start: Callable[..., subprocess.Popen[str]],
    mail: penstock.Jobs,
    ps: penstock.Penstock,
    root: Path,
) -> None:
    job = mail.add("wait", {"folder": str(root)})
    task = start(grace_s=30)
    processes = tree_of(root)

    task.kill()
    task.wait(10)
    # Its own log; before it has heard of the death it would start what comes next.
    log = Path(f"/proc/{processes[0].pid}/fd/2")
    wait_for(lambda: "worker stopping" in log.read_text())
    waiting = mail.add("tell", {"name": "HOME"})
    assert mail.counts()["running"] == 1
    (root / "end").touch()

    wait_for(lambda: have_ended(processes))
    assert job.result(0) == "waited"
    assert waiting.state == "ready"
    assert ps.workers() == []


def test_a_killed_task_lets_its_worker_give_back_what_takes_too_long(
    start: Callable[..., subprocess.Popen[str]],
    mail: penstock.Jobs,
    ps: penstock.Penstock,
    root: Path,
) -> None:
    job = mail.add("wait", {"folder": str(root)})
    task = start(grace_s=0.2)
    processes = tree_of(root)

    task.kill()

    wait_for(lambda: have_ended(processes))
    assert job.info().state == "ready"
    assert job.info().crashes == 0
    assert ps.workers() == []


def test_the_worker_is_in_a_session_of_its_own(
    start: Callable[..., subprocess.Popen[str]], mail: penstock.Jobs, root: Path
) -> None:
    mail.add("wait", {"folder": str(root)})
    task = start(grace_s=0.2)
    worker, supervisor = tree_of(root)

    assert os.getsid(worker.pid) == os.getsid(supervisor.pid) == supervisor.pid
    assert supervisor.parent().pid == task.pid


def test_the_store_is_not_named_on_a_command_line(
    start: Callable[..., subprocess.Popen[str]],
    mail: penstock.Jobs,
    root: Path,
    server: RedisServer,
) -> None:
    mail.add("wait", {"folder": str(root)})
    start(grace_s=0.2)

    for process in tree_of(root):
        assert server.url not in " ".join(process.cmdline())
        assert process.environ()["PENSTOCK_URL"] == server.url


def test_a_worker_that_its_work_kills_is_started_again(
    store: dict[str, str], root: Path, mail: penstock.Jobs
) -> None:
    deadly = mail.add("die")
    good = mail.add("tell", {"name": "PENSTOCK_URL"})

    told = run_worker(root, ["shipped", "-q", "mail", "--until-empty"], store)

    assert (deadly.info().state, deadly.info().reason) == ("dead", "poison")
    assert good.result(0) == store["PENSTOCK_URL"]
    assert (told["finished"], told["failed"], told["restarts"]) == (1, 0, 3)
    assert [path.name for path in root.glob("penstock-*")] == []


def test_a_worker_that_cannot_begin_is_an_error_with_its_reason(
    store: dict[str, str], root: Path
) -> None:
    with pytest.raises(
        WorkerNotStarted,
        match=r"^a worker on '.+' ended with status 1 before it began: there is no module 'absent'",
    ):
        run_worker(root, ["absent", "-q", "mail"], store)


def test_packages_that_were_shipped_are_found(
    store: dict[str, str], root: Path, mail: penstock.Jobs
) -> None:
    with zipfile.ZipFile(root / "app.zip", "w") as package:
        package.writestr("shop/__init__.py", "")
        package.writestr("shop/jobs.py", "from shipped import tell\n")
    job = mail.add("tell", {"name": "PENSTOCK_URL"})

    run_worker(
        root, ["shop.jobs", "-q", "mail", "--until-empty"], store, shipped=["app.zip", "shipped.py"]
    )

    assert job.state == "done"


def test_an_archive_brings_the_python(
    store: dict[str, str], root: Path, mail: penstock.Jobs
) -> None:
    python = root / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nFROM_ARCHIVE=yes exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    job = mail.add("tell", {"name": "FROM_ARCHIVE"})

    run_worker(root, ["shipped", "-q", "mail", "--until-empty"], store, archives=["env"])

    assert job.result(0) == "yes"


def test_a_unix_socket_of_another_machine_is_refused(store: dict[str, str], root: Path) -> None:
    refusal = refuse_socket("/run/redis.sock", "driver", "HERE")

    with pytest.raises(WorkerNotStarted, match=r"on 'driver', which an executor on '.+' cannot"):
        run_worker(root, ["shipped"], store, only_host="driver", refusal=refusal)
