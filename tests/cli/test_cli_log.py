"""`penstock log list|show|append|read|trim|delete`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.client.fsck import check

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine


def test_no_logs_are_an_empty_list_and_a_hint(cli: CommandLine) -> None:
    assert cli.json("log", "list") == []
    assert "`penstock log append LOG MESSAGE` makes one" in cli("log", "list").stdout


def test_what_is_appended_is_listed_and_read(cli: CommandLine, ps: penstock.Penstock) -> None:
    said = cli("log", "append", "clicks", "one", "two", "--partitions", "2", "--key", "k")
    assert said.stdout == "appended 2 messages to 'clicks'\n"
    assert cli.json("log", "append", "clicks", "--lines", stdin=b"three\n\nfour\n") == {
        "log": "clicks",
        "appended": 2,
    }
    ps.queue("mail").enqueue(b"x")

    assert [line.split()[:3] for line in cli("log", "list").stdout.splitlines()[2:]] == [
        ["clicks", "2", "4"]
    ]
    [listed] = cli.json("log", "list")
    assert (listed["name"], listed["messages"], len(listed["partitions"])) == ("clicks", 4, 2)
    lines = cli("log", "read", "clicks").stdout.splitlines()
    assert sorted(line.split()[-1] for line in lines) == ["four", "one", "three", "two"]
    assert sum(" k " in line for line in lines) == 2


def test_a_message_can_come_from_a_file(cli: CommandLine, ps: penstock.Penstock) -> None:
    cli("log", "append", "clicks", "--file", "-", stdin=b"\x00\n\xff")

    assert [message.body for message in ps.log("clicks").read()] == [b"\x00\n\xff"]


def test_programs_read_a_document_on_each_line(cli: CommandLine, ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append(b"\xff", key="k", headers={"a": "b"}, at=5)
    log.append(b"text")

    newest, oldest = map(
        json.loads, cli("log", "read", "clicks", "--reverse", "--json").stdout.splitlines()
    )

    assert (oldest["key"], oldest["headers"], oldest["at"]) == ("k", {"a": "b"}, 5.0)
    assert oldest["body"] == {"base64": "/w=="}
    assert newest["body"] == "text"
    after = cli("log", "read", "clicks", "--after", oldest["id"], "--partition", "0", "--json")
    assert [json.loads(line) for line in after.stdout.splitlines()] == [newest]
    assert cli("log", "read", "clicks", "--until", "2001-01-01T00:00Z").stdout == ""
    assert "no time zone" in cli("log", "read", "clicks", "--since", "2001-01-01").stderr


def test_show_has_partitions_settings_and_readers(cli: CommandLine, ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    log.configure(keep_count=100, keep_s=3600, max_bytes=2**20)
    log.append_many([b"x"] * 10)
    group = log.group("sessions")
    group.join()
    epoch = group.take(1, "w1").epoch

    text = cli("log", "show", "clicks").stdout

    for part in ("10", "1 h", "100", "1.0 MiB", "sessions", str(epoch), "w1"):
        assert part in text, part
    document = cli.json("log", "show", "clicks")
    assert document["groups"] == ["sessions"]
    assert document["settings"]["keep_ms"] == 3_600_000
    [reader] = document["partitions"][1]["readers"]
    assert (reader["name"], reader["epoch"], reader["offset"]) == ("sessions", epoch, "0-0")


def test_trim_says_how_much_is_gone(cli: CommandLine, ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append_many([b"x"] * 10)
    group = log.group("sessions")
    group.take(0, "w1")

    assert cli.json("log", "trim", "clicks", "--before", "2100-01-01T00:00Z")["messages"] == 0
    forced = cli("log", "trim", "clicks", "--before", "2100-01-01T00:00Z", "--force")
    assert forced.stdout == "removed 10 messages of 'clicks', 330 bytes\n"

    assert "10 messages trimmed before a reader" in cli("log", "show", "clicks").stdout
    since = cli("log", "read", "clicks", "--since", "2001-01-01T00:00Z")
    assert since.exit_code == 1
    assert "nothing left up to message" in since.stderr
    skipped = cli("log", "read", "clicks", "--since", "2001-01-01T00:00Z", "--skip-trimmed")
    assert (skipped.exit_code, skipped.stdout) == (0, "")


def test_follow_prints_what_is_there_and_what_comes(
    cli: CommandLine, ps: penstock.Penstock
) -> None:
    ps.log("clicks", partitions=2).append_many([b"x"] * 10)

    lines = cli(
        *("log", "read", "clicks", "--follow", "--since", "2001-01-01T00:00Z"),
        *("--timeout", "0.05"),
    )
    assert len(lines.stdout.splitlines()) == 10
    assert cli("log", "read", "clicks", "--follow", "--timeout", "0.05").stdout == ""
    refused = cli("log", "read", "clicks", "--follow", "--reverse")
    assert refused.exit_code == 2
    assert "--follow goes with" in refused.stderr


def test_delete_asks_first(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.log("clicks").append(b"x")

    assert cli("log", "delete", "clicks", stdin=b"n\n").exit_code == 1
    assert cli("log", "delete", "clicks", "--yes").stdout == "deleted 'clicks' with 1 message\n"

    missing = cli("log", "show", "clicks")
    assert (missing.exit_code, "there is no log 'clicks'" in missing.stderr) == (1, True)
    assert check(ps).violations == []


def test_a_log_is_shown_among_the_queues(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.log("clicks", partitions=2).append_many([b"x"] * 4)
    ps.queue("mail").enqueue(b"x")

    text = cli("queue", "list").stdout

    assert "log" in text and "clicks" in text and "mail" in text
    [document] = [it for it in cli.json("queue", "list") if it["name"] == "clicks"]
    assert document == {
        **{"name": "clicks", "kind": "logs", "partitions": 2},
        **{"messages": 4, "bytes": 132, "groups": []},
    }
    assert "penstock log show clicks" in cli("queue", "show", "clicks").stdout
    refused = cli("queue", "delete", "clicks", "--yes")
    assert (refused.exit_code, "'clicks' is a log" in refused.stderr) == (1, True)
    assert "is a log" in cli("enqueue", "clicks", "task").stderr


def test_fsck_counts_messages(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.log("clicks").append_many([b"x"] * 4)

    assert "4 messages" in cli("fsck").stdout
    assert cli.json("fsck")["messages"] == 4
