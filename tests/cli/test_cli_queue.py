"""`penstock queue list|show|pause|resume|configure|delete`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import CommandLine

if TYPE_CHECKING:
    import penstock
    from tests.servers import RedisServer


def test_no_queues_are_an_empty_list_and_a_hint(cli: CommandLine) -> None:
    assert cli.json("queue", "list") == []
    assert cli("queue", "list").stdout == "no queues; `penstock enqueue QUEUE TASK` makes one\n"


def test_a_namespace_without_a_name_is_refused(
    cli: CommandLine, server: RedisServer, ps: penstock.Penstock
) -> None:
    ps.queue("mail").enqueue(b"a")

    for refused in (
        cli("queue", "list", "--namespace", ""),
        CommandLine(server.url, namespace="")("queue", "list"),
    ):
        assert refused.exit_code == 1
        assert refused.stdout == ""
        assert "is empty; give it" in refused.stderr


def test_queues_are_listed_with_what_is_in_them(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.queue("mail").enqueue_many([b"a"] * 1234)
    ps.queue("images").pause()

    lines = cli("queue", "list").stdout.splitlines()

    assert lines[0].split() == [
        *("queue", "state", "ready", "running", "dead", "finished", "workers")
    ]
    assert lines[2].split() == ["images", "paused", "0", "0", "0", "0", "0"]
    assert lines[3].split() == ["mail", "open", "1,234", "0", "0", "0", "0"]


def test_the_list_fits_a_terminal_of_80_columns(
    server: RedisServer, namespace: str, ps: penstock.Penstock
) -> None:
    ps.queue("x" * 255).enqueue(b"a")

    lines = CommandLine(server.url, namespace, columns=80)("queue", "list").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert "".join(lines).count("x") == 255


def test_programs_get_everything_about_each_queue(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue_many([b"a", b"b"])
    with ps.worker() as worker:
        worker.start_work("mail")
        worker.start_task("mail")

        (listed,) = cli.json("queue", "list")
        shown = cli.json("queue", "show", "mail")

        assert listed == shown
        assert shown["name"] == "mail"
        assert (shown["ready"], shown["running"], shown["dead"]) == (1, 1, 0)
        assert shown["held"] == {worker.id: 1}
        assert shown["is_paused"] is False
        assert shown["max_length"] is None
        assert shown["counters"]["enqueued"] == 2


def test_one_queue_is_shown_as_facts(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue(b"a")
    with ps.worker("w") as worker:
        worker.start_work("mail")

        shown = cli("queue", "show", "mail").stdout.splitlines()

        assert shown[0] == "mail"
        facts = [line.strip().split("  ", 1) for line in shown]
        assert ["state", "open"] in [[part.strip() for part in fact] for fact in facts]
        assert shown[-1].split() == [worker.id, "0"]


def test_a_name_is_never_taken_for_markup(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.queue("[red]x[/red] :smile: \u202e").enqueue(b"a")

    assert "[red]x[/red] :smile: \\u202e" in cli("queue", "list").stdout
    assert cli.json("queue", "list")[0]["name"] == "[red]x[/red] :smile: \u202e"


@pytest.mark.parametrize(
    "command",
    [
        ["show", "nix"],
        ["resume", "nix"],
        ["delete", "nix", "--yes"],
        ["tasks", "nix"],
        ["cancel", "nix", "task"],
        ["retry-dead", "nix"],
    ],
)
def test_a_queue_that_does_not_exist_is_an_error(
    cli: CommandLine, namespace: str, command: list[str]
) -> None:
    result = cli("queue", *command)
    document = cli("queue", *command, "--json")

    assert result.exit_code == document.exit_code == 1
    assert result.stdout == document.stderr == ""
    assert result.stderr == (
        f"penstock: there is no queue 'nix' in namespace '{namespace}'; "
        "it is created by the first task or the first worker\n"
    )
    assert json.loads(document.stdout)["error"]["code"] == "queue_not_found"


def test_to_pause_a_queue_that_does_not_exist_creates_none(
    cli: CommandLine, ps: penstock.Penstock, namespace: str
) -> None:
    result = cli("queue", "pause", "typo")

    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"penstock: there is no queue 'typo' in namespace '{namespace}'"
    )
    assert ps.queues() == []


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.enqueue(b"a")

    assert cli("queue", "pause", "mail").stdout == "paused 'mail'; 1 task waiting\n"
    assert queue.inspect().is_paused
    assert cli("queue", "resume", "mail").stdout == "resumed 'mail'; 1 task waiting\n"
    assert not queue.inspect().is_paused
    assert cli.json("queue", "pause", "mail")["is_paused"] is True
    assert cli.json("queue", "resume", "mail")["is_paused"] is False


def test_a_setting_that_is_not_given_stays_as_it_is(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    cli("queue", "configure", "mail", "--max-length", "100", "--max-failures", "2")
    changed = cli("queue", "configure", "mail", "--max-length", "none")

    assert changed.stdout == (
        "in 'mail' any number of tasks may wait; a task is dead after 2 failures\n"
    )
    assert queue.inspect().max_length is None
    assert queue.inspect().max_failures == 2
    assert cli.json("queue", "configure", "mail", "--max-length", "7")["max_length"] == 7
    assert cli.json("queue", "configure", "mail", "--max-failures", "none")["max_failures"] == 5
    assert queue.inspect().max_length == 7


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "²"])
def test_a_limit_is_a_whole_number_or_none(cli: CommandLine, value: str) -> None:
    result = cli("queue", "configure", "mail", "--max-length", value)

    assert result.exit_code == 2
    assert "is neither a whole number from 1 up nor 'none'" in result.stderr


def test_configuring_nothing_is_a_mistake(cli: CommandLine) -> None:
    assert cli("queue", "configure", "mail").exit_code == 2


def test_a_queue_is_deleted_after_a_yes(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue_many([b"a", b"b"])

    refused = cli("queue", "delete", "mail", stdin=b"n\n")
    unanswered = cli("queue", "delete", "mail", stdin=b"")
    assert refused.exit_code == unanswered.exit_code == 1
    assert refused.stderr.endswith("penstock: not confirmed, so nothing was done\n")
    assert queue.count() == 2

    deleted = cli("queue", "delete", "mail", stdin=b"y\n")

    assert deleted.exit_code == 0
    assert "Delete queue 'mail' with 2 tasks?" in deleted.stderr
    assert deleted.stdout.endswith("deleted 'mail' with 2 tasks\n")
    assert ps.queues() == []


def test_programs_delete_without_being_asked(cli: CommandLine, queue: penstock.Queue) -> None:
    queue.enqueue(b"a")

    assert cli("queue", "delete", "mail", "--json").exit_code == 2
    assert cli.json("queue", "delete", "mail", "--yes") == {
        "queue": "mail",
        "is_deleted": True,
        "removed": 1,
        "running": 0,
    }


def test_a_queue_with_running_tasks_is_emptied_but_not_gone(
    cli: CommandLine, queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    with ps.worker() as worker:
        worker.start_work("mail")
        worker.start_task("mail")

        document = cli("queue", "delete", "mail", "--yes", "--json")
        result = cli("queue", "delete", "mail", "--yes")

        assert document.exit_code == result.exit_code == 1
        assert json.loads(document.stdout) == {
            "queue": "mail",
            "is_deleted": False,
            "removed": 2,
            "running": 1,
        }
        assert result.stderr == (
            "penstock: queue 'mail' is still there, because 1 task of it run; 0 tasks deleted; "
            "delete it again when they have finished\n"
        )
