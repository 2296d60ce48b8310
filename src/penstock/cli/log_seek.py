"""`penstock log seek`: let a group read on from another place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from penstock.cli.log_lag import check_reader
from penstock.cli.options import Target, examples, parse_instant, with_store
from penstock.cli.render import counted, print_json, say
from penstock.errors import WrongKind
from penstock.model.logs import START

if TYPE_CHECKING:
    from penstock.client.log import Log, LogGroup
    from penstock.model.logs import LogInfo

_ID = re.compile(r"\d+-\d+")


@click.command(
    epilog=examples(
        "penstock log seek clicks sessions --to 2026-11-15T00:00Z",
        "penstock log seek clicks sessions --to latest --partition 3",
        "penstock log seek clicks sessions --to 1700000000000-0 --partition 3",
    )
)
@click.argument("name", metavar="LOG")
@click.argument("group")
@click.option(
    "--to",
    "place",
    metavar="TIME|ID|earliest|latest",
    required=True,
    help="The first message then or later; after a message; the oldest; what comes next.",
)
@click.option("--partition", metavar="N", type=click.IntRange(0), help="Only this one.")
@with_store
def seek(at: Target, name: str, group: str, place: str, partition: int | None) -> None:
    """Let a group go on from another place, back or ahead.

    Its workers need not be stopped: they drop what they have under way, and go on from there. An ID
    is of one partition, so --partition has to be given with it.
    """
    is_id = _ID.fullmatch(place) is not None
    if is_id and partition is None:
        raise click.UsageError("An id is of one partition; give --partition too.")
    moment = None if is_id or place in ("earliest", "latest") else parse_instant(place)
    with at.connected() as client:
        log = client.log(name)
        info = log.info()
        _check_group(info, group)
        reader = log.group(group)
        if is_id:
            reader.seek(id=place, partition=partition)
        elif place == "latest":
            _seek_end(log, reader, info, partition)
        else:
            reader.seek(moment, partition=partition)
        left = sum(one.messages for one in reader.lag())
    if at.is_json:
        print_json({"log": name, "group": group, "to": place, "partition": partition, "lag": left})
    else:
        where = "" if partition is None else f" in partition {partition}"
        say(f"'{group}' goes on from {place}{where}; {counted(left, 'message')} to read in all")


def _seek_end(log: Log, group: LogGroup, info: LogInfo, partition: int | None) -> None:
    numbers = range(len(info.partitions)) if partition is None else [partition]
    for number in numbers:
        group.seek(id=log.partition_info(number).last or START, partition=number)


def _check_group(info: LogInfo, name: str) -> None:
    check_reader(info, name)
    readers = [one for part in info.partitions for one in part.readers if one.name == name]
    if name not in info.groups and all(not one.epoch for one in readers):
        raise WrongKind(
            f"{name!r} reads log {info.name!r} by itself, such as an archive or a query of Spark, "
            "and says itself how far it has come; only groups can be sent elsewhere"
        )
