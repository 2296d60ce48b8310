"""The commands that the pages on systemd and containers give are run as they stand."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from tests.servers import RedisServer

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to"
APP = """
import penstock


@penstock.job(queue="images")
def resize(path: str) -> str:
    return path.upper()
"""


def _block(page: str, language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", (HOW_TO / page).read_text(), re.S)
    return str(block)


def systemd_unit() -> ConfigParser:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(_block("systemd.md", "ini"))
    return unit


def command_of_systemd() -> list[str]:
    return shlex.split(systemd_unit()["Service"]["ExecStart"])


def command_of_container() -> list[str]:
    (command,) = re.findall(r"^CMD (\[.*\])$", _block("containers.md", "dockerfile"), re.M)
    return list(json.loads(command))


@pytest.mark.parametrize("command", [command_of_systemd(), command_of_container()], ids=str)
def test_a_service_runs_jobs_and_ends_in_order(
    command: list[str], ps: penstock.Penstock, server: RedisServer, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    program, *arguments = command
    assert Path(program).name == "penstock"
    worker = subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=tmp_path,
        env={"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": ps.keys.namespace},
    )
    try:
        assert ps.jobs("images").add("resize", {"path": "a.png"}).result(60) == "A.PNG"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
    wait_for(lambda: ps.workers() == [])


def times_to_stop() -> list[tuple[str, list[str]]]:
    page = (HOW_TO / "containers.md").read_text()
    (compose,) = re.findall(r"stop_grace_period: (\d+)s", page)
    (kubernetes,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", page)
    return [
        (systemd_unit()["Service"]["TimeoutStopSec"], command_of_systemd()),
        (compose, command_of_container()),
        (kubernetes, command_of_container()),
    ]


@pytest.mark.parametrize(("waits_s", "command"), times_to_stop(), ids=str)
def test_a_service_has_longer_to_stop_than_its_grace_time(waits_s: str, command: list[str]) -> None:
    grace_s = int(command[command.index("--grace") + 1])

    assert int(waits_s) >= grace_s + 10
