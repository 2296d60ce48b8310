"""`python -m penstock` as a process: signals, pipes and exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from tests.servers import wait_for

if TYPE_CHECKING:
    from penstock.store.keys import QueueKeys
    from tests.servers import RedisServer


@pytest.fixture
def environment(server: RedisServer, namespace: str) -> dict[str, str]:
    return os.environ | {"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace}


def run(
    environment: dict[str, str], *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, env=environment, input=stdin, capture_output=True, check=False)


def test_the_version_is_told(environment: dict[str, str]) -> None:
    result = run(environment, "--version")

    assert result.returncode == 0
    assert result.stdout.decode() == f"penstock {penstock.__version__}\n"


def test_options_of_the_store_come_after_the_command(server: RedisServer, namespace: str) -> None:
    where = ("--url", server.url, "--namespace", namespace, "--json")

    added = run(dict(os.environ), "enqueue", "mail", "--file", "-", *where, stdin=b"\xff")
    tasks = run(dict(os.environ), "queue", "tasks", "mail", *where)

    assert json.loads(added.stdout)["added"] == 1
    assert json.loads(tasks.stdout)["tasks"] == [{"base64": "/w=="}]


def test_raw_bytes_of_an_argument_arrive_as_they_are(
    environment: dict[str, str], queue: penstock.Queue
) -> None:
    command = [
        *map(os.fsencode, (sys.executable, "-m", "penstock", "enqueue", "mail")),
        b"\xff\xfe",
    ]
    subprocess.run(command, env=environment, check=True, capture_output=True)

    assert queue.page().tasks == [b"\xff\xfe"]


def test_an_error_has_no_traceback(environment: dict[str, str], namespace: str) -> None:
    result = run(environment, "queue", "show", "nix")

    assert result.returncode == 1
    assert result.stdout == b""
    assert result.stderr.decode() == (
        f"penstock: there is no queue 'nix' in namespace '{namespace}'; "
        "it is created by the first task or the first worker\n"
    )


def test_what_is_not_understood_is_status_2(environment: dict[str, str]) -> None:
    assert run(environment, "queue", "explode").returncode == 2
    assert run(environment, "queue", "show").returncode == 2


def test_a_terminal_without_unicode_still_gets_an_answer(
    environment: dict[str, str], queue: penstock.Queue
) -> None:
    queue.enqueue("ü".encode())

    result = run(environment | {"PYTHONIOENCODING": "ascii"}, "queue", "tasks", "mail")

    assert result.returncode == 0
    assert b"\\xfc" in result.stdout


def test_ctrl_c_is_status_130_and_quiet(
    environment: dict[str, str], server: RedisServer, keys: QueueKeys
) -> None:
    command = [sys.executable, "-m", "penstock", "queue", "events", "mail"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: server.command("PUBSUB", "NUMSUB", keys.done)[1] == 1)

        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert (stdout, stderr) == (b"", b"")


def test_ctrl_c_ends_a_tail_of_jobs_as_quietly(
    environment: dict[str, str], server: RedisServer, ps: penstock.Penstock, keys: QueueKeys
) -> None:
    ps.jobs("mail").add("email")
    command = [sys.executable, "-m", "penstock", "job", "tail"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: server.command("PUBSUB", "NUMSUB", keys.events)[1] == 1)

        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert (stdout, stderr) == (b"", b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_drama(
    environment: dict[str, str], queue: penstock.Queue, options: list[str]
) -> None:
    queue.enqueue_many(b"x" * 1000 for _ in range(1000))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "penstock", "queue", "tasks", "mail", "--limit", "1000"]

    with open(writer, "wb") as pipe:  # noqa: PTH123
        result = subprocess.run(
            [*command, *options],
            env=environment,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert result.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_one_line(
    environment: dict[str, str], ps: penstock.Penstock, options: list[str]
) -> None:
    job = ps.jobs("mail").add("email")
    command = [sys.executable, "-m", "penstock", "job", "show", job.id, *options]

    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert result.returncode == 1
    assert result.stderr.decode() == (
        "penstock: the answer could not be written: No space left on device\n"
    )


def test_a_worker_runs_the_handlers_of_a_module_until_it_is_told_to_stop(
    environment: dict[str, str], queue: penstock.Queue, tmp_path: Path
) -> None:
    (tmp_path / "letters.py").write_text(
        "import penstock\n"
        "@penstock.handler('mail')\n"
        "def on_mail(task: bytes, context: penstock.Context) -> None: pass\n"
    )
    queue.enqueue_many([b"a", b"b"])
    command = [sys.executable, "-m", "penstock", "worker", "run", "letters", "-q", "mail"]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: queue.inspect().counters.finished == 2)

        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=20)

    assert process.returncode == 0
    assert b"worker stopped" in stderr
