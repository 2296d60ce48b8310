"""A worker that is killed: its parent tells how, and gives its work back at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import penstock
    from tests.servers import RedisServer

    Start = Callable[..., subprocess.Popen[str]]

APP = """
import ctypes, os, signal, time
from pathlib import Path
import penstock

@penstock.job(queue="mail", type="die")
def die(how):
    if how == "in C":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(7)
    if how == "exit well":
        os._exit(0)
    if how == "large":
        ballast = bytearray(150 * 2**20)
        os.kill(os.getpid(), signal.SIGKILL)

@penstock.job(queue="mail", type="wait")
def wait(folder):
    (Path(folder) / "begun").touch()
    while not (Path(folder) / "end").exists():
        time.sleep(0.01)
    return "waited"
"""
AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
LEASE_MS = 60_000  # so long that nobody but the supervisor gives anything back


@pytest.fixture
def start(server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """`penstock worker run`, in a group of its own; none outlives the test."""
    (tmp_path / "deadly.py").write_text(APP)
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "penstock", "worker", "run", "deadly", *options]
        command += ["--lease-ms", str(LEASE_MS), "--url", server.url, "--namespace", namespace]
        process = subprocess.Popen(
            command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    return ps.jobs("mail")


def child_of(process: subprocess.Popen[str]) -> Any:
    [child] = psutil.Process(process.pid).children()
    return child


@pytest.fixture
def waiting(
    start: Start, mail: penstock.Jobs, tmp_path: Path
) -> tuple[subprocess.Popen[str], penstock.Job[Any]]:
    """A worker, and a job that it runs until the file `end` is there."""
    job = mail.add("wait", [[str(tmp_path)], {}])
    process = start()
    wait_for((tmp_path / "begun").exists)
    return process, job


@pytest.mark.parametrize(
    ("how", "words", "status"),
    [
        ("in C", "the worker ended by signal 11 (SIGSEGV), peak memory ", 128 + 11),
        ("exit", "the worker ended by exit status 7, peak memory ", 7),
        ("exit well", "the worker ended by exit status 0, peak memory ", 1),
        ("large", "the worker ended by signal 9 (SIGKILL), peak memory ", 128 + 9),
    ],
)
def test_a_job_that_kills_its_worker_three_times_is_dead_and_says_how(
    start: Start, mail: penstock.Jobs, how: str, words: str, status: int
) -> None:
    job = mail.add("die", [[how], {}])

    for crashes in (1, 2, 3):
        process = start()
        _, said = process.communicate(timeout=30)
        assert process.returncode == status
        assert f"how={words.removeprefix('the worker ended by ')}" in said
        assert job.info().crashes == crashes

    info = job.info()
    assert (info.state, info.reason) == ("dead", "poison")
    assert info.error is not None
    assert info.error.type == "penstock.errors.JobCrashed"
    assert info.error.message.startswith(words)
    peak = int(info.error.message.removeprefix(words).removesuffix(" MiB"))
    assert peak >= (150 if how == "large" else 10)
    assert [attempt.outcome for attempt in job.attempts()] == ["lost"] * 3
    assert all(words in attempt.error.message for attempt in job.attempts() if attempt.error)


def test_work_goes_back_at_once_when_the_worker_is_killed(
    waiting: tuple[subprocess.Popen[str], penstock.Job[Any]], ps: penstock.Penstock
) -> None:
    process, job = waiting

    child_of(process).kill()

    assert process.wait(20) == 128 + 9
    assert job.info().state == "ready"
    assert ps.workers() == []


def test_a_supervisor_that_is_killed_takes_the_worker_along(
    waiting: tuple[subprocess.Popen[str], penstock.Job[Any]],
) -> None:
    process, job = waiting
    child = child_of(process)

    process.kill()
    process.wait(20)

    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert job.info().state == "running"  # until its lease ends


def ask_the_supervisor(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)


def ask_the_worker(process: subprocess.Popen[str]) -> None:
    child_of(process).send_signal(signal.SIGTERM)


def ask_both(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.parametrize("ask", [ask_the_supervisor, ask_the_worker, ask_both])
def test_a_worker_that_is_asked_to_stop_lets_what_runs_come_to_its_end(
    waiting: tuple[subprocess.Popen[str], penstock.Job[Any]],
    tmp_path: Path,
    ask: Callable[[subprocess.Popen[str]], None],
) -> None:
    process, job = waiting

    ask(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    (tmp_path / "end").touch()

    _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "worker stopped" in said
    assert "died" not in said
    assert job.result(0) == "waited"


def test_asked_twice_a_worker_gives_back_what_runs(
    waiting: tuple[subprocess.Popen[str], penstock.Job[Any]],
) -> None:
    process, job = waiting

    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 0
    assert job.info().state == "ready"


def test_an_error_is_said_once_and_is_no_death(
    server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "penstock", "worker", "run", "no_such_module"]
    done = subprocess.run(
        [*command, "--url", server.url, "--namespace", namespace],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.count("there is no module 'no_such_module' to import") == 1
    assert "died" not in done.stderr


def test_alone_there_is_one_process(start: Start, ps: penstock.Penstock) -> None:
    process = start("--alone")
    wait_for(lambda: len(ps.workers()) == 1)

    assert psutil.Process(process.pid).children() == []
    assert ps.workers()[0].about["pid"] == process.pid


@pytest.fixture
def terminal(
    server: RedisServer, namespace: str, mail: penstock.Jobs, tmp_path: Path
) -> Iterator[Terminal]:
    """A worker that was started at a terminal, and runs a job until the file `end` is there."""
    (tmp_path / "deadly.py").write_text(APP)
    job = mail.add("wait", [[str(tmp_path)], {}])
    command = [sys.executable, "-c", AT_A_TERMINAL, sys.executable, "-m", "penstock"]
    command += ["worker", "run", "deadly", "--url", server.url, "--namespace", namespace]
    keyboard, screen = os.openpty()
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=screen, stdout=screen, stderr=subprocess.DEVNULL
    ) as process:
        os.close(screen)
        terminal = Terminal(process, keyboard, job)
        try:
            wait_for((tmp_path / "begun").exists)
            yield terminal
        finally:
            process.kill()
            terminal.close()


class Terminal:
    def __init__(
        self, process: subprocess.Popen[bytes], keyboard: int, job: penstock.Job[Any]
    ) -> None:
        self.process = process
        self.job = job
        self._keyboard: int | None = keyboard

    def press_ctrl_c(self) -> None:
        assert self._keyboard is not None
        os.write(self._keyboard, b"\x03")

    def close(self) -> None:
        if self._keyboard is not None:
            os.close(self._keyboard)
            self._keyboard = None


def test_ctrl_c_is_one_request_though_the_terminal_tells_both(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.press_ctrl_c()
    with pytest.raises(subprocess.TimeoutExpired):
        terminal.process.wait(1)
    (tmp_path / "end").touch()

    assert terminal.process.wait(20) == 0
    assert terminal.job.result(0) == "waited"


def test_ctrl_c_after_a_request_is_another(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        terminal.process.wait(1)
    terminal.press_ctrl_c()

    assert terminal.process.wait(20) == 0
    assert terminal.job.info().state == "ready"


def test_a_worker_stops_in_order_when_its_terminal_is_gone(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.close()
    with pytest.raises(subprocess.TimeoutExpired):
        terminal.process.wait(1)
    (tmp_path / "end").touch()

    assert terminal.process.wait(20) == 0
    assert terminal.job.result(0) == "waited"


def test_a_supervisor_can_be_stopped_while_the_store_is_away(
    own_server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(APP)
    command = [sys.executable, "-m", "penstock", "worker", "run", "deadly"]
    with subprocess.Popen(
        [*command, "--url", own_server.url, "--namespace", namespace],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any("worker started" in line for line in process.stderr)
        own_server.kill()
        child_of(process).kill()
        assert any("worker died" in line for line in process.stderr)
        process.terminate()

        assert process.wait(3) == -signal.SIGTERM
