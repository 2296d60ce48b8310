"""`penstock fsck`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.model.jobs import LAYOUT

if TYPE_CHECKING:
    import redis

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.cli.conftest import CommandLine

DIGEST = "0" * 40


def test_a_sound_store_is_clean(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b"])

    result = cli("fsck")

    assert result.exit_code == 0
    assert result.stdout == "1 queue, 2 tasks, 0 workers: 0 violations\n"
    assert cli.json("fsck") == {
        "is_clean": True,
        "queues": 1,
        "tasks": 2,
        "jobs": 0,
        "messages": 0,
        "workers": 0,
        "violations": [],
        "repaired": [],
    }


def test_what_is_wrong_is_listed_and_status_1(
    cli: CommandLine, queue: penstock.Queue, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    queue.enqueue(b"a")
    redis_client.hset(keys.failures, DIGEST, 3)
    redis_client.set(f"{keys.tag}:[red]\x1b[2J", "x")

    shown = cli("fsck")
    document = json.loads(cli("fsck", "--json").stdout)

    assert shown.exit_code == 1
    assert "repairable" in shown.stdout
    assert "1 queue, 1 task, 0 workers: 2 violations" in shown.stdout
    assert "[red]\\x1b[2J" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert document["is_clean"] is False
    assert {v["is_repairable"] for v in document["violations"]} == {True, False}


def test_what_is_no_id_is_a_finding_and_no_traceback(
    cli: CommandLine, ps: penstock.Penstock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    ps.jobs("mail").add("email")
    redis_client.hset(keys.unique_jobs, "=key", "nonsense")

    result = cli("fsck", "--json")
    [found] = json.loads(result.stdout)["violations"]

    assert result.exit_code == 1
    assert found["message"].startswith("'unique_jobs' has b'nonsense' for b'=key'")
    assert cli("fsck", "--repair").exit_code == 0


def test_a_queue_of_a_newer_version_is_a_finding_too(
    cli: CommandLine, ps: penstock.Penstock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    ps.jobs("mail").add("email")
    ps.queue("plain").enqueue(b"a")
    redis_client.hset(keys.meta, "layout", LAYOUT + 1)

    result = cli("fsck", "--json")
    document = json.loads(result.stdout)

    assert result.exit_code == 1
    assert (document["queues"], document["tasks"]) == (2, 1)
    [found] = document["violations"]
    assert (found["queue"], found["is_repairable"]) == ("mail", False)
    assert "was written by a newer penstock" in found["message"]


def test_what_was_repaired_is_told_apart_from_what_is_left(
    cli: CommandLine, queue: penstock.Queue, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    queue.enqueue(b"a")
    redis_client.hset(keys.failures, DIGEST, 3)
    redis_client.set(f"{keys.tag}:nonsense", "x")

    result = cli("fsck", "--repair")

    assert result.exit_code == 1
    states = [line.split()[0] for line in result.stdout.splitlines() if "I" in line]
    assert states == ["repaired", "left"]
    assert "1 violation, 1 repaired" in result.stdout
    assert not redis_client.exists(keys.failures)

    redis_client.delete(f"{keys.tag}:nonsense")
    redis_client.hset(keys.failures, DIGEST, 3)

    assert cli.json("fsck", "--repair")["is_clean"] is True


def test_queues_of_jobs_are_checked_and_repaired_too(
    cli: CommandLine, ps: penstock.Penstock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    ps.jobs("mail").add_many("email", [1, 2, 3])
    redis_client.hincrby(keys.meta, "rT:email", 2)

    shown = cli("fsck")

    assert shown.exit_code == 1
    assert "5 are counted in meta as 'rT:email', 2 too many" in shown.stdout.replace("\n", " ")
    assert "1 queue, 0 tasks, 3 jobs, 0 workers: 1 violation" in shown.stdout

    mended = cli("fsck", "--repair")

    assert mended.exit_code == 0
    assert "0 violations, 1 repaired" in mended.stdout
    assert ps.jobs("mail").counts(type="email")["ready"] == 3
