"""Spark's own kind of cluster, of real processes on this machine."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from penstock.spark.home import linked_home
from penstock.spark.java import find_java
from tests.servers import free_port, wait_for
from tests.spark.shared_classes import jvm_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_S = 240.0
"""How long a cluster may take to run its first worker."""


def cluster_environment(url: str, namespace: str, folder: Path) -> dict[str, str]:
    """In which a cluster is started, and drivers that use it and the store at `url`."""
    return {
        **os.environ,
        "PENSTOCK_URL": url,
        "PENSTOCK_NAMESPACE": namespace,
        "JAVA_HOME": str(find_java()),
        # With the class path of all other JVMs of the tests, so that they can share classes.
        "SPARK_HOME": str(linked_home(platformdirs.user_cache_path("penstock"))),
        "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def standalone(
    environment: dict[str, str], folder: Path, hosts: Sequence[str] = ("127.0.0.1",), cores: int = 2
) -> Iterator[str]:
    """A master and a worker for each host, which is a loopback address; the URL of the master."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in hosts:
        room = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / f"work-{host}"))
        commands.append(["worker.Worker", "--host", host, *room, url])
    program = str(Path(environment["SPARK_HOME"]) / "bin" / "spark-class")
    started: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"spark-{number}.log" for number in range(len(commands))]
    try:
        for (kind, *options), log in zip(commands, logs, strict=True):
            with log.open("wb") as file:
                started.append(
                    subprocess.Popen(
                        [program, f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *options],
                        env=environment,
                        stdout=file,
                        stderr=file,
                    )
                )
        wait_for(
            lambda: all("registered with master" in log.read_text() for log in logs[1:]), START_S
        )
        yield url
    finally:
        for process in reversed(started):
            process.terminate()  # a worker ends its executors
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
