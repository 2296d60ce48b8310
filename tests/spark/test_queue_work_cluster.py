"""Workers on executors that are processes of their own, started by `penstock spark run`."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.servers import wait_for
from tests.spark.clusters import START_S, cluster_environment, standalone
from tests.spark.shared_classes import jvm_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import penstock
    from tests.servers import RedisServer

pytestmark = [pytest.mark.xdist_group("own spark"), pytest.mark.timeout(600)]

APP = """
import os, time
from pathlib import Path
import penstock

@penstock.job(queue="mail", type="hold")
def hold(folder):
    begun = Path(folder) / "begun"
    if begun.exists():
        return "done elsewhere"
    begun.write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)

@penstock.job(queue="mail", type="tell")
def tell(name):
    return os.environ.get(name)
"""


@pytest.fixture
def environment(server: RedisServer, namespace: str, tmp_path: Path) -> dict[str, str]:
    return cluster_environment(server.url, namespace, tmp_path)


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    return ps.jobs("mail")


def spark_run(*options: str) -> list[str]:
    command = [sys.executable, "-m", "penstock", "spark", "run"]
    quiet = ("--conf", "spark.ui.enabled=false", "--until-empty", "--json")
    quick = ("--conf", f"spark.executor.extraJavaOptions={jvm_options()}")
    return [*command, *options, "-q", "mail", "--workers", "2", *quiet, *quick]


def outcomes(jobs: penstock.Jobs) -> Counter[tuple[str, str]]:
    return Counter((entry.job, entry.outcome) for entry in jobs.history())


def test_work_of_a_killed_executor_is_done_elsewhere_and_accepted_once(
    environment: dict[str, str], mail: penstock.Jobs, ps: penstock.Penstock, tmp_path: Path
) -> None:
    (tmp_path / "app_on_cluster.py").write_text(APP)
    held = mail.add("hold", {"folder": str(tmp_path)})
    options = ("--master", "local-cluster[2,1,512]", "--conf", "spark.executor.memory=512m")
    command = spark_run("app_on_cluster", *options, "--grace", "0.2")
    with ended_in_the_end(
        [*command, "--py-files", "app_on_cluster.py"], tmp_path, environment
    ) as driver:
        begun = tmp_path / "begun"
        wait_for(lambda: begun.exists() and begun.read_text(), START_S)
        worker = psutil.Process(int(begun.read_text()))
        supervisor, executor = worker.parent(), executor_of(worker)
        others = mail.add_many("tell", [{"name": "SPARK_HOME"}] * 20)

        executor.kill()

        wait_for(lambda: not worker.is_running() and not supervisor.is_running())
        stdout, stderr = driver.communicate(timeout=START_S)
    assert driver.returncode == 0, stderr
    summaries = json.loads(stdout)
    assert held.result(0) == "done elsewhere"
    done = outcomes(mail)
    assert [done[job.id, "done"] for job in (held, *others)] == [1] * 21
    assert len(summaries) == 2
    assert ps.workers() == []


@contextmanager
def ended_in_the_end(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            # A driver that is killed leaves its JVM to find that out by itself.
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()


def executor_of(worker: Any) -> Any:
    """The JVM of Spark above a worker."""
    [executor] = [
        process
        for process in worker.parents()
        if any("CoarseGrainedExecutorBackend" in part for part in process.cmdline())
    ]
    return executor


def test_a_standalone_cluster_runs_a_queue_to_its_end(
    environment: dict[str, str], mail: penstock.Jobs, ps: penstock.Penstock, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as package:
        package.writestr("shop/__init__.py", "")
        package.writestr("shop/jobs.py", APP)
    pack_python(tmp_path / "env.tar.gz", tmp_path / "env")
    jobs = mail.add_many("tell", [{"name": "FROM_ARCHIVE"}] * 50)
    shipped = ("--py-files", "app.zip", "--archives", "env.tar.gz#env")
    with standalone(environment, tmp_path) as master:
        done = subprocess.run(
            [*spark_run("shop.jobs", "--master", master, *shipped)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert {job.result(0) for job in jobs} == {"yes"}
    assert sum(summary["finished"] for summary in json.loads(done.stdout)) == 50
    assert ps.workers() == []


def pack_python(archive: Path, folder: Path) -> None:
    """An archive with a Python that says where it comes from, as `venv-pack` would make one."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nFROM_ARCHIVE=yes exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder / "bin", "bin")
