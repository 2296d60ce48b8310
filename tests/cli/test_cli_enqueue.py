"""`penstock enqueue`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import penstock
    from tests.cli.conftest import CommandLine


def test_arguments_become_tasks_in_their_order(cli: CommandLine, queue: penstock.Queue) -> None:
    result = cli("enqueue", "mail", "first", "zweitens: ü", "third")

    assert result.exit_code == 0
    assert result.stdout == "added 3 tasks to 'mail'\n"
    assert queue.page().tasks == [b"first", "zweitens: ü".encode(), b"third"]


def test_programs_learn_how_many_tasks_were_added(cli: CommandLine) -> None:
    assert cli.json("enqueue", "mail", "a", "b") == {"queue": "mail", "added": 2, "existing": 0}


def test_a_file_is_one_task(cli: CommandLine, queue: penstock.Queue, tmp_path: Path) -> None:
    letter = tmp_path / "letter.bin"
    letter.write_bytes(b"\x00two\nlines\xff\n")

    assert cli("enqueue", "mail", "--file", str(letter)).exit_code == 0

    assert queue.page().tasks == [b"\x00two\nlines\xff\n"]


def test_a_dash_reads_one_task_from_stdin(cli: CommandLine, queue: penstock.Queue) -> None:
    assert cli("enqueue", "mail", "--file", "-", stdin=b"from a\npipe").exit_code == 0

    assert queue.page().tasks == [b"from a\npipe"]


def test_each_line_is_a_task_and_empty_ones_are_skipped(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    result = cli("enqueue", "mail", "--lines", stdin=b"one\n\ntwo\r\n\xff\nlast")

    assert result.stdout == "added 4 tasks to 'mail'\n"
    assert queue.page().tasks == [b"one", b"two\r", b"\xff", b"last"]


def test_a_hundred_thousand_lines_go_in_as_they_come(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    numbers = b"".join(b"%d\n" % number for number in range(100_000))

    assert cli.json("enqueue", "mail", "--lines", stdin=numbers)["added"] == 100_000

    assert queue.count() == 100_000
    assert queue.peek() == b"0"


def test_a_unique_task_goes_in_once(cli: CommandLine, queue: penstock.Queue) -> None:
    first = cli.json("enqueue", "mail", "hello", "--unique")
    second = cli("enqueue", "mail", "hello", "other", "--unique")

    assert first == {"queue": "mail", "added": 1, "existing": 0}
    assert second.stdout == "added 1 task to 'mail'; 1 task there already\n"
    assert second.exit_code == 0
    assert queue.page().tasks == [b"hello", b"other"]


def test_a_key_decides_what_is_unique(cli: CommandLine, queue: penstock.Queue) -> None:
    cli("enqueue", "mail", "hello", "--unique", "--key", "user-7")

    again = cli.json("enqueue", "mail", "another", "--unique", "--key", "user-7")

    assert again == {"queue": "mail", "added": 0, "existing": 1}
    assert queue.page().tasks == [b"hello"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mail"], "Nothing to add; give a TASK, --file or --lines."),
        (["mail", "a", "--lines"], "Give tasks as arguments or read them, not both."),
        (["mail", "a", "--key", "k"], "--key goes with --unique."),
        (["mail", "a", "b", "--unique", "--key", "k"], "--key is for one task"),
        (["mail", "--file", "/does/not/exist"], "No such file or directory"),
        (["mail", "a", "--url", "redis://x", "--data", "/tmp/x"], "two different stores"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_status_2(
    cli: CommandLine, queue: penstock.Queue, arguments: list[str], message: str
) -> None:
    result = cli("enqueue", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert queue.count() == 0


def test_a_full_queue_is_one_line_on_stderr_and_status_1(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.configure(max_length=1)

    result = cli("enqueue", "mail", "a", "b")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "penstock: queue 'mail' holds 0 of at most 1 tasks and has no room for 2 more tasks; "
        "try again when workers have caught up, or raise its maximum length\n"
    )


def test_programs_get_an_error_as_a_document_on_stdout(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.configure(max_length=1)

    result = cli("enqueue", "mail", "a", "b", "--json")

    assert result.exit_code == 1
    assert result.stderr == ""
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "queue_full"
    assert error["message"].startswith("queue 'mail' holds 0 of at most 1 tasks")


def test_a_refused_batch_says_how_many_tasks_went_in_before_it(
    cli: CommandLine, queue: penstock.Queue
) -> None:
    queue.configure(max_length=5_000)
    numbers = b"".join(b"%d\n" % number for number in range(6_000))

    for_people = cli("enqueue", "mail", "--lines", stdin=numbers)
    queue.delete()
    queue.configure(max_length=5_000)
    for_programs = cli("enqueue", "mail", "--lines", "--json", stdin=numbers)

    assert for_people.exit_code == for_programs.exit_code == 1
    assert for_people.stderr.endswith("(the first 5,000 tasks went in)\n")
    assert json.loads(for_programs.stdout)["error"]["accepted"] == 5_000


def test_a_bad_queue_name_is_refused_before_anything_is_sent(cli: CommandLine) -> None:
    result = cli("enqueue", "bad\x1b[2Jname", "task")

    assert result.exit_code == 1
    assert result.stderr == (
        "penstock: queue name 'bad\\x1b[2Jname' holds a control character; leave it out\n"
    )
