"""Two looks at the readers of a log, and what people are told about their pace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Seconds
from penstock.cli.render import duration
from penstock.model.log_pace import Look, Pace, pace
from penstock.model.workers import worker_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.client.log import Log
    from penstock.model.logs import Lag, LogInfo

OVER_S = 2.0

over_option = click.option(
    "--over",
    "over_s",
    metavar="S",
    type=Seconds(0, 3600),
    default=OVER_S,
    show_default=True,
    help="Look again after S seconds, for rates; 0: no rates.",
)


def measure(
    log: Log, workers: Collection[str], over_s: float, wait: Callable[[float], None] = time.sleep
) -> tuple[LogInfo, list[Lag], dict[str, Pace]]:
    """The log and the lag of its readers as they are in the end, and the pace of each in the
    partitions that it had begun at both looks. `workers` are those that live. Raises LogNotFound.
    """
    if not over_s:
        return log.info(), log.lag(), {}
    before = log.info(), log.lag()
    wait(over_s)
    info, found = after = log.info(), log.lag()
    begun = {lag[:2] for lag in before[1]} & {lag[:2] for lag in found}
    paces = {}
    for reader in sorted({reader for reader, _ in begun}):
        numbers = {number for name, number in begun if name == reader}
        owners = [r.owner for part in info.partitions for r in part.readers if r.name == reader]
        count = len({worker_name(owner) for owner in owners}.intersection(workers))
        looks = _look(*before, reader, numbers), _look(*after, reader, numbers)
        if seen := pace(*looks, count, len(info.partitions)):
            paces[reader] = seen
    return info, found, paces


def _look(info: LogInfo, found: Collection[Lag], reader: str, numbers: Collection[int]) -> Look:
    parts = [info.partitions[number] for number in numbers]
    own = [lag for lag in found if lag.reader == reader and lag.partition in numbers]
    return Look(
        at=max(part.now for part in parts),
        added=sum(part.added for part in parts),
        lag=sum(lag.messages for lag in own),
        seconds=max(lag.seconds for lag in own),
    )


def pace_sentence(seen: Pace, is_group: bool) -> str:
    """For people."""
    said = f"{seen.arriving:,.1f} a second arrive, {seen.handled:,.1f} a second are handled: "
    if seen.catch_up_s is None:
        said += "it does not catch up"
    else:
        said += f"caught up in {duration(seen.catch_up_s)}" if seen.catch_up_s else "it keeps up"
    if not is_group:
        return said
    needed = seen.workers_needed
    return f"{said}; {'?' if needed is None else needed} workers needed for what arrives"


def pace_document(seen: Pace | None) -> dict[str, object]:
    """For programs; all None if it was not measured."""
    return seen._asdict() if seen else dict.fromkeys(Pace._fields)
