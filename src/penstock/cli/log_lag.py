"""`penstock log lag`: how far the readers of a log are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.group_states import check_reader
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, duration, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.logs import Lag


@click.command(
    epilog=examples(
        "penstock log lag clicks",
        "penstock log lag clicks --group sessions --json",
    )
)
@click.argument("name", metavar="LOG")
@click.option("--group", metavar="NAME", help="Only this group, or other reader.")
@with_store
def lag(at: Target, name: str, group: str | None) -> None:
    """How far each reader of a log is behind, by partition.

    In messages that it has still to read, and in the time for which the next of them has waited. It
    goes by what was committed, which comes up to half a second behind the work.
    """
    with at.connected() as client:
        log = client.log(name)
        info, found = log.info(), log.lag()
    if group is not None:
        check_reader(info, group)
        found = [one for one in found if one.reader == group]
    if at.is_json:
        print_json({"log": name, "readers": _documents(found)})
        return
    rows = [
        (one.reader, one.partition, one.messages, duration(one.seconds))
        for one in sorted(found, key=lambda one: (one.reader, one.partition))
    ]
    print_table(
        ("reader", "partition", "messages", "behind"),
        rows,
        empty=f"nobody has begun to read '{name}'",
    )
    for reader in readers_of(found):
        say(_answer(reader, [one for one in found if one.reader == reader]))


def readers_of(found: Sequence[Lag]) -> list[str]:
    return sorted({one.reader for one in found})


def _documents(found: Sequence[Lag]) -> list[dict[str, object]]:
    documents = []
    for reader in readers_of(found):
        own = [one for one in found if one.reader == reader]
        parts = [
            {"partition": one.partition, "messages": one.messages, "seconds": one.seconds}
            for one in own
        ]
        documents.append(
            {
                "reader": reader,
                "messages": sum(one.messages for one in own),
                "seconds": max(one.seconds for one in own),
                "partitions": parts,
            }
        )
    return documents


def _answer(reader: str, own: Sequence[Lag]) -> str:
    messages = sum(one.messages for one in own)
    if not messages:
        return f"'{reader}' has read everything"
    waited = duration(max(one.seconds for one in own))
    return f"'{reader}' is {counted(messages, 'message')} behind; the oldest has waited {waited}"
