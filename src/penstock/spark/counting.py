"""The table `counts`: one row for each minute and queue of any kind, so that plain queues and
waiting jobs have a history too, at no cost for each task.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import QueueNotFound, UnknownLayout
from penstock.spark.history_lake import COUNTERS, DEPTHS
from penstock.spark.lake_files import write_rows

if TYPE_CHECKING:
    from penstock.client.client import Penstock
    from penstock.model.queues import QueueState
    from penstock.spark.history_lake import Lake

_MINUTE_S = 60


def count_queues(client: Penstock, lake: Lake, now: float) -> bool:
    """Put a row for each queue of the client's namespace into the lake, as it is in this minute.

    Returns False if this minute is there already, also if another process was faster: the minute
    is the version of the commit, so no minute is counted twice.
    """
    table = lake.table("counts")
    minute = minute_of(now)
    application = f"counts of {client.settings.namespace}"
    known = table.open().transaction_version(application)
    if known is not None and known >= minute:
        return False
    at = datetime.fromtimestamp(minute * _MINUTE_S, UTC)
    rows = [row for state in client.inspect() if (row := _row(client, state, at)) is not None]
    if not rows:
        return False
    schema = table.layout.schema
    columns = schema.remove(schema.get_field_index("day"))
    files = write_rows(pa.Table.from_pylist(rows, columns), table, "at")
    return table.append(files, application, minute)


def minute_of(instant: float) -> int:
    """Which minute it is, counted from 1970."""
    return int(instant // _MINUTE_S)


def _row(client: Penstock, state: QueueState, at: datetime) -> dict[str, Any] | None:
    """What is counted; None if the queue is gone by now, or this version cannot read it."""
    depths = {name: getattr(state, name, 0) for name in DEPTHS}
    if state.kind == "jobs":
        try:
            jobs = client.jobs(state.name).counts()
        except (QueueNotFound, UnknownLayout):
            return None
        depths = {name: count for name, count in jobs.items() if name in DEPTHS}
    counters = {name: count for name, count in asdict(state.counters).items() if name in COUNTERS}
    return {
        "at": at,
        "queue": state.name,
        "kind": state.kind,
        "incarnation": state.incarnation,
        "is_paused": state.is_paused,
        "workers": len(state.held),
        "idle_workers": state.idle,
        **depths,
        **counters,
    }
