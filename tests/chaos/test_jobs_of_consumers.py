"""Consumers are killed in mid-batch, long after their last commit: no job is sent twice."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.model.logs import id_key
from tests.chaos.fleet import WorkerProcess
from tests.chaos.log_senders import FOLDER, LOG, MESSAGES, batch, single
from tests.servers import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.client.functions import JobFunction
    from tests.servers import RedisServer

pytestmark = pytest.mark.stores("debian")

LIMIT_S = 40.0


def test_consumers_that_are_killed_and_begin_again_send_one_job_for_each_message(
    server: RedisServer, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    names = {"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace, FOLDER: str(tmp_path)}
    command = [sys.executable, "-m", "penstock", "worker", "run", "tests.chaos.log_senders"]

    def start(name: str) -> WorkerProcess:
        path = tmp_path / f"{name}.log"
        return WorkerProcess([*command, "-c", "4"], {**os.environ, **names}, path)

    with penstock.connect(server.url, namespace=namespace) as ps:
        log = ps.log(LOG, partitions=1)
        log.append_many([penstock.NewMessage(b"%d" % number) for number in range(MESSAGES)])
        messages = list(log.read())

        ant = start("ant")
        request.addfinalizer(ant.kill)
        wait_for(lambda: all((tmp_path / f"{name}.held").exists() for name in _JOBS), LIMIT_S)
        wait_for(lambda: ps.jobs("single").counts()["done"] > 0, LIMIT_S)
        ant.kill()
        sent = [sum(ps.jobs(name).counts().values()) for name in _JOBS]
        offsets = [reader.offset for reader in log.partition_info(0).readers]
        (tmp_path / "gate").touch()
        bee = start("bee")
        request.addfinalizer(bee.kill)
        wait_for(lambda: all((tmp_path / f"{name}.read").exists() for name in _JOBS), LIMIT_S)
        wait_for(lambda: all(_waiting(ps, name) == 0 for name in _JOBS), LIMIT_S)
        bee.terminate()
        bee.wait(LIMIT_S)

        done = [sum(id_key(one.id) <= id_key(offset) for one in messages) for offset in offsets]
        assert all(pair[0] < pair[1] for pair in zip(done, sent, strict=True)), "nothing came again"
        for name, job in _JOBS.items():
            found = ps.jobs(name).page("done", limit=1000).jobs
            bodies = [job.signature.open(info.data)[0][0] for info in found]
            assert sorted(map(int, bodies)) == list(range(MESSAGES))
            assert sum(ps.jobs(name).counts().values()) == MESSAGES


_JOBS: dict[str, JobFunction[..., None]] = {"single": single, "batch": batch}


def _waiting(ps: penstock.Penstock, queue: str) -> int:
    counts = ps.jobs(queue).counts()
    return sum(counts.values()) - counts["done"]
