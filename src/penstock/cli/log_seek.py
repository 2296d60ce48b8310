"""`penstock log seek`: let a group read on from another place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from penstock.cli.group_states import check_group, chosen_partitions
from penstock.cli.options import Target, examples, parse_instant, with_store
from penstock.cli.render import counted, print_json, say
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
        check_group(info, group)
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
    for number in chosen_partitions(info, partition):
        group.seek(id=log.partition_info(number).last or START, partition=number)
