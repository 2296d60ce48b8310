"""`penstock enqueue`: tasks from arguments, a file or a pipe into a queue."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, print_json, say
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.client.queue import Queue


@click.command(
    epilog=examples(
        "penstock enqueue mail hello world",
        "penstock enqueue mail --file letter.bin",
        "seq 1000000 | penstock enqueue numbers --lines",
        "penstock enqueue mail hello --unique --key user-7",
    )
)
@click.argument("queue")
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@click.option("--file", "source", type=click.File("rb"), help="Read a task from here; - is stdin.")
@click.option("--lines", is_flag=True, help="Each line read is a task; empty ones are skipped.")
@click.option("--unique", is_flag=True, help="Only what is not waiting or running already.")
@click.option("--key", help="What makes the task unique, instead of the task itself.")
@with_store
def enqueue(
    at: Target,
    queue: str,
    tasks: tuple[str, ...],
    source: BinaryIO | None,
    lines: bool,
    unique: bool,
    key: str | None,
) -> None:
    """Add tasks to the back of QUEUE, in their order.

    A TASK is text and goes in as UTF-8. Without one, --lines reads from stdin.
    """
    _check_usage(tasks, source, lines, unique, key)
    given: Iterable[bytes] = (task.encode(errors="surrogateescape") for task in tasks)
    if lines:
        given = read_lines(source or sys.stdin.buffer)
    elif source is not None:
        given = [source.read()]
    with at.connected() as client:
        target = client.queue(queue)
        if unique:
            added, existing = _enqueue_unique(target, given, key)
        else:
            added, existing = target.enqueue_many(given), 0
    if at.is_json:
        print_json({"queue": queue, "added": added, "existing": existing})
    else:
        there = f"; {counted(existing, 'task')} there already" if existing else ""
        say(f"added {counted(added, 'task')} to '{queue}'{there}")


def _check_usage(
    tasks: tuple[str, ...], source: BinaryIO | None, lines: bool, unique: bool, key: str | None
) -> None:
    if tasks and (source or lines):
        raise click.UsageError("Give tasks as arguments or read them, not both.")
    if not tasks and not source and not lines:
        raise click.UsageError("Nothing to add; give a TASK, --file or --lines.")
    if key is not None and not unique:
        raise click.UsageError("--key goes with --unique.")
    if key is not None and (lines or len(tasks) > 1):
        raise click.UsageError("--key is for one task; several would all be the same.")


def _enqueue_unique(queue: Queue, tasks: Iterable[bytes], key: str | None) -> tuple[int, int]:
    """How many were new, and how many were there."""
    added = existing = 0
    try:
        for task in tasks:
            if queue.enqueue_unique(task, key).is_new:
                added += 1
            else:
                existing += 1
    except PenstockError as error:
        error.accepted = added  # type: ignore[attr-defined]
        raise
    return added, existing


def read_lines(source: BinaryIO, noun: str = "task") -> Iterator[bytes]:
    """The lines without their ends, with a progress bar on a terminal if it takes long."""
    count = read = 0
    with ProgressBar(_size_of(source)) as bar:
        for line in source:
            count += 1
            read += len(line)
            if count % 1000 == 0:
                bar.show(read, counted(count, noun))
            if task := line.removesuffix(b"\n"):
                yield task


def _size_of(source: BinaryIO) -> int | None:
    """Of a file; a pipe does not know."""
    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:
        return None
