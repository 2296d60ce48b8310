"""Workers on Spark, in the shared session."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

import penstock
import penstock.spark
from penstock.errors import InvalidArgument, SparkWorkFailed
from penstock.spark.executor_worker import run_in_task

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.spark.queue_work import WorkProgress
    from tests.servers import RedisServer

PASSWORD = "open-sesame-9417"
APP = """
import time
from pathlib import Path
import penstock

@penstock.job(queue="mail", type="divide")
def divide(by):
    return 1 / by

@penstock.job(queue="mail", type="wait")
def wait(folder):
    (Path(folder) / "begun").touch()
    while not (Path(folder) / "end").exists():
        time.sleep(0.01)
    return "waited"
"""


@pytest.fixture
def app(tmp_path: Path, namespace: str) -> Path:
    """A module, under a name of its own, as Spark keeps what it was given."""
    path = tmp_path / f"app_{namespace[-12:]}.py"
    path.write_text(APP)
    return path


def test_workers_on_spark_do_what_is_in_the_queue_and_say_how_much(
    spark: SparkSession, own_server: RedisServer, app: Path, event_log: Path
) -> None:
    own_server.command("ACL", "SETUSER", "canary", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    url = f"unix://canary:{PASSWORD}@{own_server.socket}"
    seen: list[WorkProgress] = []

    def look(progress: WorkProgress) -> None:
        seen.append(progress)
        if progress.workers == 2:  # the first could be done with everything before there are two
            (app.parent / "end").touch()

    with penstock.connect(url) as ps:
        mail = ps.jobs("mail")
        mail.add("wait", {"folder": str(app.parent)})
        mail.add_many("divide", [{"by": by % 10} for by in range(100)], attempts=1)

        summaries = penstock.spark.run(
            app.stem,
            "mail",
            spark=spark,
            workers=2,
            until_empty=True,
            py_files=[str(app)],
            url=url,
            on_progress=look,
        )

        assert mail.counts()["done"] == 91
        assert mail.counts()["dead"] == 10
    assert len(summaries) == 2
    assert sum(summary.finished for summary in summaries) == 91
    assert sum(summary.failed for summary in summaries) == 10
    assert all(summary.worker.startswith("spark-") for summary in summaries)
    assert (seen[0].left, seen[0].workers) == (101, 0)
    assert max(progress.workers for progress in seen) == 2
    logged = "".join(path.read_text() for path in event_log.rglob("*") if path.is_file())
    assert "penstock workers spark-" in logged
    assert PASSWORD not in logged


def test_an_interrupt_cancels_the_spark_job_and_lets_what_runs_end(
    spark: SparkSession, server: RedisServer, namespace: str, ps: penstock.Penstock, app: Path
) -> None:
    job = ps.jobs("mail").add("wait", {"folder": str(app.parent)})

    def interrupt(progress: WorkProgress) -> None:
        if progress.is_stopping:
            (app.parent / "end").touch()
        elif (app.parent / "begun").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        penstock.spark.run(
            app.stem,
            ["mail"],
            spark=spark,
            workers=1,
            py_files=[str(app)],
            url=server.url,
            namespace=namespace,
            on_progress=interrupt,
        )

    assert job.result(0) == "waited"
    assert ps.workers() == []
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_module_that_is_missing_on_executors_is_said_in_one_line(
    spark: SparkSession, server: RedisServer, namespace: str
) -> None:
    with pytest.raises(SparkWorkFailed) as caught:
        penstock.spark.run(
            "absent", "mail", spark=spark, workers=1, url=server.url, namespace=namespace
        )

    said = str(caught.value)
    assert "ended with status 1 before it began: there is no module 'absent' to import" in said
    assert said.endswith("; ship what it needs with py_files (--py-files) or archives (--archives)")
    assert "\n" not in said


def test_what_a_spark_task_does_needs_no_penstock_in_its_python(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir()  # hides the real one
    (tmp_path / "penstock" / "__init__.py").write_text("raise ImportError('there is no penstock')")
    (tmp_path / "task").write_bytes(cloudpickle.dumps(run_in_task))  # type: ignore[no-untyped-call]
    program = (
        f"import pickle, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"task = pickle.load(open({str(tmp_path / 'task')!r}, 'rb'))\n"
        "print(task.__name__, 'penstock' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout == "run_in_task False\n", done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queues": []}, "no queue is named"),
        ({"workers": 0}, "workers is 0; give 1 or more"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"py_files": ["src"]}, "there is no file 'src' to ship to executors; give a .py or .zip"),
        ({"archives": ["env.tar.gz#env"]}, "there is no file 'env.tar.gz' to ship"),
        ({"master": "sc://host"}, "workers do not run through Spark Connect; give the master"),
    ],
)
def test_what_cannot_be_is_refused_before_spark_is_started(
    server: RedisServer, options: dict[str, object], message: str
) -> None:
    given: dict[str, object] = {"queues": "mail", "url": server.url, **options}

    with pytest.raises(InvalidArgument, match=message):
        penstock.spark.run("app", **given)  # type: ignore[arg-type]
