"""A worker that ends by itself when its queues are empty."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.connection.staging import adecide_batch, astage_chunk
from penstock.model.staging import Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer
    from tests.worker.conftest import Recorder


@penstock.job(queue="mail", type="pass on")
def pass_on(fails_first: bool = False) -> int:
    attempt = penstock.current().attempt
    if fails_first and attempt == 1:
        raise ValueError("not yet")
    return attempt


def test_it_ends_when_all_tasks_are_done(
    start_worker: Callable[..., RunningWorker], queue: penstock.Queue, recorder: Recorder
) -> None:
    queue.enqueue_many([b"a", b"b"])

    worker = start_worker({"mail": recorder}, until_empty=True)
    worker.join()

    assert recorder.tasks == [b"a", b"b"]
    assert worker.worker is not None
    assert worker.worker.totals == (2, 0, 0)


def test_it_ends_though_jobs_are_counted_that_are_not_there(
    start_worker: Callable[..., RunningWorker], ps: penstock.Penstock
) -> None:
    sent = ps.jobs("mail").add("pass on")
    meta = ps.keys.queue("mail").meta
    for listing in ("rA:", "rT:pass on", "uA:", "uT:pass on"):
        ps.store.call(meta, "HINCRBY", meta, listing, 1)

    start_worker([pass_on], until_empty=True).join()

    assert sent.state == "done"


def test_it_waits_for_what_runs_elsewhere_and_takes_it_if_it_comes_back(
    start_worker: Callable[..., RunningWorker],
    ps: penstock.Penstock,
    queue: penstock.Queue,
    recorder: Recorder,
) -> None:
    queue.enqueue(b"a")
    with ps.worker() as other:
        other.start_work("mail")
        held = other.start_task("mail")
        assert held is not None
        worker = start_worker({"mail": recorder}, until_empty=True)

        with pytest.raises(AssertionError, match="did not end"):
            worker.join(2)
        held.stop()
        worker.join()

    assert recorder.tasks == [b"a"]


def test_it_waits_for_a_paused_queue(
    start_worker: Callable[..., RunningWorker], queue: penstock.Queue, recorder: Recorder
) -> None:
    queue.enqueue(b"a")
    queue.pause()
    worker = start_worker({"mail": recorder}, until_empty=True)

    with pytest.raises(AssertionError, match="did not end"):
        worker.join(2)
    queue.resume()
    worker.join()

    assert recorder.tasks == [b"a"]


def test_jobs_that_failed_are_tried_again_before_it_ends(
    serve: Callable[..., RunningWorker], mail: penstock.Jobs
) -> None:
    job = mail.add("pass on", {"fails_first": True}, attempts=2, backoff=6)

    worker = serve(pass_on, until_empty=True)
    worker.join(30)

    assert job.result(0) == 2
    assert worker.worker is not None
    assert worker.worker.totals == (1, 1, 0)


def test_jobs_for_later_and_of_other_types_do_not_keep_it(
    serve: Callable[..., RunningWorker], mail: penstock.Jobs
) -> None:
    later = mail.add("pass on", delay=3600)
    other = mail.add("nobody handles this")
    soon = mail.add("pass on", delay=2)

    serve(pass_on, until_empty=True).join()

    assert (later.state, other.state, soon.state) == ("scheduled", "ready", "done")


def test_a_batch_that_its_writer_left_behind_is_moved_and_done(
    start_worker: Callable[..., RunningWorker],
    server: RedisServer,
    namespace: str,
    recorder: Recorder,
) -> None:
    async def leave_a_batch() -> None:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            keys = ps.keys.queue("mail")
            chunk = pack_chunk([b"a", b"b"])
            await astage_chunk(ps.store, keys, "batch", "stage", 0, chunk, 10_000)
            stages = [Stage("stage", 1, 2, 1)]
            await adecide_batch(ps.store, ps.keys, "mail", "tasks", "batch", 0, stages)

    asyncio.run(leave_a_batch())

    start_worker({"mail": recorder}, until_empty=True).join()

    assert recorder.tasks == [b"a", b"b"]


APP = """
import penstock

@penstock.job(queue="mail", type="divide")
def divide(by):
    return 1 / by
"""


def test_the_command_ends_with_status_0_and_reports_what_it_has_done(
    server: RedisServer, namespace: str, mail: penstock.Jobs, tmp_path: Path
) -> None:
    (tmp_path / "divisions.py").write_text(APP)
    mail.add_many("divide", [{"by": 1}, {"by": 0}, {"by": 2}], attempts=1)
    command = [sys.executable, "-m", "penstock", "worker", "run", "divisions", "--until-empty"]

    done = subprocess.run(
        [*command, "--name", "hand", "--report", "report.json"],
        cwd=tmp_path,
        env={**os.environ, "PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["worker"].startswith("hand.")
    assert (report["finished"], report["failed"], report["refused"]) == (2, 1, 0)
    assert report["seconds"] > 0
    assert list(tmp_path.glob("*.new")) == []


def test_a_report_that_cannot_be_written_does_not_keep_it_from_working(
    server: RedisServer, namespace: str, mail: penstock.Jobs, tmp_path: Path
) -> None:
    (tmp_path / "divisions.py").write_text(APP)
    job = mail.add("divide", {"by": 1})
    command = [sys.executable, "-m", "penstock", "worker", "run", "divisions", "--until-empty"]

    done = subprocess.run(
        [*command, "--report", "no-such-folder/report.json"],
        cwd=tmp_path,
        env={**os.environ, "PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0
    assert job.result(0) == 1
    assert "report not written path=no-such-folder/report.json" in done.stderr
