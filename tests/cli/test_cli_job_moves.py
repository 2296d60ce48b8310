"""`penstock job retry|cancel|remove|promote|priority`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.connection.job_ids import new_job_id

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine
    from tests.contract.job_workers import Hand


def test_a_dead_job_runs_again(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.fail(hand.take_one())

    assert cli("job", "retry", job.id).stdout == "retried 1 job\n"
    assert job.state == "ready"


def test_one_job_that_cannot_move_does_not_keep_the_others_from_it(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    dead, ready = mail.add("email"), mail.add("email")
    hand.fail(hand.take_one())

    result = cli("job", "retry", ready.id, "x", dead.id)
    document = cli("job", "cancel", ready.id, new_job_id(), "--json")

    assert result.exit_code == document.exit_code == 1
    assert result.stdout == "retried 1 job\n"
    assert f"job {ready.id} is ready; dead and cancelled jobs can run again" in result.stderr
    assert "'x' is not the id of a job" in result.stderr
    assert (dead.state, ready.state) == ("ready", "cancelled")
    assert json.loads(document.stdout)["cancelled"] == [ready.id]
    assert [error["code"] for error in json.loads(document.stdout)["errors"]] == ["job_not_found"]


def test_all_dead_jobs_of_a_type_run_again(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 3)
    mail.add_many("report", [{}] * 2)
    for job in hand.take(5):
        hand.fail(job)

    assert cli("job", "retry", "--all-dead", "-q", "mail", "--type", "email").stdout == (
        "retried 3 dead jobs of 'mail'\n"
    )
    assert cli.json("job", "retry", "--all-dead", "-q", "mail") == {
        "queue": "mail",
        "state": "dead",
        "retried": 2,
    }
    assert mail.counts()["ready"] == 5


def test_all_that_are_dead_for_one_reason_run_again(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    failed, rejected, other = mail.add_many("email", range(3))
    first, *rest = hand.take(3)
    hand.fail(first)
    for process in rest:
        hand.reject(process)
    command = ["job", "retry", "--all-dead", "-q", "mail", "--reason"]

    assert cli(*command, "rejected").stdout == "retried 2 dead jobs of 'mail'\n"
    assert [job.state for job in (failed, rejected, other)] == ["dead", "ready", "ready"]
    assert cli(*command, "timeout").stdout == "retried 0 dead jobs of 'mail'\n"
    assert cli(*command, "bad luck").exit_code == 2


def test_a_running_job_is_asked_to_end(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    running, waiting = mail.add("email"), mail.add("email")
    taken = hand.take_one()

    assert cli("job", "cancel", running.id, waiting.id).stdout == (
        "cancelled 1 job\nasked 1 running job to end\n"
    )
    assert "running (asked to end)" in cli("job", "show", running.id).stdout
    assert cli.json("job", "cancel", running.id) == {
        "cancelled": [],
        "asked": [running.id],
        "errors": [],
    }
    hand.end(taken)
    assert running.state == "cancelled"


def test_many_jobs_are_cancelled_after_a_yes(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add_many("email", [{}] * 1200, tenant="acme")
    mail.add("email")
    command = ["job", "cancel", "--state", "ready", "-q", "mail", "--tenant", "acme"]

    refused = cli(*command, stdin=b"n\n")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("penstock: not confirmed, so nothing was done\n")
    assert mail.counts()["cancelled"] == 0

    cancelled = cli(*command, stdin=b"y\n")

    assert cancelled.exit_code == 0
    assert "Cancel 1,200 ready jobs of 'mail'?" in cancelled.stderr
    assert cancelled.stdout.endswith("cancelled 1,200 ready jobs of 'mail'\n")
    assert mail.counts()["ready"] == 1


def test_many_jobs_are_removed_after_a_yes(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 3, tags=["a"], tenant="acme")
    mail.add("email", tags=["a"])
    for job in hand.take(4):
        hand.fail(job)
    command = ["job", "remove", "--state", "dead", "-q", "mail", "--tag", "a", "--tenant", "acme"]

    asked = cli(*command, stdin=b"")

    assert "Remove up to 3 dead jobs of 'mail'?" in asked.stderr
    assert asked.exit_code == 1
    assert cli.json(*command, "--yes") == {"queue": "mail", "state": "dead", "removed": 3}
    assert mail.counts()["dead"] == 1


def test_a_job_is_removed_unless_it_runs(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    running, waiting = mail.add("email"), mail.add("email")
    hand.take_one()

    result = cli("job", "remove", running.id, waiting.id)

    assert result.exit_code == 1
    assert result.stdout == "removed 1 job\n"
    assert result.stderr == f"penstock: job {running.id} is running; cancel it first\n"
    assert mail.counts()["ready"] == 0


def test_a_scheduled_job_runs_now(cli: CommandLine, mail: penstock.Jobs) -> None:
    jobs = mail.add_many("email", [{}] * 2, delay=3600)

    assert cli("job", "promote", *(job.id for job in jobs)).stdout == "promoted 2 jobs\n"
    assert [job.state for job in jobs] == ["ready", "ready"]


def test_a_job_that_is_promoted_twice_keeps_its_place(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    first, second = mail.add("email", 1), mail.add("email", 2)

    assert cli("job", "promote", first.id, first.id).exit_code == 0

    assert [job.id for job in hand.take(5)] == [first.id, second.id]


@pytest.mark.parametrize(("given", "priority"), [("high", -10), ("-7", -7), ("12", 12)])
def test_the_priority_of_a_waiting_job_is_changed(
    cli: CommandLine, mail: penstock.Jobs, given: str, priority: int
) -> None:
    job = mail.add("email")

    assert cli("job", "priority", job.id, given).stdout == (
        f"job {job.id} has priority {priority}\n"
    )
    assert cli.json("job", "priority", job.id, given) == {
        "id": job.id,
        "queue": "mail",
        "priority": priority,
    }
    assert job.info().priority == priority


def test_the_priority_of_a_running_job_stays(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    hand.take_one()

    result = cli("job", "priority", job.id, "high")

    assert result.exit_code == 1
    assert "can only be changed while it is scheduled or ready" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["retry"], "Nothing to do; give an ID, or --all-dead and -q"),
        (["retry", "--all-dead"], "name it with -q"),
        (["retry", "a", "--all-dead"], "not both"),
        (["cancel"], "Nothing to do; give an ID, or --state and -q"),
        (["cancel", "a", "--tag", "b"], "not both"),
        (["cancel", "--state", "done", "-q", "mail"], "'done' is not one of"),
        (["cancel", "--state", "ready", "-q", "mail", "--json"], "add --yes"),
        (["remove", "--state", "running", "-q", "mail"], "'running' is not one of"),
        (["remove", "--type", "a"], "Nothing to do"),
        (["promote"], "Missing argument"),
        (["priority", "a", "soon"], "neither a whole number nor one of"),
    ],
)
def test_what_is_not_understood_moves_nothing(
    cli: CommandLine, mail: penstock.Jobs, arguments: list[str], message: str
) -> None:
    mail.add("email")

    result = cli("job", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert mail.counts()["ready"] == 1
