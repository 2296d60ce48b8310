"""Offsets of a stream of history: how far each queue was read, as checkpoints keep it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError
from penstock.model.history import BEGINNING, check_place, place_key
from penstock.spark.log_offsets import open_offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.client import Penstock
    from penstock.model.history import HistoryBounds

Start = str | dict[str, str | list[str]]
"""earliest or latest; or for each queue one of these, a place, or an offset."""


class Offset(NamedTuple):
    """How far one queue was read: the incarnation of the queue, and the last entry."""

    incarnation: str = ""
    place: str = BEGINNING


Offsets = dict[str, Offset]


def open_offsets(stored: Mapping[str, Sequence[str]]) -> Offsets:
    """Offsets as Spark hands them over."""
    return {queue: Offset(*offset) for queue, offset in stored.items()}


def pack_offsets(offsets: Mapping[str, Offset]) -> dict[str, list[str]]:
    """Offsets as Spark keeps them; it compares their texts, so their order is always the same."""
    return {queue: list(offsets[queue]) for queue in sorted(offsets)}


def mark_offsets(
    client: Penstock, reader: str, offsets: Mapping[str, Sequence[str] | Mapping[str, str]]
) -> None:
    """Say that `reader` has read each queue, or a log, up to its offset, as Spark has it.

    Spark does not say of the last batch of a run that it was stored, so a program that runs a query
    to its end calls this with the offsets at which it ended.
    """
    for name, offset in offsets.items():
        if isinstance(offset, Mapping):
            client.log(name).mark(reader, open_offset({name: offset}, name).places)
        else:
            client.jobs(name).mark_history(reader, Offset(*offset).place)


def starting_offsets(text: str) -> Start:
    """What the option of this name says; raises ValueError."""
    if text in ("earliest", "latest"):
        return text
    given = json.loads(text)
    if not isinstance(given, dict) or not given:
        raise ValueError
    for start in given.values():
        _check_start(start)
    return given


def _check_start(start: object) -> None:
    if start in ("earliest", "latest"):
        return
    incarnation, place = start if isinstance(start, list) and len(start) == 2 else ("", start)
    try:
        check_place(place)
    except PenstockError as error:
        raise ValueError from error
    if not isinstance(incarnation, str):
        raise ValueError


def share_limit(limit: int, lags: Mapping[str, int]) -> dict[str, int]:
    """How many rows each queue may give: one each, and of the rest more the further it is behind.
    Those that are furthest behind come first if there is not one for each.
    """
    furthest = sorted(lags, key=lambda queue: -lags[queue])
    shares = {queue: int(place < limit) for place, queue in enumerate(furthest)}
    rest, total = limit - sum(shares.values()), sum(lags.values())
    for queue in furthest:
        shares[queue] += rest * lags[queue] // total
    if furthest:
        shares[furthest[0]] += limit - sum(shares.values())
    return shares


def until(bounds: HistoryBounds, target: Offset | None) -> str:
    """The last place to read now: the last entry there is, but not beyond a target."""
    last = bounds.last or BEGINNING
    if target is None:
        return last
    if target.incarnation != bounds.incarnation:
        return BEGINNING
    return min(last, target.place, key=place_key)
