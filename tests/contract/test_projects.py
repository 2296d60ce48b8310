"""Projects that share the private server do not meet, and a producer nobody listens to is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client.connect import find_settings, private_settings
from penstock.server.embedded import EmbeddedServer
from penstock.server.project import project_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import RedisServer


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("PENSTOCK_NAMESPACE", "PENSTOCK_URL"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "data"
    EmbeddedServer(tmp_path / "data").stop()


def test_the_namespace_on_the_private_server_is_the_project(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path / "shop"))

    assert private_settings(data=data).namespace == project_namespace()
    assert project_namespace().startswith("shop-")
    assert private_settings("given", data).namespace == "given"
    monkeypatch.setenv("PENSTOCK_NAMESPACE", "named")
    assert private_settings(data=data).namespace == "named"
    assert private_settings("given", data).namespace == "given"


def test_the_namespace_on_a_redis_of_ones_own_is_what_it_was(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_NAMESPACE", raising=False)

    assert find_settings(server.url).namespace == "penstock"


def test_what_is_sent_in_one_project_is_not_seen_in_another(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path / "a" / "shop"))
    with penstock.connect(data=data) as ps:
        ps.queue("mail").enqueue(b"hello")

    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path / "b" / "shop"))
    with penstock.connect(data=data) as ps:
        assert ps.queues() == []


@pytest.mark.parametrize("way", ["enqueue", "enqueue_many", "enqueue_unique", "add", "add_many"])
def test_who_sends_to_a_queue_that_nobody_serves_is_told_once(
    data: Path, namespace: str, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    for _ in range(2):
        with penstock.connect(data=data, namespace=namespace) as ps:
            send(ps, way)
            send(ps, way)

    assert warnings(caplog) == [
        "sent to a queue that no worker serves, or has taken anything from queue=mail "
        f"namespace={namespace}; start a worker in the same project, or give both the same "
        "PENSTOCK_NAMESPACE"
    ]


def test_who_sends_to_a_queue_that_is_served_or_was_is_told_nothing(
    data: Path, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock.connect(data=data, namespace=namespace) as ps:
        with ps.worker("ant") as worker:
            worker.start_work("idle")
            ps.queue("idle").enqueue(b"hello")
            worker.start_work("mail")
            ps.queue("mail").enqueue(b"hello")
            process = worker.start_task("mail")
            assert process is not None
            process.finish()
        ps.queue("mail").enqueue(b"hello")

    assert warnings(caplog) == []


def test_on_a_redis_of_ones_own_nobody_is_told_anything(
    server: RedisServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock.connect(server.url, namespace=namespace) as ps:
        send(ps, "enqueue")
        send(ps, "enqueue")

    assert warnings(caplog) == []


def test_it_is_asked_once_and_not_with_every_task(data: Path, namespace: str) -> None:
    with penstock.connect(data=data, namespace=namespace) as ps:
        mail = ps.queue("mail")
        mail.enqueue(b"first")
        before = calls(ps)

        for _ in range(10):
            mail.enqueue(b"more")

        assert calls(ps) - before == 10


def send(ps: penstock.Penstock, way: str) -> None:
    match way:
        case "enqueue":
            ps.queue("mail").enqueue(b"hello")
        case "enqueue_many":
            ps.queue("mail").enqueue_many([b"hello", b"again"])
        case "enqueue_unique":
            ps.queue("mail").enqueue_unique(b"hello")
        case "add":
            ps.jobs("mail").add("email")
        case "add_many":
            ps.jobs("mail").add_many("email", [1, 2])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def calls(ps: penstock.Penstock) -> int:
    """How many scripts the server has run."""
    info = ps.store.call("", "INFO", "commandstats").decode()
    counts = [line for line in info.splitlines() if line.startswith("cmdstat_eval")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in counts)
