"""`penstock log`: logs, their partitions and messages."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

import click

from penstock.cli.enqueue import read_lines
from penstock.cli.log_lag import lag
from penstock.cli.log_seek import seek
from penstock.cli.options import Seconds, Target, examples, parse_instant, with_store
from penstock.cli.render import (
    counted,
    duration,
    instant,
    json_bytes,
    print_facts,
    print_json,
    print_json_line,
    print_table,
    say,
    shortened,
    size,
)
from penstock.errors import LogNotFound, QueueNotFound
from penstock.model.logs import NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.cli.render import Cell
    from penstock.client.client import Penstock
    from penstock.model.logs import LogInfo, Message, PartitionInfo


@click.group()
def log() -> None:
    """Look at logs, append to them and read them."""


for command in (lag, seek):
    log.add_command(command)


def _instant(_: object, __: object, text: str | None) -> datetime | None:
    return None if text is None else parse_instant(text)


_partition = click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this one.")


@log.command("list", epilog=examples("penstock log list", "penstock log list --json"))
@with_store
def list_logs(at: Target) -> None:
    """All logs."""
    with at.connected() as client:
        found = list(_all_logs(client))
    if at.is_json:
        print_json([_document(info) for info in found])
        return
    rows = [
        (info.name, len(info.partitions), info.messages, size(info.bytes), len(info.groups))
        for info in found
    ]
    columns = ("log", "partitions", "messages", "bytes", "groups")
    print_table(columns, rows, empty="no logs; `penstock log append LOG MESSAGE` makes one")


@log.command(epilog=examples("penstock log show clicks"))
@click.argument("name")
@with_store
def show(at: Target, name: str) -> None:
    """Partitions, settings and readers of one log."""
    with at.connected() as client:
        info = client.log(name).info()
    if at.is_json:
        print_json(_document(info))
        return
    print_facts(name, [("messages", info.messages), ("bytes", size(info.bytes)), *_kept(info)])
    rows = [
        (part.number, part.messages, size(part.bytes), part.first, part.last, part.trimmed)
        for part in info.partitions
    ]
    print_table(("partition", "messages", "bytes", "first", "last", "trimmed"), rows, empty="")
    readers = [
        (reader.name, part.number, reader.offset, str(reader.epoch), reader.owner or "-")
        for part in info.partitions
        for reader in part.readers
    ]
    if readers:
        print_table(("reader", "partition", "offset", "epoch", "owner"), sorted(readers), empty="")
    lost = sum(part.lost for part in info.partitions)
    if lost:
        say(f"{counted(lost, 'message')} trimmed before a reader had read them")


@log.command(
    epilog=examples(
        "penstock log append clicks hello --key user-1",
        "penstock log append clicks --lines --partitions 8 < clicks.txt",
    )
)
@click.argument("name")
@click.argument("messages", metavar="[MESSAGE]...", nargs=-1)
@click.option("--file", "source", type=click.File("rb"), help="Read a message here; - is stdin.")
@click.option("--lines", is_flag=True, help="Each line read is a message; empty ones are skipped.")
@click.option("--key", help="All messages with one key are in one partition, in order.")
@click.option("--partition", metavar="N", type=click.IntRange(0), help="Where they go.")
@click.option(
    "--partitions", metavar="N", type=click.IntRange(1, 1024), help="How many there are at least."
)
@with_store
def append(
    at: Target,
    name: str,
    messages: tuple[str, ...],
    source: BinaryIO | None,
    lines: bool,
    key: str | None,
    partition: int | None,
    partitions: int | None,
) -> None:
    """Append messages to a log, in their order. A log that does not exist is made.

    A MESSAGE is text and goes in as UTF-8. Without one, --lines reads from stdin.
    """
    if bool(messages) == bool(source or lines):
        raise click.UsageError("Give messages, or --file, or --lines.")
    given: Iterable[bytes] = (text.encode(errors="surrogateescape") for text in messages)
    if lines:
        given = read_lines(source or sys.stdin.buffer, "message")
    elif source is not None:
        given = [source.read()]
    with at.connected() as client:
        target = client.log(name, partitions)
        count = target.append_many(NewMessage(body, key=key, partition=partition) for body in given)
    if at.is_json:
        print_json({"log": name, "appended": count})
    else:
        say(f"appended {counted(count, 'message')} to '{name}'")


@log.command(
    epilog=examples(
        "penstock log read clicks --since 2026-11-15T00:00Z --until 2026-11-15T01:00Z",
        "penstock log read clicks --reverse --limit 10",
        "penstock log read clicks --follow --json",
    )
)
@click.argument("name")
@click.option("--since", metavar="TIME", callback=_instant, help="Appended then or later.")
@click.option("--until", metavar="TIME", callback=_instant, help="Appended before.")
@click.option("--after", metavar="ID", help="After this message.")
@_partition
@click.option("--reverse", is_flag=True, help="The newest first.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="End after N messages.")
@click.option("--skip-trimmed", is_flag=True, help="Also if messages of that time are gone.")
@click.option("--follow", is_flag=True, help="Go on with what is appended, until Ctrl-C.")
@click.option(
    "--timeout",
    metavar="S",
    type=Seconds(0.001),
    help="With --follow: end after S silent seconds.",
)
@with_store
def read(
    at: Target,
    name: str,
    since: datetime | None,
    until: datetime | None,
    after: str | None,
    partition: int | None,
    reverse: bool,
    limit: int | None,
    skip_trimmed: bool,
    follow: bool,
    timeout: float | None,
) -> None:
    """Print messages, those of all partitions in the order of time.

    With --json each message is a document on a line of its own. It is an error if messages of the
    time that is asked for are gone.
    """
    if follow and (until or after or reverse or skip_trimmed):
        raise click.UsageError("--follow goes with --since, --partition, --limit and --timeout.")
    if timeout and not follow:
        raise click.UsageError("--timeout is for --follow.")
    with at.connected() as client:
        target = client.log(name)
        if follow:
            found = target.follow(since, partition=partition, timeout_s=timeout)
        else:
            found = target.read(
                since,
                until,
                partition=partition,
                after=after,
                reverse=reverse,
                limit=limit,
                skip_trimmed=skip_trimmed,
            )
        with closing(found):
            for seen, message in enumerate(found, start=1):
                _print_message(message, at.is_json)
                if seen == limit:
                    return


@log.command(
    epilog=examples(
        "penstock log trim clicks",
        "penstock log trim clicks --before 2026-11-01T00:00Z",
    )
)
@click.argument("name")
@click.option("--before", metavar="TIME", callback=_instant, help="What was appended before.")
@click.option("--id", "id", metavar="ID", help="What is before this message of --partition.")
@_partition
@click.option("--force", is_flag=True, help="Also what a reader has still to read.")
@with_store
def trim(
    at: Target,
    name: str,
    before: datetime | None,
    id: str | None,
    partition: int | None,
    force: bool,
) -> None:
    """Remove messages that are kept no longer, or those before a time or a message.

    What a group or an archive has still to read stays, unless it is forced.
    """
    with at.connected() as client:
        gone = client.log(name).trim(before, id=id, partition=partition, force=force)
    if at.is_json:
        print_json({"log": name, **gone._asdict()})
    else:
        say(f"removed {counted(gone.messages, 'message')} of '{name}', {size(gone.bytes)}")


@log.command(epilog=examples("penstock log delete clicks --yes"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_store
def delete(at: Target, name: str, yes: bool) -> None:
    """Delete a log with all messages and groups."""
    if at.is_json and not yes:
        raise click.UsageError("--json cannot ask; add --yes.")
    with at.connected() as client:
        info = client.log(name).info()
        if not yes:
            question = f"Delete log '{name}' with {counted(info.messages, 'message')}?"
            click.confirm(question, abort=True, err=True)
        removed = client.log(name).delete()
    if at.is_json:
        print_json({"log": name, "removed": removed})
    else:
        say(f"deleted '{name}' with {counted(removed, 'message')}")


def _all_logs(client: Penstock) -> Iterable[LogInfo]:
    for name in client.queues():
        try:
            if client.queue(name).inspect().kind == "logs":
                yield client.log(name).info()
        except (QueueNotFound, LogNotFound):
            continue  # deleted since


def _document(info: LogInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "messages": info.messages,
        "bytes": info.bytes,
        "settings": info.settings,
        "groups": list(info.groups),
        "partitions": [_partition_document(part) for part in info.partitions],
    }


def _partition_document(part: PartitionInfo) -> dict[str, object]:
    names = ("number", "messages", "bytes", "added", "trimmed", "trimmed_to", "lost")
    own = {name: getattr(part, name) for name in (*names, "first", "last")}
    return {**own, "readers": [reader._asdict() for reader in part.readers]}


def _kept(info: LogInfo) -> list[tuple[str, Cell]]:
    """What is set, for each partition."""
    found: list[tuple[str, Cell]] = []
    for name, value in info.settings.items():
        if name.endswith("_ms"):
            found.append((name.removesuffix("_ms"), duration(value / 1000)))
        else:
            found.append((name, size(value) if name.endswith("bytes") else value))
    return found


def _print_message(message: Message, is_json: bool) -> None:
    if not is_json:
        key = f" {message.key}" if message.key else ""
        say(
            f"{instant(message.at)} {message.partition}/{message.id}{key} {shortened(message.body)}"
        )
        return
    print_json_line(
        {
            "partition": message.partition,
            "id": message.id,
            "at": message.at,
            "key": message.key,
            "headers": message.headers,
            "body": json_bytes(message.body),
        }
    )
