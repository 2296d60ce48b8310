"""`penstock job send|show|explain`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.connection.job_ids import new_job_id
from tests.cli.conftest import CommandLine, cells

if TYPE_CHECKING:
    import penstock
    from tests.contract.job_workers import Hand

HOSTILE = "\x1b[2J [bold]x[/bold] \u202e\x9b31m"
GONE = (
    "check the id; if it is right, the job was removed, or it has ended and is not kept any more "
    "(keep=False, or the keep_s of its queue)"
)


def test_a_job_is_sent_with_its_data_as_it_was_given(cli: CommandLine, mail: penstock.Jobs) -> None:
    result = cli("job", "send", "mail", "email", '{"to":  "alice", "n": 1.10}')

    (job,) = mail.page("ready").jobs
    assert result.stdout == f"sent job {job.id} to 'mail'\n"
    assert (job.type, job.data) == ("email", b'{"to":  "alice", "n": 1.10}')


def test_programs_learn_the_id_of_what_they_sent(cli: CommandLine, mail: penstock.Jobs) -> None:
    sent = cli.json("job", "send", "mail", "email")

    assert sent == {"id": sent["id"], "queue": "mail", "type": "email", "is_new": True}
    assert mail.get(sent["id"]).info().data == b"null"


def test_data_is_read_from_stdin_or_decoded(cli: CommandLine, mail: penstock.Jobs) -> None:
    assert cli("job", "send", "mail", "a", "-", stdin=b'["from a pipe"]\n').exit_code == 0
    assert cli("job", "send", "mail", "b", "//4A", "--base64").exit_code == 0
    assert cli("job", "send", "mail", "c", "-", "--base64", stdin=b"//4A\n").exit_code == 0

    data = [job.data for job in mail.page("ready").jobs]
    assert data == [b'["from a pipe"]', b"\xff\xfe\x00", b"\xff\xfe\x00"]


def test_a_job_without_room_is_told_what_helps_here(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.configure(max_length=1)
    mail.add("email", b"x")

    result = cli("job", "send", "mail", "email", "1")

    assert result.exit_code == 1
    assert "1 of at most 1 jobs and has no room for this job (1 bytes)" in result.stderr
    assert result.stderr.endswith(
        "try again when workers have caught up, raise its limits, or, from Python, send with "
        "wait=...\n"
    )


def test_all_options_of_a_job_can_be_given(cli: CommandLine, mail: penstock.Jobs) -> None:
    options = [
        *("--priority", "-7", "--attempts", "5", "--backoff", "2.5", "--timeout", "60"),
        *("--tenant", "acme", "--key", "host", "--tag", "a", "--tag", "b"),
        *("--unique", "u", "--unique-for", "queued", "--expires", "600", "--delay", "3600"),
        *("--unique-scope", "queue"),
    ]

    sent = cli.json("job", "send", "mail", "email", *options)

    job = mail.get(sent["id"]).info()
    assert (job.priority, job.attempts, job.timeout_s) == (-7, 5, 60)
    assert (job.tenant, job.key, job.tags, job.unique) == ("acme", "host", ("a", "b"), "u")
    assert (job.unique_scope, job.state) == ("queue", "scheduled")
    assert "u (of all types of the queue)" in cli("job", "show", sent["id"]).stdout
    assert job.due_at - job.created_at == 3600


def test_a_job_can_be_sent_for_a_time_under_an_id(cli: CommandLine, mail: penstock.Jobs) -> None:
    id_ = new_job_id()

    cli("job", "send", "mail", "email", "--id", id_, "--run-at", "2099-01-31T08:00+01:00")

    due_at = mail.get(id_).info().due_at
    assert datetime.fromtimestamp(due_at, UTC) == datetime(2099, 1, 31, 7, tzinfo=UTC)


def test_a_unique_job_is_sent_once(cli: CommandLine, mail: penstock.Jobs) -> None:
    first = cli.json("job", "send", "mail", "email", "--unique", "u")
    second = cli("job", "send", "mail", "email", "--unique", "u")

    assert second.exit_code == 0
    assert second.stdout == (f"job {first['id']} of 'mail' was there already; no other was sent\n")
    assert mail.counts()["ready"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{'to': 1}"], "DATA is not JSON"),
        (["[NaN]"], "JSON has no NaN"),
        (["hello"], "text needs quotes of its own"),
        (["["], "DATA is not JSON"),
        (["a", "--base64"], "DATA is not base64"),
        (["--base64"], "give DATA too"),
        (["--priority", "urgent"], "neither a whole number nor one of low, normal"),
        (["--run-at", "tomorrow"], "is not a time such as 2030"),
        (["--run-at", "2099-01-31 08:00"], "has no time zone; write 2099-01-31T08:00:00Z if"),
        (["--attempts", "many"], "not a valid integer"),
        (["--wait", "-1"], "not in the range"),
    ],
)
def test_what_is_not_understood_is_not_sent(
    cli: CommandLine, mail: penstock.Jobs, arguments: list[str], message: str
) -> None:
    result = cli("job", "send", "mail", "email", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert mail.counts()["ready"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--delay", "nan"], "delay is nan; give seconds"),
        (["--priority", str(2**40)], "give a whole number between"),
        (["--backoff", "sometimes"], "backoff 'sometimes' is not known"),
        (["--unique-for", "5"], "unique_for needs unique"),
        (["--id", "x"], "'x' is not the id of a job"),
        (["--delay", "1", "--run-at", "2099-01-01T00Z"], "give one of them"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cli: CommandLine, mail: penstock.Jobs, options: list[str], message: str
) -> None:
    result = cli("job", "send", "mail", "email", *options)

    assert result.exit_code == 1
    assert message in result.stderr
    assert mail.counts()["ready"] == 0


def test_a_queue_of_tasks_takes_no_jobs(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"task")

    result = cli("job", "send", "mail", "email")

    assert result.exit_code == 1
    assert "queue 'mail' holds plain tasks, so it cannot hold jobs" in result.stderr


def test_nobody_waits_longer_than_asked(cli: CommandLine) -> None:
    result = cli("job", "send", "mail", "email", "--wait", "0.01")

    assert result.exit_code == 1
    assert "has not ended within 0.01 s" in result.stderr


def test_a_job_is_shown_as_facts(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", {"to": "alice"}, priority="high", tenant="acme", tags=["a", "b"])
    taken = hand.take_one()
    hand.note(taken, 40, data={"step": 2})
    hand.finish(taken, {"sent": True})

    shown = cli("job", "show", job.id).stdout

    title, *lines = shown.splitlines()
    facts = dict(line.strip().split(maxsplit=1) for line in lines)
    assert title == f"job {job.id}"
    assert (facts["queue"], facts["type"], facts["state"]) == ("mail", "email", "done")
    assert (facts["priority"], facts["attempts"]) == ("-10 (high)", "1 of 1 made")
    assert (facts["tenant"], facts["tags"], facts["worker"]) == ("acme", "a, b", "hand")
    assert (facts["data"], facts["result"]) == ('{"to":"alice"}', '{"sent":true}')
    assert facts["progress"] == '40 %, {"step":2}'
    assert facts["ended"].endswith(" ago")


def test_programs_get_everything_about_a_job(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", {"to": "alice"}, attempts=3, tags=["a"])
    hand.fail(hand.take_one(), "first")
    hand.finish(hand.take_one(), [1, 2])

    shown = cli.json("job", "show", job.id, "-q", "mail")

    assert (shown["id"], shown["state"], shown["data"]) == (job.id, "done", '{"to":"alice"}')
    assert (shown["attempts"], shown["attempts_made"], shown["failures"]) == (3, 2, 1)
    assert shown["tags"] == ["a"]
    assert shown["result"] == [1, 2]
    (attempt,) = shown["failed_attempts"]
    assert (attempt["number"], attempt["outcome"], attempt["worker"]) == (1, "failed", "hand")
    assert attempt["error"]["message"] == "first"


def test_a_dead_job_is_shown_with_each_of_its_errors(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", attempts=3)
    hand.fail(hand.take_one(), "first")
    hand.crash(hand.take_one())
    hand.reject(hand.take_one())

    shown = cli("job", "show", job.id).stdout

    assert "dead (rejected)" in shown
    assert "2 of 3 made; 1 crashed, counted apart" in shown
    assert "the last error\n  Reject: of no use\n" in shown
    assert "attempt 1 failed after" in shown
    assert "attempt 2 crashed after" in shown
    assert "ended by signal 9 (SIGKILL), peak memory 7 MiB" in shown


def test_an_error_is_shown_for_each_attempt_that_had_it(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", attempts=3)
    for _ in range(3):
        hand.fail(hand.take_one(), "no paper")

    lines = cli("job", "show", job.id).stdout.splitlines()

    titles = [at for at, line in enumerate(lines) if line.startswith("attempt ")]
    assert [lines[at + 1].strip() for at in titles] == ["ValueError: no paper"] * 3


def test_crashes_are_not_among_the_attempts_made(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    for _ in range(3):
        hand.crash(hand.take_one())

    shown = cells(cli("job", "show", job.id).stdout)
    listed = cells(cli("job", "list", "-q", "mail", "--state", "dead").stdout)[1]

    assert ["attempts", "0", "of", "1", "made;", "3", "crashed,", "counted", "apart"] in shown
    assert listed[3:6] == ["0/1,", "3", "crashed"]


def test_bytes_of_a_job_are_shown_to_programs_as_base64(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", b"\xff")
    hand.finish(hand.take_one(), b"\xfe")

    shown = cli.json("job", "show", job.id)

    assert shown["data"] == {"base64": "/w=="}
    assert shown["result"] == {"base64": "/g=="}


def test_a_hostile_job_reaches_the_terminal_as_text(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("[red]x[/red]", HOSTILE, unique=HOSTILE, tags=["[b]"])
    taken = hand.take_one()
    hand.note(taken, 1, HOSTILE.encode(), data=HOSTILE)
    hand.fail(taken, HOSTILE)

    outputs = [
        cli("job", "show", job.id).stdout,
        cli("job", "log", job.id).stdout,
        cli("job", "explain", job.id).stdout,
        cli("job", "list", "--state", "dead").stdout,
        cli("job", "show", HOSTILE).stderr,
    ]

    assert not set("".join(outputs)) & set("\x1b\x07\r\t\u202e\x9b")
    assert "[red]x[/red]" in outputs[0]
    assert "\\x1b[2J [bold]x[/bold] \\u202e" in outputs[0]
    assert "\\x1b[2J" in outputs[1]


def test_what_keeps_a_job_from_running_is_explained(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    mail.pause()

    shown = cli("job", "explain", job.id)
    document = cli.json("job", "explain", job.id)

    assert shown.stdout == (
        f"job {job.id} of 'mail' is ready\n"
        "  - queue 'mail' is paused; `penstock queue resume mail` lets it go on\n"
    )
    assert (document["id"], document["queue"], document["state"]) == (job.id, "mail", "ready")
    assert [reason["code"] for reason in document["reasons"]] == ["paused"]


@pytest.mark.parametrize("command", ["show", "explain", "log", "promote", "cancel", "remove"])
def test_a_job_that_is_not_there_is_an_error(
    cli: CommandLine, mail: penstock.Jobs, namespace: str, command: str
) -> None:
    mail.add("email")
    id_ = new_job_id()

    result = cli("job", command, id_)

    assert result.exit_code == 1
    assert (
        result.stderr == f"penstock: no queue of namespace '{namespace}' has a job {id_}; {GONE}\n"
    )


def test_a_misspelt_queue_is_not_taken_for_a_missing_job(
    cli: CommandLine, mail: penstock.Jobs
) -> None:
    job = mail.add("email")

    document = cli("job", "show", job.id, "-q", "mial", "--json")

    assert document.exit_code == 1
    assert json.loads(document.stdout)["error"]["code"] == "queue_not_found"


def test_a_job_is_found_among_queues_of_tasks(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    ps.queue("a").enqueue(b"task")
    job = mail.add("email")
    ps.queue("z").enqueue(b"task")

    assert cli.json("job", "show", job.id)["queue"] == "mail"
    assert "holds plain tasks" in cli("job", "show", job.id, "-q", "a").stderr


@pytest.mark.parametrize("command", ["show", "explain", "log"])
def test_what_is_no_id_is_refused_also_where_there_is_no_queue(
    cli: CommandLine, command: str
) -> None:
    result = cli("job", command, "zzz")

    assert result.exit_code == 1
    assert "'zzz' is not the id of a job; it has 13 characters" in result.stderr
