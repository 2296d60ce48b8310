"""`penstock queue tasks|cancel|retry-dead|events`, with tasks that mean no good."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from penstock.store.keys import QueueKeys
    from tests.cli.conftest import CommandLine
    from tests.servers import RedisServer

HOSTILE = [
    b"\x1b[2J\x1b[31mred\x1b[0m",
    b"[bold]markup[/bold] [/] [link=http://x]y[/link]",
    b"\xff\xfe\x00binary",
    "\u202eright to left \u009b31m".encode(),
    b"two\nlines\tand\ra return\x07",
    b"",
]


def test_waiting_tasks_are_shown_oldest_first(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue_many([b"first", b"second"])

    lines = cli("queue", "tasks", "mail").stdout.splitlines()

    assert [line.split() for line in lines if line.strip("─ ")] == [
        ["#", "bytes", "task"],
        ["1", "5", "first"],
        ["2", "6", "second"],
    ]


def test_hostile_tasks_reach_the_terminal_as_text(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue_many(HOSTILE)

    shown = cli("queue", "tasks", "mail").stdout

    assert not set(shown) & set("\x1b\x07\r\t\u202e\u009b\x00")
    for text in (
        "\\x1b[2J\\x1b[31mred\\x1b[0m",
        "[bold]markup[/bold] [/] [link=http://x]y[/link]",
        "\\xff\\xfe\\x00binary",
        "\\u202eright to left \\x9b31m",
        "two\\nlines\\tand\\ra return\\x07",
    ):
        assert text in shown


def test_programs_get_hostile_tasks_whole_and_in_ascii(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.enqueue_many(HOSTILE)

    result = cli("queue", "tasks", "mail", "--json")

    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    assert json.loads(result.stdout) == {
        "queue": "mail",
        "total": len(HOSTILE),
        "offset": 0,
        "tasks": [
            HOSTILE[0].decode(),
            HOSTILE[1].decode(),
            {"base64": "//4AYmluYXJ5"},
            HOSTILE[3].decode(),
            HOSTILE[4].decode(),
            "",
        ],
    }


def test_a_long_task_is_cut_for_people_and_whole_for_programs(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.enqueue(b"x" * 100_000)

    shown = cli("queue", "tasks", "mail").stdout

    assert shown.count("x") == 200
    assert "…" in shown
    assert "100,000" in shown
    assert cli.json("queue", "tasks", "mail")["tasks"] == ["x" * 100_000]


def test_a_page_says_that_there_is_more(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue_many(b"%d" % number for number in range(10))

    shown = cli("queue", "tasks", "mail", "--offset", "3", "--limit", "2")

    assert [line.split()[-1] for line in shown.stdout.splitlines()[2:4]] == ["3", "4"]
    assert "2 of 10 waiting; more with --offset and --limit" in shown.stdout
    assert cli("queue", "tasks", "mail", "--limit", "1001").exit_code == 2


def test_dead_tasks_are_shown_and_go_back_on_request(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(b"poison")
    with ps.worker() as worker:
        worker.start_work("mail")
        process = worker.start_task("mail")
        assert process is not None
        process.fail()

    assert cli("queue", "tasks", "mail").stdout == "no waiting tasks in 'mail'\n"
    assert cli.json("queue", "tasks", "mail", "--dead")["tasks"] == ["poison"]
    assert "poison" in cli("queue", "tasks", "mail", "--dead").stdout

    retried = cli("queue", "retry-dead", "mail")

    assert retried.stdout == "put 1 dead task back into 'mail'\n"
    assert queue.page().tasks == [b"poison"]
    assert cli.json("queue", "retry-dead", "mail") == {"queue": "mail", "retried": 0}


def test_every_waiting_copy_is_cancelled(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b", b"a"])

    assert cli("queue", "cancel", "mail", "a").stdout == "cancelled 2 waiting tasks of 'mail'\n"

    assert queue.page().tasks == [b"b"]


def test_a_binary_task_is_cancelled_by_its_base64(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"\xff\x00")

    answer = cli.json("queue", "cancel", "mail", "/wA=", "--base64")

    assert answer == {"queue": "mail", "cancelled": 1, "running": 0}
    assert cli("queue", "cancel", "mail", "%%", "--base64").exit_code == 2


def test_a_running_copy_is_told_and_counted(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue(b"a")
    with ps.worker() as worker:
        worker.start_work("mail")
        worker.start_task("mail")

        result = cli("queue", "cancel", "mail", "a")

        assert result.exit_code == 0
        assert result.stdout == "cancelled 0 waiting tasks of 'mail'; 1 copy running\n"


def test_cancelling_what_is_not_there_is_an_error(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"a")

    result = cli("queue", "cancel", "mail", "b")

    assert result.exit_code == 1
    assert result.stderr == (
        "penstock: queue 'mail' neither holds nor runs this task, so nothing was cancelled; "
        "`penstock queue tasks mail` shows what waits\n"
    )


def test_events_are_printed_as_they_happen(
    cli: CommandLine, queue: penstock.Queue, server: RedisServer, keys: QueueKeys
) -> None:
    printed: list[str] = []

    def listen(*options: str) -> threading.Thread:
        command = ("queue", "events", "mail", "--limit", "2", *options)
        thread = threading.Thread(target=lambda: printed.append(cli(*command).stdout))
        thread.start()
        wait_for(lambda: server.command("PUBSUB", "NUMSUB", keys.cancel)[1] == 1)
        return thread

    def act() -> None:
        queue.enqueue_many([b"a", b"b"])
        queue.cancel(b"\x1b[2J[red]")

    people = listen()
    act()
    people.join()
    programs = listen("--json", "--kind", "work", "--kind", "cancel")
    act()
    programs.join()

    assert printed[0] == "work    2 tasks added\ncancel  \\x1b[2J[red]\n"
    assert [json.loads(line) for line in printed[1].splitlines()] == [
        {"kind": "work", "queue": "mail", "count": 2},
        {"kind": "cancel", "queue": "mail", "task": "\x1b[2J[red]"},
    ]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_listening_ends_after_the_silence_it_was_given(
    cli: CommandLine, options: tuple[str, ...]
) -> None:
    result = cli("queue", "events", "mail", "--timeout", "0.01", *options)

    assert result.exit_code == 0
    assert result.output == ""
