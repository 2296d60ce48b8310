"""`penstock queue` and `penstock enqueue` where a queue holds jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.model.jobs import LAYOUT
from tests.cli.conftest import CommandLine, cells
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    import redis

    import penstock
    from tests.servers import RedisServer


def test_queues_of_jobs_are_listed_below_those_of_tasks(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    ps.queue("plain").enqueue(b"task")
    mail.add_many("email", [{}] * 3)
    hand.finish(hand.take_one())
    hand.fail(hand.take_one())
    mail.add("email", delay=60)

    assert cells(cli("queue", "list").stdout) == [
        ["queue", "state", "ready", "running", "dead", "finished", "workers"],
        ["plain", "open", "1", "0", "0", "0", "0"],
        ["jobs", "in", "state", "scheduled", "ready", "running", "done", "dead", "workers"],
        ["mail", "open", "1", "1", "0", "1", "1", "1"],
    ]


def test_a_queue_that_a_newer_version_wrote_does_not_hide_the_others(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs, redis_client: redis.Redis
) -> None:
    mail.add("email")
    ps.jobs("newer").add("email")
    redis_client.hset(ps.keys.queue("newer").meta, "layout", LAYOUT + 1)

    shown = cells(cli("queue", "list").stdout)
    listed = {state["name"]: state for state in cli.json("queue", "list")}

    assert shown[1] == ["mail", "open", "0", "1", "0", "0", "0", "0"]
    assert shown[3][:7] == ["newer", "these", "jobs", "were", "written", "by", "a"]
    assert listed["mail"]["jobs"]["ready"] == 1
    assert (listed["newer"]["kind"], listed["newer"]["error"]["code"]) == ("jobs", "unknown_layout")
    assert "upgrade this program" in listed["newer"]["error"]["message"]


@pytest.mark.parametrize("layout", ["3", "many"])
def test_nor_does_it_if_there_is_no_other(
    cli: CommandLine,
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    redis_client: redis.Redis,
    layout: str,
) -> None:
    mail.add("email")
    redis_client.hset(ps.keys.queue("mail").meta, "layout", layout)

    result = cli("queue", "list")

    assert result.exit_code == 0
    assert cells(result.stdout)[1][0] == "mail"
    assert "no queues" not in result.stdout


@pytest.mark.parametrize("figure", ["max_length", "finished", "rA:"])
def test_a_figure_that_is_no_number_counts_as_if_it_were_not_there(
    cli: CommandLine,
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    redis_client: redis.Redis,
    figure: str,
) -> None:
    mail.add("email")
    redis_client.hset(ps.keys.queue("mail").meta, figure, "many")

    [listed] = cli.json("queue", "list")

    assert (listed["max_length"], listed["counters"]["finished"]) == (None, 0)
    assert listed["jobs"]["ready"] == (0 if figure == "rA:" else 1)


def test_queues_of_jobs_fit_a_terminal_of_80_columns(
    server: RedisServer, namespace: str, ps: penstock.Penstock
) -> None:
    name = "x" * 255
    ps.jobs(name).add("email")

    lines = CommandLine(server.url, namespace, columns=80)("queue", "list").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert "".join(lines).count("x") == 255
    assert lines[0].split()[-2:] == ["dead", "workers"]


def test_a_queue_says_what_it_holds(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add("email")
    ps.queue("plain").enqueue(b"task")
    ps.queue("new").pause()

    kinds = {state["name"]: state["kind"] for state in cli.json("queue", "list")}

    assert kinds == {"mail": "jobs", "plain": "tasks", "new": "undecided"}


def test_a_queue_of_jobs_is_shown_with_its_counts(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 2)
    hand.fail(hand.take_one())

    shown = cli("queue", "show", "mail").stdout
    document = cli.json("queue", "show", "mail")

    facts = [line.split() for line in shown.splitlines()]
    assert ["kind", "jobs"] in facts
    assert ["ready", "1"] in facts
    assert ["dead", "1"] in facts
    assert ["failed", "1"] in facts
    assert (document["ready"], document["dead"], document["running"]) == (1, 1, 0)
    assert document["jobs"]["ready"] == document["jobs"]["dead"] == 1
    assert document["counters"]["started"] == 1


def test_a_queue_of_jobs_is_paused_and_configured(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")
    mail.add("email", delay=60)

    assert cli("queue", "pause", "mail").stdout == "paused 'mail'; 2 jobs waiting\n"
    assert cli("queue", "resume", "mail").stdout == "resumed 'mail'; 2 jobs waiting\n"
    assert cli("queue", "configure", "mail", "--max-length", "7").stdout == (
        "in 'mail' 7 jobs may wait\n"
    )
    refused = cli("queue", "configure", "mail", "--max-failures", "7")
    assert refused.exit_code == 1
    assert "queue 'mail' holds jobs" in refused.stderr


def test_a_queue_of_jobs_is_deleted_after_a_yes(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 3)
    taken = hand.take_one()

    kept = cli("queue", "delete", "mail", stdin=b"y\n")
    assert "Delete queue 'mail' with 2 jobs?" in kept.stderr
    assert "still there, because 1 job of it run; 2 jobs deleted" in kept.stderr
    assert kept.exit_code == 1

    hand.finish(taken)
    hand.leave()

    assert cli("queue", "delete", "mail", "--yes").stdout == "deleted 'mail' with 1 job\n"
    assert ps.queues() == []


@pytest.mark.parametrize(
    "command",
    [
        ["tasks", "mail"],
        ["cancel", "mail", "task"],
        ["retry-dead", "mail"],
        ["events", "mail"],
    ],
)
def test_what_is_for_tasks_says_what_is_for_jobs(
    cli: CommandLine, mail: penstock.Jobs, command: list[str]
) -> None:
    mail.add("email")

    result = cli("queue", *command)
    document = cli("queue", *command, "--json")

    assert result.exit_code == document.exit_code == 1
    assert "`penstock job list -q mail` shows them" in result.stderr
    assert json.loads(document.stdout)["error"]["code"] == "wrong_kind"


def test_a_queue_of_jobs_takes_no_tasks(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")

    result = cli("enqueue", "mail", "task")

    assert result.exit_code == 1
    assert "queue 'mail' holds jobs, so it takes no plain tasks" in result.stderr


def test_what_workers_hold_and_have_not_begun_is_told_from_what_runs(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", range(7))
    Hand(ps, "busy", slots=2).take(6)

    listed = cells(cli("queue", "list").stdout)
    shown = cells(cli("queue", "show", "mail").stdout)
    document = cli.json("queue", "show", "mail")

    assert listed[1][:7] == ["mail", "open", "0", "1", "2", "(+4", "prefetched)"]
    assert ["running", "2"] in shown
    assert ["prefetched", "4,", "held", "and", "not", "begun"] in shown
    assert (document["running"], document["prefetched"]) == (2, 4)
    assert document["jobs"]["running"] == 6  # their state


def test_a_worker_whose_lease_has_lapsed_does_not_count(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add("email")
    Hand(ps, "alive")
    dead = Hand(ps, "dead")
    dead.take_one()
    dead.expire(ago_s=8)

    listed = cells(cli("queue", "list").stdout)
    shown = cli("queue", "show", "mail").stdout
    document = cli.json("queue", "show", "mail")

    assert listed[1][-1] == "1"
    assert "1, 0 of them idle; the leases of 1 more have lapsed" in shown
    assert "dead (its lease has lapsed)" in shown
    assert (document["workers"], document["lapsed_workers"]) == (1, ["dead"])
