"""`penstock group`: those who share the partitions of a log."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.group_errors import errors, replay
from penstock.cli.group_pace import measure, over_option, pace_document, pace_sentence
from penstock.cli.group_states import (
    check_group,
    group_names,
    known_workers,
    living_workers,
    look_at_group,
)
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, duration, print_facts, print_json, print_table, say
from penstock.errors import LogNotFound, QueueNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.cli.group_states import GroupState, PartitionState
    from penstock.cli.render import Cell
    from penstock.client.client import Penstock


@click.group()
def group() -> None:
    """Look at groups of consumers of logs, pause them and resume them."""


for command in (errors, replay):
    group.add_command(command)

_partition = click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this one.")


@group.command("list", epilog=examples("penstock group list", "penstock group list clicks"))
@click.argument("log", required=False)
@with_store
def list_groups(at: Target, log: str | None) -> None:
    """All groups, of one log or of all."""
    with at.connected() as client:
        found = list(_all_groups(client, log))
    if at.is_json:
        print_json([_document(state) for state in found])
        return
    columns = ("log", "group", "workers", "lag", "behind", "paused", "errors")
    rows = [
        (
            *(state.log, state.group, state.workers, state.messages, duration(state.seconds)),
            *(f"{state.paused} of {len(state.partitions)}" if state.paused else "-", state.errors),
        )
        for state in found
    ]
    print_table(columns, rows, empty="no groups; a worker with a consumer is in one")


@group.command(epilog=examples("penstock group show clicks sessions"))
@click.argument("log")
@click.argument("name", metavar="GROUP")
@over_option
@with_store
def show(at: Target, log: str, name: str, over_s: float) -> None:
    """Who owns which partition, and how far each has come.

    The owner is the last that took the partition; `alive` if its worker is. Offset and lag are as
    committed, which comes up to half a second behind the work. `penstock log lag --help` says how
    rates are computed.
    """
    with at.connected() as client:
        target = client.log(log)
        check_group(target.info(), name)
        info, _, paces = measure(target, living_workers(client), over_s)
        state = look_at_group(target, info, name, known_workers(client))
    seen = paces.get(name)
    if at.is_json:
        print_json({**_document(state), **pace_document(seen)})
        return
    facts: list[tuple[str, Cell]] = [
        ("workers", state.workers),
        ("lag", state.messages),
        ("behind", duration(state.seconds)),
        ("errors", state.errors),
    ]
    print_facts(f"{log} {name}", facts)
    columns = (
        *("partition", "owner", "state", "epoch", "offset"),
        *("lag", "behind", "paused", "errors", "crashes"),
    )
    print_table(columns, map(_row, state.partitions), empty="")
    if seen:
        say(pace_sentence(seen, is_group=True))


@group.command(
    epilog=examples(
        "penstock group pause clicks sessions",
        "penstock group pause clicks sessions --partition 3",
    )
)
@click.argument("log")
@click.argument("name", metavar="GROUP")
@_partition
@with_store
def pause(at: Target, log: str, name: str, partition: int | None) -> None:
    """Let a group read nothing for now.

    Batches that run come to their end, and nobody loses a partition by it.
    """
    _set_paused(at, log, name, partition, is_paused=True)


@group.command(epilog=examples("penstock group resume clicks sessions"))
@click.argument("log")
@click.argument("name", metavar="GROUP")
@_partition
@with_store
def resume(at: Target, log: str, name: str, partition: int | None) -> None:
    """Let a group go on reading.

    Also where a partition stands still, as a message failed for good.
    """
    _set_paused(at, log, name, partition, is_paused=False)


def _set_paused(at: Target, log: str, name: str, partition: int | None, is_paused: bool) -> None:
    with at.connected() as client:
        target = client.log(log)
        check_group(target.info(), name)
        reader = target.group(name)
        (reader.pause if is_paused else reader.resume)(partition)
        paused = reader.paused()
    if at.is_json:
        print_json({"log": log, "group": name, "paused": paused})
        return
    where = "" if partition is None else f" in partition {partition}"
    say(f"{'paused' if is_paused else 'resumed'} '{name}'{where}")
    if paused and not is_paused:
        say(f"still paused in {counted(len(paused), 'partition')}: {', '.join(map(str, paused))}")


def _all_groups(client: Penstock, only: str | None) -> Iterator[GroupState]:
    workers = known_workers(client)
    for name in client.queues() if only is None else [only]:
        try:
            if only is None and client.queue(name).inspect().kind != "logs":
                continue
            log = client.log(name)
            info = log.info()
            found = [look_at_group(log, info, group, workers) for group in group_names(info)]
        except (QueueNotFound, LogNotFound):
            if only is not None:
                raise
            continue  # deleted since
        yield from found


def _document(state: GroupState) -> dict[str, object]:
    return {
        "log": state.log,
        "group": state.group,
        "workers": state.workers,
        "messages": state.messages,
        "seconds": state.seconds,
        "errors": state.errors,
        "partitions": [asdict(one) for one in state.partitions],
    }


def _row(one: PartitionState) -> tuple[Cell, ...]:
    return (
        one.partition,
        one.owner or "-",
        one.worker or "-",
        "-" if one.epoch is None else str(one.epoch),
        one.offset or "-",
        "-" if one.messages is None else one.messages,
        "-" if one.seconds is None else duration(one.seconds),
        "paused" if one.is_paused else "-",
        one.errors,
        one.crashes,
    )
