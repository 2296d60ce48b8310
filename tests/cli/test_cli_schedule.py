"""`penstock schedule`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from penstock.cli.program import program
from penstock.model.jobs import LAYOUT
from tests.cli.conftest import CommandLine, cells

if TYPE_CHECKING:
    import redis

    import penstock
    from penstock.client.schedules import Schedules
    from tests.contract.job_workers import Hand
    from tests.servers import RedisServer


@pytest.fixture
def schedules(ps: penstock.Penstock) -> Schedules:
    return ps.schedules("mail")


def test_no_schedules_are_an_empty_list_and_a_hint(cli: CommandLine) -> None:
    assert cli.json("schedule", "list") == []
    assert cli("schedule", "list").stdout == "no schedules; `penstock schedule add` makes one\n"


def test_a_queue_that_a_newer_version_wrote_does_not_hide_the_schedules_of_others(
    cli: CommandLine, ps: penstock.Penstock, schedules: Schedules, redis_client: redis.Redis
) -> None:
    schedules.add("pulse", "ping", every=60)
    ps.schedules("later").add("other", "ping", every=60)
    redis_client.hset(ps.keys.queue("later").meta, "layout", LAYOUT + 1)

    listed = cells(cli("schedule", "list").stdout)
    first, unread = cli.json("schedule", "list")

    assert listed[1][0] == "pulse"
    assert ["later", "these", "jobs", "were"] in [row[:4] for row in listed[2:]]
    assert (first["name"], unread["queue"]) == ("pulse", "later")
    assert unread["error"]["code"] == "unknown_layout"
    assert cli("schedule", "list", "-q", "later").exit_code == 1


def test_a_schedule_by_cron_is_added(cli: CommandLine, schedules: Schedules) -> None:
    result = cli(
        *("schedule", "add", "nightly", "-q", "mail", "report", '{"to": "alice"}'),
        *("--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--misfire", "skip"),
        *("--attempts", "3", "--backoff", "none", "--tag", "a", "--priority", "low"),
    )

    state = schedules.get("nightly")
    assert result.stdout.startswith(
        "set schedule 'nightly' of 'mail': cron 0 3 * * * (Europe/Berlin); next at "
    )
    assert (state.schedule.type, state.schedule.data) == ("report", b'{"to": "alice"}')
    assert (state.schedule.cron, state.schedule.misfire) == ("0 3 * * *", "skip")
    assert state.schedule.options == {
        "attempts": 3,
        "backoff": "none",
        "tags": ["a"],
        "priority": "low",
    }


def test_a_schedule_by_interval_is_added_for_a_time(cli: CommandLine) -> None:
    added = cli.json(
        *("schedule", "add", "pulse", "-q", "mail", "ping", "//8=", "--base64", "--every", "60"),
        *("--starts-at", "2098-01-01T00:00Z", "--ends-at", "2099-01-01T00:00Z"),
    )

    assert (added["name"], added["queue"], added["type"]) == ("pulse", "mail", "ping")
    assert added["data"] == {"base64": "//8="}
    assert (added["every_ms"], added["when"]) == (60_000, "every 1 min")
    assert added["next_at"] == datetime(2098, 1, 1, tzinfo=UTC).timestamp()
    assert added["ends_at_ms"] == datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000


def test_the_job_of_a_schedule_has_the_backoff_that_was_asked_for(cli: CommandLine) -> None:
    cli(
        *("schedule", "add", "pulse", "-q", "mail", "ping", "--every", "60"),
        *("--attempts", "3", "--backoff", "exponential:2:60:0.1"),
    )

    [listed] = cli.json("schedule", "list")
    assert listed["options"] == {"attempts": 3, "backoff": "exponential:2:60:0.1"}
    assert cli("schedule", "run", "pulse", "-q", "mail").exit_code == 0


def test_a_schedule_of_the_same_name_is_replaced(cli: CommandLine, schedules: Schedules) -> None:
    cli("schedule", "add", "pulse", "-q", "mail", "ping", "--every", "60")
    cli("schedule", "add", "pulse", "-q", "mail", "ping", "--every", "90")

    assert [state.schedule.every_ms for state in schedules.list()] == [90_000]


def test_a_schedule_that_has_ended_is_said_to_be_over(
    cli: CommandLine, ps: penstock.Penstock, schedules: Schedules
) -> None:
    schedules.add("old", "ping", every=5, ends_at=datetime.now(UTC) + timedelta(hours=1))
    slots = ps.keys.queue("mail").meta.replace(":meta", ":slots")
    ps.store.call(slots, "ZREM", slots, "old")

    assert "never again" in cli("schedule", "list").stdout
    assert cli.json("schedule", "list")[0]["next_at"] is None


def test_schedules_of_all_queues_are_listed(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.schedules("mail").add("nightly", "report", cron="0 3 * * *")
    ps.schedules("images").add("pulse", "resize", every=86400, misfire="all")
    ps.queue("plain").enqueue(b"task")

    head, *lines = cells(cli("schedule", "list").stdout)

    assert head == ["name", "queue", "type", "when", "next", "misfire"]
    assert lines[0][:7] == ["pulse", "images", "resize", "every", "1", "d", "in"]
    assert lines[0][-1] == "all"
    assert lines[2][:10] == [
        *("nightly", "mail", "report"),
        *("cron", "0", "3", "*", "*", "*", "(UTC)"),
    ]
    assert [each["name"] for each in cli.json("schedule", "list")] == ["pulse", "nightly"]
    assert [each["name"] for each in cli.json("schedule", "list", "-q", "mail")] == ["nightly"]


def test_a_time_that_passed_without_a_worker_is_late(
    cli: CommandLine, ps: penstock.Penstock, schedules: Schedules
) -> None:
    schedules.add("pulse", "ping", every=60)
    slots = ps.keys.queue("mail").meta.replace(":meta", ":slots")
    ps.store.call(slots, "ZADD", slots, "1000", "pulse")

    assert " h late" in cli("schedule", "list").stdout


def test_schedules_fit_a_terminal_of_80_columns(
    server: RedisServer, namespace: str, schedules: Schedules
) -> None:
    schedules.add("x" * 100, "report", cron="0 3 * * *", timezone="Europe/Berlin")

    lines = CommandLine(server.url, namespace, columns=80)("schedule", "list").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert "".join(lines[1:]).count("x") == 100


def test_a_paused_schedule_says_so_until_it_is_resumed(
    cli: CommandLine, schedules: Schedules
) -> None:
    schedules.add("pulse", "ping", every=3600)

    paused = cli("schedule", "pause", "pulse", "-q", "mail")
    assert paused.stdout == "paused schedule 'pulse' of 'mail': every 1 h, paused\n"
    [_, line] = cells(cli("schedule", "list").stdout)
    assert line == [*("pulse", "mail", "ping", "every", "1", "h,", "paused"), "paused", "once"]
    assert schedules.get("pulse").schedule.is_paused
    assert cli("schedule", "resume", "pulse", "-q", "mail").stdout.startswith(
        "resumed schedule 'pulse' of 'mail': every 1 h; next at "
    )
    assert cli.json("schedule", "pause", "pulse", "-q", "mail")["is_paused"] is True
    assert cli.json("schedule", "resume", "pulse", "-q", "mail")["is_paused"] is False


def test_the_job_of_a_schedule_is_sent_now(
    cli: CommandLine, mail: penstock.Jobs, schedules: Schedules, hand: Hand
) -> None:
    schedules.add("pulse", "ping", {"to": "alice"}, every=3600, attempts=3)
    due_at = schedules.get("pulse").next_at

    sent = cli.json("schedule", "run", "pulse", "-q", "mail")

    job = hand.take_one()
    assert (job.id, job.type, job.data) == (sent["id"], "ping", b'{"to":"alice"}')
    assert mail.get(sent["id"]).info().attempts == 3
    assert schedules.get("pulse").next_at == due_at
    assert cli("schedule", "run", "pulse", "-q", "mail", "--wait", "0.01").exit_code == 1


def test_a_schedule_is_removed(cli: CommandLine, schedules: Schedules) -> None:
    schedules.add("pulse", "ping", every=3600)

    assert cli("schedule", "remove", "pulse", "-q", "mail").stdout == (
        "removed schedule 'pulse' of 'mail'\n"
    )
    assert schedules.list() == []


@pytest.mark.parametrize("command", ["remove", "run", "pause", "resume"])
def test_a_schedule_that_is_not_there_is_an_error(
    cli: CommandLine, schedules: Schedules, command: str
) -> None:
    schedules.add("pulse", "ping", every=3600)

    result = cli("schedule", command, "puls", "-q", "mail")
    document = cli("schedule", command, "pulse", "-q", "mial", "--json")

    assert result.exit_code == document.exit_code == 1
    assert result.stderr == (
        "penstock: queue 'mail' has no schedule 'puls'; `penstock schedule list` shows all\n"
    )
    assert json.loads(document.stdout)["error"]["code"] == "queue_not_found"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "Say when: give --cron or --every"),
        (["--cron", "* * * * *", "--every", "5"], 2, "give only one of them"),
        (["--cron", "at noon"], 1, "cannot be read (not five fields, nor six)"),
        (["--cron", "0 0 30 2 *"], 1, "never fires, because no such day exists"),
        (["--cron", "0 0 * * *", "--timezone", "Mars"], 1, "time zone 'Mars' is not known here"),
        (["--every", "0.1"], 1, "every is 0.1 s; give 1 to"),
        (["--every", "nan"], 1, "every is nan s; give 1 to"),
        (["--every", "5", "--misfire", "twice"], 2, "'twice' is not one of"),
        (["--every", "5", "--attempts", "0"], 1, "attempts is 0"),
        (["--every", "5", "--starts-at", "2099-01-01"], 2, "'2099-01-01' has no time zone; write"),
        (
            ["--every", "5", "--ends-at", "1999-01-01T00:00Z"],
            *(1, "is left before its ends_at, 1999-01-01 00:00:00 UTC; give a later one"),
        ),
        (
            ["--every", "60", "--starts-at", "2099-01-01T00:00:01Z", "--ends-at", "2099-01-01T00Z"],
            *(1, "would never fire"),
        ),
    ],
)
def test_a_schedule_that_makes_no_sense_is_not_added(
    cli: CommandLine, ps: penstock.Penstock, arguments: list[str], status: int, message: str
) -> None:
    result = cli("schedule", "add", "x", "-q", "mail", "ping", *arguments)

    assert result.exit_code == status
    assert message in result.stderr
    assert ps.queues() == []


def test_a_queue_of_tasks_has_no_schedules(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"task")

    added = cli("schedule", "add", "x", "-q", "mail", "ping", "--every", "5")
    listed = cli("schedule", "list", "-q", "mail")

    assert added.exit_code == listed.exit_code == 1
    assert "holds plain tasks" in added.stderr
    assert "holds plain tasks" in listed.stderr


def test_a_hostile_schedule_reaches_the_terminal_as_text(
    cli: CommandLine, schedules: Schedules
) -> None:
    schedules.add("[red]x[/red] \u202e", "[b]", every=60)

    shown = cli("schedule", "list").stdout

    assert "[red]x[/red] \\u202e" in shown
    assert "\u202e" not in shown


def test_the_next_times_of_an_expression_need_no_store() -> None:
    runner = CliRunner(env={"PENSTOCK_URL": "redis://nowhere:1", "COLUMNS": "80"})
    command = ["schedule", "next", "30 9 * * MON-FRI", "--timezone", "Europe/Berlin", "-n", "7"]

    document = runner.invoke(program, [*command, "--json"], catch_exceptions=False)
    shown = runner.invoke(program, command, catch_exceptions=False)

    times = [datetime.fromisoformat(text) for text in json.loads(document.stdout)]
    assert len(times) == 7
    assert times == sorted(times)
    assert {(time.hour, time.minute) for time in times} == {(9, 30)}
    assert all(time.weekday() < 5 and time > datetime.now(UTC) for time in times)
    head, first, *_ = cells(shown.stdout)
    assert head == ["Europe/Berlin"]
    assert first[:2] == times[0].isoformat(" ", "minutes").split()
    assert first[3] == "in"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "cron 'nope' cannot be read"),
        (["0 0 30 2 *"], "never fires"),
        (["* * * * *", "--timezone", "Mars"], "time zone 'Mars' is not known here"),
    ],
)
def test_an_expression_that_makes_no_sense_has_no_times(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    result = cli("schedule", "next", *arguments)
    document = cli("schedule", "next", *arguments, "--json")

    assert result.exit_code == document.exit_code == 1
    assert message in result.stderr
    assert message in json.loads(document.stdout)["error"]["message"]
