"""`penstock job list|search`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from penstock.model.jobs import LAYOUT
from tests.cli.conftest import CommandLine, cells

if TYPE_CHECKING:
    import redis

    import penstock
    from tests.contract.job_workers import Hand
    from tests.servers import RedisServer


def test_no_jobs_are_an_empty_list_and_a_hint(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"a plain task")

    assert cli.json("job", "list") == []
    assert cli("job", "list").stdout == (
        "no queues of jobs; `penstock job send QUEUE TYPE` makes one\n"
    )


def test_jobs_are_counted_by_queue_type_and_state(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}, {}])
    hand.finish(hand.take_one())
    mail.add("report", delay=60)
    ps.jobs("images").add_many("resize", [{}] * 1234)

    assert cells(cli("job", "list").stdout) == [
        ["queue", "type", "scheduled", "ready", "running", "done", "dead", "cancelled"],
        ["images", "resize", "0", "1,234", "0", "0", "0", "0"],
        ["mail", "email", "0", "1", "0", "1", "0", "0"],
        ["mail", "report", "1", "0", "0", "0", "0", "0"],
    ]
    assert cli.json("job", "list", "-q", "mail", "--type", "email") == [
        {
            "queue": "mail",
            "type": "email",
            "counts": {
                **{"scheduled": 0, "blocked": 0, "ready": 1, "running": 0},
                **{"done": 1, "dead": 0, "cancelled": 0},
            },
        }
    ]


def test_a_queue_that_a_newer_version_wrote_does_not_hide_the_others(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs, redis_client: redis.Redis
) -> None:
    job = mail.add("email")
    ps.jobs("later").add("email")
    redis_client.hset(ps.keys.queue("later").meta, "layout", LAYOUT + 1)

    counted = cells(cli("job", "list").stdout)
    listed = cells(cli("job", "list", "--state", "ready").stdout)
    counts, unread = cli.json("job", "list")
    page, unread_too = cli.json("job", "list", "--state", "ready")

    assert (counted[1][0], listed[1][:2]) == ("mail", ["mail", job.id])
    assert counted[3][:6] == listed[3][:6] == ["later", "these", "jobs", "were", "written", "by"]
    assert (counts["counts"]["ready"], page["jobs"][0]["id"]) == (1, job.id)
    assert (unread["queue"], unread["error"]["code"]) == ("later", "unknown_layout")
    assert unread == unread_too
    assert cli("job", "list", "-q", "later").exit_code == 1
    assert cli("job", "list", "-q", "later", "--state", "running").exit_code == 1
    assert cli("job", "show", job.id).exit_code == 0


def test_jobs_are_counted_for_a_tenant_or_a_tag(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email", tenant="acme", tags=["a"])
    mail.add("report", tenant="acme")

    (by_tenant,) = cli.json("job", "list", "--tenant", "acme")
    (by_tag,) = cli.json("job", "list", "--tag", "a")
    both = cli("job", "list", "--tenant", "acme", "--tag", "a")

    assert (by_tenant["type"], by_tenant["counts"]["ready"]) == ("any", 2)
    assert by_tag["counts"]["ready"] == 1
    assert both.exit_code == 2
    assert "add --state to see the jobs" in both.stderr


def test_jobs_of_a_state_are_listed_as_they_were_sent(
    cli: CommandLine, mail: penstock.Jobs
) -> None:
    first = mail.add("email", {"n": 1}, priority="low", tenant="acme", attempts=3)
    second = mail.add("report", [2])

    head, *lines = cells(cli("job", "list", "-q", "mail", "--state", "ready").stdout)

    assert head == ["id", "type", "priority", "tries", "age", "tenant", "data"]
    assert lines[0][:4] == [first.id, "email", "10", "0/3"]
    assert lines[0][-2:] == ["acme", '{"n":1}']
    assert lines[1][:4] == [second.id, "report", "0", "0/1"]


def test_jobs_of_all_queues_are_listed_with_their_queue(
    cli: CommandLine, ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add("email")
    ps.jobs("images").add("resize")

    head, *lines = cells(cli("job", "list", "--state", "ready").stdout)

    assert head[0] == "queue"
    assert [line[0] for line in lines] == ["images", "mail"]


def test_a_page_says_how_to_get_the_next_one(cli: CommandLine, mail: penstock.Jobs) -> None:
    jobs = mail.add_many("a type", [{}] * 5)
    seen: list[str] = []
    command = ["job", "list", "-q", "mail", "--state", "ready", "--type", "a type", "--limit", "2"]

    while command:
        (page,) = cli.json(*command)
        seen += [job["id"] for job in page["jobs"]]
        *_, hint = cli(*command).stdout.replace("\n", " ").rpartition("the next page: penstock ")
        command = shlex.split(hint) if page["cursor"] else []

    assert seen == [job.id for job in jobs]


def test_the_newest_jobs_can_come_first(cli: CommandLine, mail: penstock.Jobs) -> None:
    jobs = mail.add_many("email", [{}] * 3)

    (page,) = cli.json("job", "list", "--state", "ready", "--newest", "--limit", "2")

    assert [job["id"] for job in page["jobs"]] == [jobs[2].id, jobs[1].id]
    assert page["total"] == 3
    assert (page["queue"], page["state"]) == ("mail", "ready")


def test_where_filters_meet_no_page_is_empty_before_the_end(
    cli: CommandLine, mail: penstock.Jobs
) -> None:
    mail.add_many("email", [{}] * 10, tenant="acme")
    wanted = mail.add("report", tenant="acme")

    (page,) = cli.json(
        *("job", "list", "--state", "ready", "--limit", "3"),
        *("--tenant", "acme", "--type", "report"),
    )

    assert [job["id"] for job in page["jobs"]] == [wanted.id]
    assert page["total"] is None


def test_running_jobs_are_listed(cli: CommandLine, mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.take_one()

    (page,) = cli.json("job", "list", "--state", "running")

    assert [(job["id"], job["worker"]) for job in page["jobs"]] == [(job.id, "hand")]
    assert cli("job", "list", "--state", "ready", "-q", "mail").stdout == (
        "no ready jobs in 'mail'\n"
    )


def test_each_state_tells_what_is_of_interest_in_it(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", "d", tenant="acme")
    hand.fail(hand.take_one(), "no more\nof it")
    mail.add("email")
    hand.reject(hand.take_one())
    mail.add("email")
    hand.take_one()
    mail.add("email", delay=5 * 3600 + 60)

    dead, running, scheduled = (
        cells(cli("job", "list", "-q", "mail", "--state", state).stdout)
        for state in ("dead", "running", "scheduled")
    )

    assert dead[0][-3:] == ["tenant", "why", "data"]
    assert dead[1][-7:] == ["acme", "failed:", "ValueError:", "no", "more\\nof", "it", '"d"']
    assert " ".join(dead[2]).endswith("rejected: Reject: of no use null")
    assert (running[0][-2:], running[1][-2]) == (["worker", "data"], "hand")
    assert (scheduled[0][-2:], scheduled[1][-4:-1]) == (["due", "data"], ["in", "5", "h"])


def test_dead_jobs_are_listed_by_their_reason(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    failed = mail.add_many("email", range(5))
    for process in hand.take(5):
        hand.fail(process)
    rejected = mail.add("email")
    hand.reject(hand.take_one())
    command = ["job", "list", "-q", "mail", "--state", "dead", "--limit", "2", "--reason"]

    [last] = cli.json(*command, "rejected")
    [first] = cli.json(*command, "failed")
    more = cli(*command, "failed").stdout

    assert ([job["id"] for job in last["jobs"]], last["total"]) == ([rejected.id], None)
    assert [job["id"] for job in first["jobs"]] == [job.id for job in failed[:2]]
    assert "the next page: penstock job list -q mail --state dead --reason failed" in more
    assert cli("job", "list", "--state", "ready", "--reason", "failed").exit_code == 2
    assert cli("job", "list", "--reason", "failed").exit_code == 2


@pytest.mark.parametrize("columns", [80, 100])
def test_no_id_is_cut_for_the_sake_of_an_error(
    server: RedisServer, namespace: str, mail: penstock.Jobs, hand: Hand, columns: int
) -> None:
    job = mail.add("email", "x" * 500)
    hand.fail(hand.take_one(), "too much of it " * 100)
    narrow = CommandLine(server.url, namespace, columns=columns)

    shown = narrow("job", "list", "-q", "mail", "--state", "dead").stdout

    assert job.id in shown
    assert max(len(line) for line in shown.splitlines()) <= columns


def test_jobs_fit_a_terminal_of_80_columns(
    server: RedisServer, namespace: str, mail: penstock.Jobs
) -> None:
    jobs = mail.add_many("email", ["x" * 500] * 2, tenant="acme")
    narrow = CommandLine(server.url, namespace, columns=80)

    shown = narrow("job", "list", "-q", "mail", "--state", "ready").stdout

    assert len(shown.splitlines()) == 4
    assert max(map(len, shown.splitlines())) <= 80
    assert all(job.id in shown for job in jobs)


def test_jobs_are_found_by_the_words_in_their_data(cli: CommandLine, mail: penstock.Jobs) -> None:
    found = mail.add("email", {"to": "Alice Ames"}, search=True)
    mail.add("email", {"to": "Alice Brown"}, search=True)
    mail.add("email", {"to": "Alice Ames"})

    (job,) = cli.json("job", "search", "mail", "ames", "ALICE")
    head, line = cells(cli("job", "search", "mail", "alice ames").stdout)

    assert job["id"] == found.id
    assert head[:3] == ["id", "type", "state"]
    assert line[:3] == [found.id, "email", "ready"]
    assert cli("job", "search", "mail", "nobody").stdout == (
        "no job of 'mail' that was sent with `search` has all these words\n"
    )


def test_what_was_sent_from_here_can_be_found(cli: CommandLine) -> None:
    sent = cli.json("job", "send", "mail", "email", '{"to": "alice"}', "--search")

    assert [job["id"] for job in cli.json("job", "search", "mail", "alice")] == [sent["id"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state", "finished"], "'finished' is not one of"),
        (["--state", "ready", "--after", "1.2"], "--after goes with -q"),
        (["--newest"], "go with --state"),
        (["--state", "ready", "--limit", "0"], "not in the range"),
    ],
)
def test_what_is_not_understood_is_not_listed(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    result = cli("job", "list", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr


def test_a_cursor_that_is_none_is_refused(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")

    result = cli("job", "list", "-q", "mail", "--state", "ready", "--after", "x")

    assert result.exit_code == 1
    assert "'x' is no cursor" in result.stderr
