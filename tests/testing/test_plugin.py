"""The plugin in projects of others: found by itself, alone on its server, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from tests.servers import wait_for

if TYPE_CHECKING:
    import pytest

    from tests.servers import RedisServer

APPLICATION = """
import asyncio
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as library


@library.job
def greet(name):
    return f"hello {name}"


def leave_traces(client, url):
    info = client.store.call("", "INFO", "server").decode()
    pid = info.partition("process_id:")[2].split()[0]
    folder = os.path.dirname(url.removeprefix("unix://"))
    Path("traces.new").write_text(f"{pid} {folder} {client.settings.namespace}")
    Path("traces.new").rename("traces")
"""


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def traces(folder: Path) -> tuple[int, Path, str]:
    """The process of the server, its folder, and the namespace of the test."""
    pid, data, namespace = (folder / "traces").read_text().split()
    return int(pid), Path(data), namespace


def write_tests(pytester: pytest.Pytester, tests: str) -> None:
    pytester.makepyfile(test_app=APPLICATION + tests)


def test_a_project_has_the_fixtures_without_asking(pytester: pytest.Pytester) -> None:
    write_tests(
        pytester,
        """
def test_functions_run(penstock):
    sent = greet.options(delay=timedelta(days=30)).send("ann")
    penstock.run_all()
    assert sent.result(timeout=5) == "hello ann"


def test_coroutines_do_too(apenstock):
    async def test():
        sent = await greet.asend("ann")
        await apenstock.run_all()
        assert await sent.result(timeout=5) == "hello ann"

    asyncio.run(test())


def test_each_test_begins_with_nothing(penstock):
    assert penstock.sent() == []
""",
    )

    result = pytester.runpytest_subprocess("-W", "error")

    result.assert_outcomes(passed=3)


MANY = """
@pytest.mark.parametrize("days", range(12))
def test_a_month(penstock, days):
    began_at = penstock.now
    greet.options(delay=timedelta(days=days)).send("ann")
    summary = penstock.run_all()
    assert len(summary.done) == 1
    assert penstock.now == began_at + timedelta(days=days)
"""


def test_processes_with_a_server_each_do_not_disturb_each_other(pytester: pytest.Pytester) -> None:
    write_tests(pytester, MANY)

    result = pytester.runpytest_subprocess("-n", "2")

    result.assert_outcomes(passed=12)


def test_processes_on_one_server_do_not_disturb_each_other(
    pytester: pytest.Pytester, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_URL", server.url)
    write_tests(pytester, MANY)

    result = pytester.runpytest_subprocess("-n", "2")

    result.assert_outcomes(passed=12)
    assert server.client.keys("*simulated_clock:test-*") == []


def test_no_server_is_left_when_tests_fail(pytester: pytest.Pytester) -> None:
    write_tests(
        pytester,
        """
def test_that_fails(penstock, penstock_server):
    leave_traces(penstock, penstock_server)
    greet.send("ann")
    assert penstock.pending() == []
""",
    )

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(failed=1)
    pid, folder, _ = traces(pytester.path)
    assert not lives(pid)
    assert not folder.exists()


def test_no_server_is_left_when_the_session_is_killed(pytester: pytest.Pytester) -> None:
    write_tests(
        pytester,
        """
def test_that_hangs(penstock, penstock_server):
    leave_traces(penstock, penstock_server)
    threading.Event().wait()
""",
    )
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q"], cwd=pytester.path, stdout=subprocess.DEVNULL
    )
    try:
        wait_for((pytester.path / "traces").exists)
        pid, folder, _ = traces(pytester.path)
        assert lives(pid)
    finally:
        session.kill()
        session.wait()

    wait_for(lambda: not lives(pid) and not folder.exists())


def test_a_server_that_was_there_stays_and_nothing_is_left_on_it(
    pytester: pytest.Pytester, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_URL", server.url)
    write_tests(
        pytester,
        """
def test_that_fails(penstock, penstock_server):
    leave_traces(penstock, penstock_server)
    greet.send("ann")
    assert penstock.pending() == []
""",
    )

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(failed=1)
    pid, _, namespace = traces(pytester.path)
    assert pid == server.pid
    assert server.client.keys(f"*{namespace}*") == []


def test_pytest_starts_without_what_only_tests_need() -> None:
    program = """
import sys, pytest, penstock
before = set(sys.modules)
import penstock.testing.plugin
print(*sorted(set(sys.modules) - before))
"""

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout.split() == ["penstock.testing", "penstock.testing.plugin"]
