"""What a worker writes about its work, and where."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.worker_log import JsonLines
from tests.hostile.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import RedisServer

APP = """
import logging

import penstock

{setup}


@penstock.job(queue="mail")
def send(is_good: bool) -> str:
    logging.getLogger("app").info("the app says something")
    if not is_good:
        raise ValueError("no good")
    return "sent"


@penstock.handler("plain", backoff=0)
def on_plain(task: bytes, context: penstock.Context) -> None:
    if task == b"bad":
        raise ValueError("no good")
"""


class App:
    """An application with work to do."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.good = self._send({"is_good": True})
        self.bad = self._send({"is_good": False})
        shell.run("enqueue", "plain", "good")
        shell.run("enqueue", "plain", "bad")

    def log(self, *options: str, setup: str = "") -> str:
        """What a worker writes while it does all that."""
        self.shell.write("app", APP.format(setup=setup))
        run = self.shell.run("worker", "run", "app", "--until-empty", *options)
        assert run.returncode == 0, run.stderr.decode()
        return run.stderr.decode()

    def _send(self, arguments: dict[str, Any]) -> str:
        sent = self.shell.json("job", "send", "mail", "send", json.dumps(arguments))
        return str(sent["id"])


@pytest.fixture
def app(server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[App]:
    shell = Shell(tmp_path, PENSTOCK_URL=server.url, PENSTOCK_NAMESPACE=namespace)
    yield App(shell)
    shell.close()


def test_each_job_has_a_line_and_failed_ones_a_traceback(app: App) -> None:
    log = app.log()

    assert f"INFO job done type=send job={app.good} queue=mail attempt=1 took_ms=" in log
    assert f"WARNING job dead type=send job={app.bad} queue=mail attempt=1 took_ms=" in log
    assert "INFO task finished queue=plain process=" in log
    assert "WARNING task failed queue=plain process=" in log
    assert "Traceback (most recent call last)" in log
    assert "INFO the app says something" in log


def test_at_a_higher_level_only_what_goes_wrong_is_written(app: App) -> None:
    log = app.log("--log-level", "warning")

    assert "job done" not in log
    assert "worker started" not in log
    assert "job dead" in log


@pytest.mark.parametrize("options", [("--log-format", "json"), ("--json",)])
def test_a_log_of_json_has_an_object_in_each_line(app: App, options: tuple[str, ...]) -> None:
    lines = [json.loads(line) for line in app.log(*options).splitlines()]

    [done] = [line for line in lines if line.get("job") == app.good]
    assert (done["level"], done["type"], done["queue"]) == ("info", "send", "mail")
    assert done["message"].startswith("job done type=send")
    assert done["took_ms"] >= 0
    [dead] = [line for line in lines if line.get("job") == app.bad]
    assert "ValueError: no good" in dead["traceback"]


def test_a_module_that_sets_up_logging_decides_where_the_log_goes(app: App) -> None:
    log = app.log(setup="logging.basicConfig(level='INFO', format='MINE %(name)s %(message)s')")

    assert log.count(f"job={app.good}") == 1
    assert "MINE penstock.work job done" in log
    written = [line for line in log.splitlines() if " worker st" in line or " job " in line]
    assert all(line.startswith("MINE penstock") for line in written)


def test_a_level_that_a_module_has_set_counts_unless_another_is_asked_for(app: App) -> None:
    setup = "logging.basicConfig(level='WARNING', format='MINE %(message)s')"

    assert "job done" not in app.log(setup=setup)
    app.good = app._send({"is_good": True})
    assert f"job={app.good}" in app.log("--log-level", "info", setup=setup)


@pytest.mark.parametrize(
    ("message", "values", "fields"),
    [
        ("worker started id=%s queues=%s", ("w", "a,b"), {"id": "w", "queues": "a,b"}),
        ("worker %s id=%s", ("paused", "w"), {"id": "w"}),
        ("100%% of it count=%d took_ms=%.3f", (3, 1.5), {"count": 3, "took_ms": 1.5}),
        ("it failed error=%r", (ValueError("x"),), {"error": "x"}),
        ("it failed level=%s", ("mine",), {}),
        ("plain text with a=1", (), {}),
        ("too few id=%s", (), {}),
    ],
)
def test_values_with_names_are_fields(
    message: str, values: tuple[object, ...], fields: dict[str, object]
) -> None:
    record = logging.LogRecord("penstock.worker", logging.INFO, "", 0, message, values, None)

    line = json.loads(JsonLines().format(record))

    assert {name: line[name] for name in line.keys() - STANDARD} == fields
    assert line["level"] == "info"


STANDARD = {"time", "level", "logger", "message"}
