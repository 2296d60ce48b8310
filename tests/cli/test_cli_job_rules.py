"""`penstock job pause-type|resume-type|limit|share|purge`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine
    from tests.contract.job_workers import Hand


def test_a_paused_type_is_not_handed_out(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email")

    paused = cli("job", "pause-type", "mail", "email")
    assert paused.stdout == "paused type 'email' of 'mail'; 1 job ready\n"
    assert hand.take() == []

    resumed = cli("job", "resume-type", "mail", "email")
    assert resumed.stdout == "resumed type 'email' of 'mail'; 1 job ready\n"
    assert len(hand.take()) == 1
    assert cli.json("job", "pause-type", "mail", "email")["is_paused"] is True
    assert cli.json("job", "resume-type", "mail", "email")["is_paused"] is False


def test_a_limit_holds_until_it_is_lifted(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 4)

    limited = cli("job", "limit", "mail", "--concurrency", "2")
    assert limited.stdout == "jobs of 'mail' are limited: 2 at once\n"
    assert len(hand.take(4)) == 2
    assert hand.take(4) == []

    lifted = cli("job", "limit", "mail", "--lift")
    assert lifted.stdout == "jobs of 'mail' are not limited any more\n"
    assert len(hand.take(4)) == 2


def test_the_jobs_of_a_key_are_limited_apart(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 3, key="a")
    mail.add("email", key="b")

    cli("job", "limit", "mail", "a", "--concurrency", "1")

    assert len(hand.take(4)) == 2


def test_a_rate_is_said_in_words_and_numbers(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")
    rate = ["--rate", "100", "--per", "60", "--burst", "10"]

    assert cli("job", "limit", "mail", "host", *rate, "--concurrency", "3").stdout == (
        "jobs of key 'host' in 'mail' are limited: 3 at once; "
        "100 every 1 min 0 s, 10 of them at once\n"
    )
    assert cli("job", "limit", "mail", "*", "--rate", "0.5").stdout == (
        "jobs of each key in 'mail' are limited: 0.5 every 1.0 s\n"
    )
    assert cli.json("job", "limit", "mail", *rate) == {
        "queue": "mail",
        "key": "",
        "concurrency": None,
        "rate": 100,
        "per_s": 60,
        "burst": 10,
    }


def test_a_tenant_with_a_larger_share_starts_more(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", ["a"] * 8, tenant="a")
    mail.add_many("email", ["b"] * 8, tenant="b")

    assert cli("job", "share", "mail", "a", "3").stdout == (
        "tenant 'a' of 'mail' starts 3 jobs in each round\n"
    )
    assert cli.json("job", "share", "mail", "b", "1")["weight"] == 1
    assert sorted(hand.take_named(8)) == ["a"] * 6 + ["b"] * 2


def test_finished_jobs_that_are_kept_no_longer_are_purged(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 3)
    for job in hand.take(3):
        hand.finish(job)
    mail.configure(keep_count=1)

    assert cli("job", "purge", "mail").stdout == "purged 2 finished jobs of 'mail'\n"
    assert cli.json("job", "purge", "mail") == {"queue": "mail", "purged": 0}
    assert mail.counts()["done"] == 1


@pytest.mark.parametrize(
    "command",
    [
        ["pause-type", "mail", "email"],
        ["limit", "mail", "--rate", "2"],
        ["share", "mail", "acme", "2"],
        ["configure", "mail", "--keep", "60"],
    ],
)
def test_rules_may_come_before_the_first_job_but_not_to_a_queue_of_tasks(
    cli: CommandLine, ps: penstock.Penstock, command: list[str]
) -> None:
    first = cli("job", *command)
    assert (first.exit_code, first.stderr, ps.queues()) == (0, "", ["mail"])
    ps.queue("mail").delete()
    ps.queue("mail").enqueue(b"task")

    result = cli("job", *command)

    assert result.exit_code == 1
    assert "queue 'mail' holds plain tasks, not jobs" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["resume-type", "mail", "email"],
        ["limit", "mail", "--lift"],
        ["configure", "mail"],
        ["purge", "mail"],
        ["list", "-q", "mail"],
        ["search", "mail", "word"],
        ["tail", "-q", "mail"],
        ["retry", "--all-dead", "-q", "mail"],
        ["cancel", "--state", "ready", "-q", "mail", "--yes"],
    ],
)
def test_what_is_about_jobs_is_about_queues_of_jobs(
    cli: CommandLine, ps: penstock.Penstock, command: list[str]
) -> None:
    absent = cli("job", *command, "--json")
    ps.queue("mail").enqueue(b"task")
    result = cli("job", *command)

    assert absent.exit_code == result.exit_code == 1
    assert json.loads(absent.stdout)["error"]["code"] == "queue_not_found"
    assert result.stderr == (
        "penstock: queue 'mail' holds plain tasks, not jobs; `penstock queue show mail` and "
        "`penstock queue tasks mail` are for those\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["limit", "mail"], "Give --concurrency, --rate or both; or --lift"),
        (["limit", "mail", "--lift", "--rate", "1"], "or --lift"),
        (["limit", "mail", "--per", "1", "--lift"], "go with --rate"),
        (["limit", "mail", "--concurrency", "many"], "not a valid integer"),
        (["share", "mail", "acme", "0"], "not in the range"),
    ],
)
def test_what_is_not_understood_sets_nothing(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    result = cli("job", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--concurrency", "0"], "concurrency is 0; give a whole number from 1 up"),
        (["--rate", "nan"], "rate is nan; give a number above 0"),
        (
            ["--rate", "1", "--per", "0"],
            "per is 0.0; give the seconds that a rate is for, 0.001 or more",
        ),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(
    cli: CommandLine, mail: penstock.Jobs, options: list[str], message: str
) -> None:
    mail.add("email")

    result = cli("job", "limit", "mail", *options)

    assert result.exit_code == 1
    assert message in result.stderr


def test_settings_are_changed_and_shown_with_all_other_rules(
    cli: CommandLine, mail: penstock.Jobs
) -> None:
    mail.add("email")
    assert "only the defaults" in cli("job", "configure", "mail").stdout
    mail.limit("smtp", concurrency=2, rate=10, per=60)
    mail.share("acme", 3)
    mail.pause_type("digest")

    shown = cli("job", "configure", "mail", "--max-length", "1000", "--keep", "60").stdout
    found = cli.json("job", "configure", "mail", "--default", "max_length")

    for words in ("max_length", "1,000", "keep_s", "limit 'smtp'", "2 at once", "acme", "digest"):
        assert words in shown
    assert found["settings"] == {"keep_s": 60.0}
    assert found["limits"]["smtp"] == {"concurrency": 2, "rate": 10.0, "per_s": 60.0, "burst": 10.0}
    assert found["shares"] == {"acme": 3}
    assert found["paused_types"] == ["digest"]


def test_a_setting_that_makes_no_sense_is_refused(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")

    refused = cli("job", "configure", "mail", "--max-length", "0")

    assert refused.exit_code == 1
    assert "max_length is 0; give a whole number from 1 up" in refused.stderr
