"""The table `gaps`: what was gone before it could be archived, and was passed over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.spark.lake_files import write_rows

if TYPE_CHECKING:
    from penstock.client.client import Penstock
    from penstock.spark.archive_source import ArchiveSource
    from penstock.spark.checkpoints import Checkpoint
    from penstock.spark.history_lake import Lake


def note_gap(
    lake: Lake,
    client: Penstock,
    source: ArchiveSource,
    reader: str,
    reason: str,
    checkpoint: Checkpoint,
) -> None:
    """Put rows into the lake that say what is missing after the last batch that was stored: one, or
    one for each partition of a log. It may be called again for the same gap: it is noted once.
    """
    table = lake.table("gaps")
    stored = checkpoint.last_stored()
    found = {"found_at": datetime.now(UTC), source.name_column: source.name}
    rows = [
        {
            **found,
            "reader": reader,
            "reason": reason,
            "partition": gap.partition,
            "after_place": gap.after,
            "next_place": gap.next,
        }
        for gap in source.gaps(client, checkpoint.end_of(stored))
    ]
    schema = table.layout.schema
    columns = schema.remove(schema.get_field_index("day"))
    files = write_rows(pa.Table.from_pylist(rows, columns), table, "found_at")
    table.append(files, f"gaps of {checkpoint.query()}", stored + 1)
