"""The table `gaps`: history that was gone before it could be archived, and was passed over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.spark.lake_files import write_rows

if TYPE_CHECKING:
    from penstock.spark.checkpoints import Checkpoint
    from penstock.spark.history_lake import Lake


def note_gap(
    lake: Lake, queue: str, reader: str, reason: str, checkpoint: Checkpoint, next_place: str
) -> None:
    """Put a row into the lake that says what is missing after the last batch that was stored. It
    may be called again for the same gap: it is noted once.
    """
    table = lake.table("gaps")
    stored = checkpoint.last_stored()
    last = checkpoint.end_of(stored)
    row = {
        "found_at": datetime.now(UTC),
        "queue": queue,
        "reader": reader,
        "reason": reason,
        "after_place": last.place if last else None,
        "next_place": next_place or None,
    }
    schema = table.layout.schema
    columns = schema.remove(schema.get_field_index("day"))
    files = write_rows(pa.Table.from_pylist([row], columns), table, "found_at")
    incarnation = last.incarnation if last else ""
    table.append(files, f"gaps of {queue} {incarnation}", stored + 1)
