"""`penstock doctor` on stores in all states of health."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import store
from penstock.store.script import load
from tests.cli.conftest import CommandLine
from tests.servers import RedisCluster, RedisServer, free_cluster_port, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


def levels(document: Any) -> dict[str, str]:
    return {finding["check"]: finding["level"] for finding in document["findings"]}


@pytest.fixture
def own_cli(own_server: RedisServer, namespace: str) -> CommandLine:
    return CommandLine(own_server.url, namespace)


@pytest.fixture
def guarded() -> Iterator[RedisServer]:
    """A server on a port, for users and passwords."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder), "--appendonly", "yes", port=free_port()).start()
        yield server
        server.kill()


def test_a_healthy_store_has_nothing_but_ok(own_cli: CommandLine) -> None:
    document = own_cli.json("doctor")

    assert document["is_healthy"] is True
    assert levels(document) == dict.fromkeys(
        [
            *("reachable", "round trip", "version", "role", "durability", "eviction"),
            *("memory", "clock", "access", "cluster", "permissions", "scripts", "canary"),
            "readers",
        ],
        "ok",
    )


def test_people_get_a_table_and_a_sum(own_cli: CommandLine) -> None:
    result = own_cli("doctor")

    assert result.exit_code == 0
    assert "append-only file on, appendfsync everysec" in result.stdout
    assert result.stdout.endswith("\n0 problems, 0 warnings\n")


def test_every_script_that_there_is_is_tried(own_cli: CommandLine, own_server: RedisServer) -> None:
    folder = Path(store.__file__).parent / "scripts"
    files = [file for file in folder.glob("*/*.lua") if file.parent.name != "fragments"]
    digests = [load(str(file.relative_to(folder).with_suffix(""))).digest() for file in files]

    document = own_cli.json("doctor")

    assert own_server.command("SCRIPT", "EXISTS", *digests) == [True] * len(files)
    [said] = [each["message"] for each in document["findings"] if each["check"] == "scripts"]
    assert said == f"the server accepts all {len(files)} scripts"


def test_the_canary_leaves_nothing_behind(
    cli: CommandLine, ps: penstock.Penstock, namespace: str
) -> None:
    assert cli("doctor").exit_code == 0

    assert ps.queues() == []
    assert ps.workers() == []
    assert cli("fsck").exit_code == 0


def test_every_kind_of_store_can_be_examined(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    document = CommandLine(any_store.url, namespace).json("doctor")

    assert document["is_healthy"] is True
    assert levels(document) == levels(document) | {"scripts": "ok", "canary": "ok", "cluster": "ok"}


def test_a_server_without_aof_is_a_warning_that_says_what_to_do(cli: CommandLine) -> None:
    result = cli("doctor")
    document = cli.json("doctor")

    assert result.exit_code == 0
    assert "→ CONFIG SET appendonly yes, and the same in redis.conf" in result.stdout
    assert result.stdout.endswith("\n0 problems, 1 warning\n")
    assert levels(document)["durability"] == "warning"


def test_a_server_that_never_syncs_is_a_warning(
    own_server: RedisServer, own_cli: CommandLine
) -> None:
    own_server.command("CONFIG", "SET", "appendfsync", "no")

    assert levels(own_cli.json("doctor"))["durability"] == "warning"


def test_a_server_that_evicts_is_a_problem(own_server: RedisServer, own_cli: CommandLine) -> None:
    own_server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

    shown = own_cli("doctor")
    document = own_cli("doctor", "--json")

    assert shown.exit_code == document.exit_code == 1
    assert "→ CONFIG SET maxmemory-policy noeviction" in shown.stdout
    found = json.loads(document.stdout)
    assert found["is_healthy"] is False
    assert levels(found)["eviction"] == "problem"
    assert levels(found)["canary"] == "warning"


def test_a_full_server_is_a_problem(own_server: RedisServer, own_cli: CommandLine) -> None:
    own_server.command("CONFIG", "SET", "maxmemory", 1)

    result = own_cli("doctor", "--json")

    assert result.exit_code == 1
    assert levels(json.loads(result.stdout))["memory"] == "problem"
    assert levels(json.loads(result.stdout))["canary"] == "problem"


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1",
        "unix:///does/not/exist",
        "redis+cluster://127.0.0.1:1",
        "redis+sentinel://127.0.0.1:1/main",
    ],
)
def test_a_store_that_cannot_be_reached_is_a_problem_at_once(cli: CommandLine, url: str) -> None:
    began_at = time.monotonic()

    result = cli("doctor", "--url", url, "--json")

    assert result.exit_code == 1
    assert levels(json.loads(result.stdout)) == {"reachable": "problem"}
    assert time.monotonic() - began_at < 5


def test_a_url_that_makes_no_sense_is_a_problem(cli: CommandLine) -> None:
    result = cli("doctor", "--url", "http://host")

    assert result.exit_code == 1
    assert "the store URL begins with 'http'" in result.stdout


def test_a_node_of_a_cluster_needs_a_cluster_url(
    request: pytest.FixtureRequest, namespace: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        node = RedisServer(
            Path(folder), "--cluster-enabled", "yes", port=free_cluster_port()
        ).start()
        request.addfinalizer(node.kill)

        result = CommandLine(node.url, namespace)("doctor")

        assert result.exit_code == 1
        assert "→ use a redis+cluster:// URL" in result.stdout


def test_a_wrong_password_is_a_problem_and_is_not_shown(
    guarded: RedisServer, namespace: str
) -> None:
    guarded.command("CONFIG", "SET", "requirepass", "the-right-one")
    url = f"redis://:hunter2@127.0.0.1:{guarded.port}"

    result = CommandLine(url, namespace)("doctor")

    assert result.exit_code == 1
    assert "refuses the login" in result.stdout
    assert "hunter2" not in result.output


def test_a_user_without_channels_is_found_before_a_task_is_put_through(
    guarded: RedisServer, namespace: str
) -> None:
    guarded.command("ACL", "SETUSER", "ann", "on", ">hunter2", "~*", "+@all", "resetchannels")
    url = f"redis://ann:hunter2@127.0.0.1:{guarded.port}"

    result = CommandLine(url, namespace)("doctor", "--json")

    assert result.exit_code == 1
    found = levels(json.loads(result.stdout))
    assert found["permissions"] == "problem"
    assert "canary" not in found
    assert "hunter2" not in result.output


def test_a_user_who_may_not_ask_for_settings_still_gets_an_answer(
    guarded: RedisServer, namespace: str
) -> None:
    guarded.command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-config", "-acl")
    url = f"redis://ann:pw@127.0.0.1:{guarded.port}"

    document = CommandLine(url, namespace).json("doctor")

    assert set(levels(document).values()) == {"ok"}


def test_a_reader_that_has_fallen_behind_is_a_warning(
    own_cli: CommandLine, own_server: RedisServer, namespace: str
) -> None:
    with penstock.connect(own_server.url, namespace=namespace) as client:
        jobs = client.jobs("mail")
        jobs.configure(history_cap=3)
        jobs.add("email").cancel()
        jobs.mark_history("lake", jobs.history()[-1].place)
        assert levels(own_cli.json("doctor"))["readers"] == "ok"
        for _ in range(3):
            jobs.add("email").cancel()

    result = own_cli("doctor")

    assert result.exit_code == 0
    assert "reader 'lake' of the history of queue 'mail' has fallen behind" in _plain(result.stdout)
    assert levels(own_cli.json("doctor"))["readers"] == "warning"


def _plain(text: str) -> str:
    """A table without its line breaks."""
    return " ".join(text.split())
