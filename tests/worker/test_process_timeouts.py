"""Jobs in processes that run for too long, or are cancelled while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import JobCancelled, JobTimeout
from tests.servers import wait_for
from tests.worker.job_contexts import ProcessBench, are_dead, children, spinning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench() -> Iterator[ProcessBench]:
    bench = ProcessBench(cancel_grace_s=0.3)
    bench.run("double", 1)
    yield bench
    bench.executor.close()
    assert children() == []


@pytest.mark.parametrize(("how", "cleans_up"), [("gentle", True), ("deaf", False)])
def test_a_process_past_its_timeout_is_ended_with_all_that_it_started(
    how: str, cleans_up: bool, bench: ProcessBench, tmp_path: Path
) -> None:
    context = bench.begin("spin", f"{how} {tmp_path}", timeout_s=1)
    pids = spinning(tmp_path)

    error = context.wait().error

    assert isinstance(error, JobTimeout)
    assert str(error) == (
        "the job ran longer than its timeout of 1 s and its process was ended; "
        "give it more time, or less to do"
    )
    assert 1 <= context.took_s < 5
    wait_for(lambda: are_dead(pids))
    assert (tmp_path / "cleaned up").exists() is cleans_up
    assert bench.run("double", 21, timeout_s=5).result == b"j42"


def test_a_cancelled_process_may_end_by_itself(bench: ProcessBench, tmp_path: Path) -> None:
    context = bench.begin("obey", str(tmp_path))
    wait_for((tmp_path / "begun").exists)

    bench.executor.cancel(context)

    assert context.wait().result == b'j"obeyed"'
    assert bench.run("double", 21).result == b"j42"


def test_a_cancelled_process_that_goes_on_is_ended(bench: ProcessBench, tmp_path: Path) -> None:
    context = bench.begin("spin", f"deaf {tmp_path}")
    pids = spinning(tmp_path)

    bench.executor.cancel(context)

    error = context.wait().error
    assert isinstance(error, JobCancelled)
    assert str(error) == (
        "the job was cancelled and still ran 0.3 s later, so its process was ended; "
        "to end by itself, it has to look at `penstock.current().cancelled`"
    )
    wait_for(lambda: are_dead(pids))


def test_a_job_cancelled_while_it_waits_for_a_process_is_not_run(
    bench: ProcessBench, tmp_path: Path
) -> None:
    first = bench.begin("obey", str(tmp_path))
    second = bench.begin("double", 1)
    wait_for((tmp_path / "begun").exists)

    bench.executor.cancel(second)
    bench.executor.cancel(first)

    assert second.wait().is_skipped


def test_a_timeout_does_not_count_the_start_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(1.1)")
    monkeypatch.syspath_prepend(tmp_path)
    bench = ProcessBench(modules=("slow_to_import",))

    assert bench.run("double", 21, timeout_s=1).result == b"j42"

    bench.executor.close()
