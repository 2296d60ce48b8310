"""`penstock log lag`: how far the readers of a log are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.group_pace import measure, over_option, pace_document, pace_sentence
from penstock.cli.group_states import check_reader, group_names, living_workers
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, duration, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.log_pace import Pace
    from penstock.model.logs import Lag


@click.command(
    epilog=examples(
        "penstock log lag clicks",
        "penstock log lag clicks --group sessions --json",
    )
)
@click.argument("name", metavar="LOG")
@click.option("--group", metavar="NAME", help="Only this group, or other reader.")
@over_option
@with_store
def lag(at: Target, name: str, group: str | None, over_s: float) -> None:
    """How far each reader of a log is behind, by partition.

    In messages that it has still to read, and in the time for which the next of them has waited. It
    goes by the offset that was committed, which comes up to half a second behind the work.

    Rates are what was appended and what was committed between two looks. It has caught up when what
    is handled beyond what arrives has made up for the lag. Each living owner is taken to do its
    share of what is handled; so many are needed that their shares make up what arrives, and a group
    that keeps up (nothing waits for more than 2 s) has enough.
    """
    with at.connected() as client:
        workers = living_workers(client)
        info, found, paces = measure(client.log(name), workers, over_s)
    if group is not None:
        check_reader(info, group)
        found = [one for one in found if one.reader == group]
    offsets = {
        (reader.name, part.number): reader.offset
        for part in info.partitions
        for reader in part.readers
    }
    if at.is_json:
        print_json({"log": name, "readers": _documents(found, offsets, paces)})
        return
    rows = [
        (*one[:2], offsets.get(one[:2], ""), one.messages, duration(one.seconds))
        for one in sorted(found, key=lambda one: (one.reader, one.partition))
    ]
    print_table(
        ("reader", "partition", "offset", "messages", "behind"),
        rows,
        empty=f"nobody has begun to read '{name}'",
    )
    for reader in _readers(found):
        say(_answer(reader, [one for one in found if one.reader == reader]))
        if reader in paces:
            say("  " + pace_sentence(paces[reader], is_group=reader in group_names(info)))


def _readers(found: Sequence[Lag]) -> list[str]:
    return sorted({one.reader for one in found})


def _documents(
    found: Sequence[Lag], offsets: Mapping[tuple[str, int], str], paces: Mapping[str, Pace]
) -> list[dict[str, object]]:
    documents = []
    for reader in _readers(found):
        own = [one for one in found if one.reader == reader]
        parts = [
            {
                "partition": one.partition,
                "offset": offsets.get(one[:2], ""),
                "messages": one.messages,
                "seconds": one.seconds,
            }
            for one in own
        ]
        documents.append(
            {
                "reader": reader,
                "messages": sum(one.messages for one in own),
                "seconds": max(one.seconds for one in own),
                **pace_document(paces.get(reader)),
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
