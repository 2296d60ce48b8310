"""What the commands say about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.cli.group import group
from penstock.cli.job import job
from penstock.cli.log import log
from penstock.cli.schedule import schedule

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

COMMANDS: list[tuple[str, ...]] = [("job", name) for name in job.commands]
COMMANDS += [("schedule", name) for name in schedule.commands]
COMMANDS += [("log", name) for name in log.commands]
COMMANDS += [("group", name) for name in group.commands]
COMMANDS += [
    ("enqueue",),
    ("queue", "list"),
    ("worker", "run"),
    ("worker", "check"),
    ("worker", "dump"),
    ("doctor",),
    ("fsck",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_has_a_short_help_with_an_example(
    cli: CommandLine, command: tuple[str, ...]
) -> None:
    result = cli(*command, "--help")

    said, _, examples = result.stdout.partition("Example")
    assert result.exit_code == 0
    assert f"penstock {' '.join(command)}" in examples
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.parametrize("noun", ["job", "schedule", "group"])
def test_a_group_says_in_whole_sentences_what_its_commands_do(cli: CommandLine, noun: str) -> None:
    assert "..." not in cli(noun, "--help").stdout.partition("Commands:")[2]
