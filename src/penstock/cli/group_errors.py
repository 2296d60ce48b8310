"""`penstock group errors` and `replay`: messages that a group has given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.group_states import check_group, chosen_partitions
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import (
    counted,
    instant,
    json_bytes,
    print_json,
    print_json_line,
    print_table,
    say,
    shortened,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client.log import LogGroup
    from penstock.model.logs import FailedMessage

_DATA_CHARACTERS = 60


@click.command(epilog=examples("penstock group errors clicks sessions --limit 10"))
@click.argument("log")
@click.argument("name", metavar="GROUP")
@click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this one.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=100, help="At most N. Default: 100."
)
@with_store
def errors(at: Target, log: str, name: str, partition: int | None, limit: int) -> None:
    """Messages that a group has given up, and why.

    By partition, oldest first. With --json each is a document on a line of its own.
    """
    with at.connected() as client:
        target = client.log(log)
        info = target.info()
        check_group(info, name)
        numbers = chosen_partitions(info, partition)
        found = list(_errors(target.group(name), numbers, limit))
    if at.is_json:
        for error in found:
            print_json_line(_document(error))
        return
    rows = [
        (
            *(error.message.partition, error.message.id, instant(error.failed_at)),
            *(error.attempts, error.reason, shortened(error.message.body, _DATA_CHARACTERS)),
        )
        for error in found
    ]
    columns = ("partition", "id", "failed", "attempts", "reason", "data")
    print_table(columns, rows, empty=f"'{name}' has given up no messages")


@click.command(epilog=examples("penstock group replay clicks sessions --partition 3"))
@click.argument("log")
@click.argument("name", metavar="GROUP")
@click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this one.")
@with_store
def replay(at: Target, log: str, name: str, partition: int | None) -> None:
    """Let a group handle once more what it has given up.

    The messages are appended to their partitions again; other groups pass over them.
    """
    with at.connected() as client:
        target = client.log(log)
        check_group(target.info(), name)
        count = target.group(name).replay(partition)
    if at.is_json:
        print_json({"log": log, "group": name, "replayed": count})
    else:
        say(f"{counted(count, 'message')} for '{name}' to handle once more")


def _errors(group: LogGroup, numbers: list[int], limit: int) -> Iterator[FailedMessage]:
    left = limit
    for number in numbers:
        found = group.errors(number, limit=left) if left else []
        left -= len(found)
        yield from found


def _document(error: FailedMessage) -> dict[str, object]:
    message = error.message
    return {
        "partition": message.partition,
        "id": message.id,
        "failed_at": error.failed_at,
        "attempts": error.attempts,
        "reason": error.reason,
        "key": message.key,
        "headers": message.headers,
        "body": json_bytes(message.body),
    }
