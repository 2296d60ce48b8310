"""`penstock acl`, and what `penstock doctor` says of permissions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from penstock.cli.program import program
from tests.cli.conftest import CommandLine
from tests.redis_users import redis_user

if TYPE_CHECKING:
    from tests.servers import RedisServer


def test_rules_are_printed_as_a_command_of_redis(cli: CommandLine, namespace: str) -> None:
    printed = cli("acl", "producer", "--user", "web").stdout

    pattern = f"{{{namespace}[:}}]*"
    assert printed.startswith(
        f"ACL SETUSER web on resetkeys ~{pattern} resetchannels &{pattern} -@all +"
    )
    assert "+rpush" in printed.split() and "+rpop" not in printed.split()
    assert len(printed.splitlines()) == 1


def test_rules_come_as_json_too(cli: CommandLine) -> None:
    document = cli.json("acl", "observer")

    assert (document["user"], document["role"]) == ("penstock-observer", "observer")
    assert "+hget" in document["rules"] and "+hset" not in document["rules"]


def test_rules_are_printed_without_a_store() -> None:
    runner = CliRunner(env={"PENSTOCK_URL": None, "PENSTOCK_NAMESPACE": None})
    result = runner.invoke(program, ["acl", "worker", "--url", "redis+cluster://nowhere:1"])

    assert "~{penstock[:}]*" in result.stdout.split()
    assert "+spublish" in result.stdout.split()


@pytest.mark.parametrize("user", ["", "a b", "a\tb"])
def test_a_name_that_redis_does_not_take_is_refused(cli: CommandLine, user: str) -> None:
    result = cli("acl", "worker", "--user", user)

    assert result.exit_code == 1
    assert "Redis takes no name" in result.stderr


def test_doctor_says_which_command_a_worker_lacks(server: RedisServer, namespace: str) -> None:
    with redis_user(server, "allkeys", "allchannels", "+@all", "-rpush") as user:
        result = CommandLine(user.url, namespace)("doctor", "--json")

    findings = {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 1
    assert findings["permissions"]["level"] == "problem"
    assert "may not run RPUSH" in findings["permissions"]["message"]
    assert f"`ACL SETUSER {user.name} +rpush`" in findings["permissions"]["advice"]
    assert "canary" not in findings


@pytest.mark.parametrize("role", ["producer", "worker", "observer"])
def test_doctor_has_nothing_to_say_against_a_user_with_the_rules_of_its_role(
    role: str, cli: CommandLine, server: RedisServer, namespace: str
) -> None:
    rules = cli.json("acl", role)["rules"]
    with redis_user(server, *rules) as user:
        result = CommandLine(user.url, namespace)("doctor", "--role", role, "--json")

    findings = {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0, result.stdout
    assert findings["permissions"]["level"] == "ok"
    assert ("canary" in findings) == (role == "worker")


def test_doctor_finds_nothing_missing_for_the_default_user(cli: CommandLine) -> None:
    findings = {one["check"]: one for one in cli.json("doctor")["findings"]}

    assert findings["permissions"]["message"] == "the user may do everything that a worker does"
