"""Jobs in child processes: what comes of them, and what is left of them."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.codec.failures import RaisedInChild, describe
from penstock.errors import JobCrashed
from tests.servers import wait_for
from tests.worker.job_contexts import JOBS, ProcessBench, are_dead, children, spinning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import RedisServer

MEBIBYTE = 1 << 20


@pytest.fixture
def make_bench() -> Iterator[Callable[..., ProcessBench]]:
    made: list[ProcessBench] = []

    def make(*arguments: Any, **options: Any) -> ProcessBench:
        made.append(ProcessBench(*arguments, **options))
        return made[-1]

    yield make
    for bench in made:
        bench.executor.close()
    assert children() == []


@pytest.fixture
def bench(make_bench: Callable[..., ProcessBench]) -> ProcessBench:
    return make_bench()


def test_a_job_runs_in_another_process_that_is_kept_for_the_next(bench: ProcessBench) -> None:
    first = json.loads(bench.run("describe_self").result[1:])
    second = json.loads(bench.run("describe_self").result[1:])

    assert first["pid"] == second["pid"] != os.getpid()
    assert first["job"] == ["81", "describe_self", "images", 17, 2]
    assert first["is_main_thread"]
    assert bench.executor.load == 0


def test_a_child_inherits_no_socket_but_its_channel(
    make_bench: Callable[..., ProcessBench],
) -> None:
    bench = make_bench(slots=2)
    bench.run("double", 1)

    seen = json.loads(bench.run("describe_self").result[1:])

    assert seen["sockets"] == 1


def test_as_many_jobs_run_at_once_as_there_are_slots(
    make_bench: Callable[..., ProcessBench], tmp_path: Path
) -> None:
    bench = make_bench(slots=2)
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    for folder in folders:
        folder.mkdir()
    jobs = [bench.begin("obey", str(folder)) for folder in folders]
    wait_for(lambda: sum((folder / "begun").exists() for folder in folders) == 2)

    assert bench.executor.waiting == 1
    assert bench.executor.recall() == [jobs[2]]
    assert bench.executor.load == 2


def test_progress_and_log_arrive_before_the_result(bench: ProcessBench) -> None:
    context = bench.run("tell")

    assert context.reports == [("progress", {"done": 1, "of": 2}), ("log", "half way")]
    assert context.result == b"jnull"


def test_the_cpu_time_of_a_run_is_counted(bench: ProcessBench) -> None:
    assert bench.run("burn", 0.2).cpu_s == pytest.approx(0.2, abs=0.1)
    assert bench.run("double", 1).cpu_s < 0.1


def test_what_a_job_raises_arrives_as_text(bench: ProcessBench) -> None:
    error = bench.run("fail", "plainly").error

    assert isinstance(error, RaisedInChild)
    assert error.failure.type == "builtins.KeyError"
    assert error.failure.message == "'no such thing'"
    assert "in fail" in error.failure.traceback
    assert str(error) == "builtins.KeyError: 'no such thing'"


def test_even_an_exception_that_cannot_be_turned_into_text_has_one(bench: ProcessBench) -> None:
    error = bench.run("fail", "unspeakably").error

    assert error is not None
    assert describe(error).type == f"{JOBS}.Unspeakable"
    assert "__str__ raised" in describe(error).message
    assert "in fail" in describe(error).traceback


def test_a_long_text_is_cut_and_can_be_stored(bench: ProcessBench) -> None:
    error = bench.run("fail", "at length").error

    assert error is not None
    assert len(describe(error).traceback.encode()) <= 32 * 1024
    assert describe(error).traceback.startswith("Traceback")
    assert len(describe(error).message.encode()) <= 4 * 1024


@pytest.mark.parametrize(
    ("how", "name"), [("by exit", "SystemExit"), ("out of memory", "MemoryError")]
)
def test_a_job_that_tries_to_end_its_process_only_fails(
    how: str, name: str, bench: ProcessBench
) -> None:
    before = bench.run("describe_self")

    error = bench.run("fail", how).error

    assert error is not None
    assert describe(error).type == f"builtins.{name}"
    assert bench.run("describe_self").result == before.result


@pytest.mark.parametrize(
    ("how", "signal_and_status"),
    [
        ("exit 0", (0, 0)),
        ("exit 7", (0, 7)),
        ("SIGKILL", (signal.SIGKILL, 0)),
        ("SIGTERM", (signal.SIGTERM, 0)),
        ("SIGSEGV", (signal.SIGSEGV, 0)),
        ("close everything", (signal.SIGKILL, 0)),
    ],
)
def test_a_child_that_dies_is_reported_and_replaced(
    how: str, signal_and_status: tuple[int, int], bench: ProcessBench
) -> None:
    context = bench.run("die", how)

    assert context.death is not None
    assert context.death[:2] == signal_and_status
    assert bench.run("double", 21).result == b"j42"


def test_a_child_that_dies_is_noticed_though_a_fork_holds_its_channel(
    bench: ProcessBench, tmp_path: Path
) -> None:
    context = bench.run("die_beside_a_fork", str(tmp_path))

    assert context.death is not None
    assert context.death[:2] == (0, 5)
    os.kill(int((tmp_path / "fork").read_text()), signal.SIGKILL)


def test_a_child_that_dies_between_jobs_costs_no_job(bench: ProcessBench) -> None:
    pid = json.loads(bench.run("describe_self").result[1:])["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: are_dead([pid]))

    assert bench.run("double", 21).result == b"j42"


def test_the_peak_of_memory_is_that_of_the_job_and_not_of_its_worker(bench: ProcessBench) -> None:
    ballast = bytearray(b"x") * (200 * MEBIBYTE)

    # A child that dies at once is only told from its parent by a peak that the parent never had.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    wanted = own + 200 * MEBIBYTE

    modest = bench.run("use_memory", [20 * MEBIBYTE, "and die"]).death
    greedy = bench.run("use_memory", [wanted, "and die"]).death

    assert modest is not None and greedy is not None
    assert modest[2] < 100 * MEBIBYTE < len(ballast)
    assert wanted < greedy[2] < wanted + 100 * MEBIBYTE


def test_the_peak_of_memory_forgets_earlier_jobs(bench: ProcessBench) -> None:
    bench.run("use_memory", [300 * MEBIBYTE, "and go on"])

    death = bench.run("die", "SIGKILL").death

    assert death is not None
    assert death[2] < 200 * MEBIBYTE


def test_a_large_task_and_a_large_result_pass(bench: ProcessBench) -> None:
    text = "x" * 900_000

    assert bench.run("echo", text).result == b"j" + json.dumps(text).encode()


def test_a_worker_does_not_begin_with_a_function_that_no_child_could_import(
    server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import penstock

@penstock.job(queue="mail", process=True)
def resize() -> None: ...

penstock.serve(penstock.connect(), [resize])
"""
    )

    run = subprocess.run(
        [sys.executable, str(program)],
        env={"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 1
    assert "HandlerNotFound: job 'resize' is to run in a process of its own" in run.stderr
    assert "put it into a module with a name, and import it from there" in run.stderr


def test_a_path_that_leads_nowhere_fails_the_job(bench: ProcessBench) -> None:
    error = bench.run("Nothing.here").error

    assert str(error) == (
        "penstock.errors.HandlerNotFound: a child process finds no 'Nothing.here' in module "
        f"'{JOBS}'; define it at the top level of a module that can be imported by its name"
    )


def test_a_module_that_cannot_be_imported_fails_the_job(
    make_bench: Callable[..., ProcessBench],
) -> None:
    error = make_bench(modules=("no_such_module",)).run("double", 1).error

    assert isinstance(error, JobCrashed)
    assert str(error) == (
        "no process could be made ready for the job (builtins.ModuleNotFoundError: No module named "
        "'no_such_module'); see that 'no_such_module' can be imported in a new process"
    )


def test_a_void_job_is_skipped_and_costs_no_process(bench: ProcessBench) -> None:
    bench.origin.is_closed = True

    assert bench.run("double", 1).is_skipped
    assert children() == []


def test_no_job_begins_while_the_lease_has_run_out(bench: ProcessBench) -> None:
    bench.run("double", 1)
    bench.origin.lease.is_valid = False
    context = bench.begin("double", 21)
    wait_for(lambda: bench.executor.waiting == 0)
    assert not context.is_done.wait(0.1)

    bench.origin.lease.is_valid = True

    assert context.wait().result == b"j42"


def test_closing_ends_the_child_and_all_that_it_started(
    bench: ProcessBench, tmp_path: Path
) -> None:
    context = bench.begin("spin", f"deaf {tmp_path}")
    pids = spinning(tmp_path)

    bench.executor.close()

    wait_for(lambda: are_dead(pids), timeout_s=1)
    assert not context.is_done.is_set()


@pytest.mark.parametrize("how", ["deaf", "stuck"])
def test_no_child_survives_the_death_of_its_worker(how: str, tmp_path: Path) -> None:
    worker = _worker_that_runs("spin", f"{how} {tmp_path}")
    pids = spinning(tmp_path)

    worker.kill()
    worker.wait()

    wait_for(lambda: are_dead(pids), timeout_s=2)


def test_no_child_survives_though_a_fork_of_its_worker_does(tmp_path: Path) -> None:
    """The fork holds the worker's ends of all that children listen to."""
    worker = _worker_that_runs("spin", f"deaf {tmp_path}", "fork(folder)")
    pids = spinning(tmp_path)
    wait_for((tmp_path / "fork").exists)

    worker.kill()
    worker.wait()

    try:
        wait_for(lambda: are_dead(pids), timeout_s=5)
    finally:
        os.kill(int((tmp_path / "fork").read_text()), signal.SIGKILL)


def _worker_that_runs(function: str, argument: str, then: str = "") -> subprocess.Popen[bytes]:
    """A process with an executor of its own."""
    program = f"""
import signal
from tests.worker.job_contexts import ProcessBench, fork, spinning
ProcessBench().begin({function!r}, {argument!r})
folder = {argument.partition(" ")[2]!r}
spinning(folder)
{then}
signal.pause()
"""
    return subprocess.Popen([sys.executable, "-c", program])
