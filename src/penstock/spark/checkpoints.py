"""What Spark keeps in the checkpoint of an archive, and whether it agrees with the lake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from penstock.errors import LakeConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.archive_source import ArchiveSource
    from penstock.spark.delta import Table

_NONE = -1


class Checkpoint:
    """The checkpoint of the query that archives one source, in any place that Spark can read.

    Spark numbers micro-batches. It writes down what a batch is before it runs it, and that it was
    stored after that; so at most the last batch is planned and not stored.
    """

    def __init__(self, spark: SparkSession, place: str, name: str) -> None:
        self.place = place
        self._spark = spark
        self._name = name

    def query(self) -> str:
        """The id of the query; empty if it was never started."""
        for line in self._lines("metadata"):
            return str(json.loads(line)["id"])
        return ""

    def last_planned(self) -> int:
        """The number of the last batch that was ever begun; -1 if none was."""
        return max(self._numbers("offsets"), default=_NONE)

    def last_stored(self) -> int:
        """The number of the last batch that was stored; -1 if none was."""
        return max(self._numbers("commits"), default=_NONE)

    def end_of(self, number: int) -> Any:
        """Up to where a batch goes, as its source has it; None if that is not known any more."""
        for line in reversed(self._lines(f"offsets/{number}")):
            found = json.loads(line) if line.startswith("{") else {}
            if self._name in found:
                return found[self._name]
        return None

    def _numbers(self, folder: str) -> list[int]:
        if "://" not in self.place:
            path = Path(self.place, folder)
            names = [each.name for each in path.iterdir()] if path.is_dir() else []
        else:
            try:
                files = self._spark.read.format("binaryFile").load(f"{self.place}/{folder}")
                names = [row.path.rpartition("/")[2] for row in files.select("path").collect()]
            except AnalysisException:
                names = []
        return [int(name) for name in names if name.isdigit()]

    def _lines(self, file: str) -> list[str]:
        if "://" not in self.place:
            path = Path(self.place, file)
            return path.read_text().splitlines() if path.is_file() else []
        try:
            return [row.value for row in self._spark.read.text(f"{self.place}/{file}").collect()]
        except AnalysisException:
            return []


def check_agreement(table: Table, source: ArchiveSource, checkpoint: Checkpoint) -> None:
    """Raise LakeConflict if the table and the checkpoint do not belong together, or one of them is
    an older copy: rows would be archived twice, or left out.
    """
    found = table.open()
    query = checkpoint.query()
    last = found.transaction_version(query) if query else None
    rows = f"{source.rows} of {source.title}"
    names = {part.get(source.name_column) for part in found.partitions()}
    if last is None and source.name in names:
        what = "is of another one" if query else "is gone"
        raise LakeConflict(
            f"the lake {table.uri} has {rows}, but {checkpoint.place}, which says up to where, "
            f"{what}, so some would be archived twice; bring it back, or use another lake"
        )
    if last is not None and last > checkpoint.last_planned():
        raise LakeConflict(
            f"the lake {table.uri} has a batch of {source.title} which {checkpoint.place} knows "
            f"nothing of: that is an older copy, so some {source.rows} would be left out; bring "
            "the newest one back, or use another lake"
        )
    if checkpoint.last_stored() > (_NONE if last is None else last):
        raise LakeConflict(
            f"the lake {table.uri} lacks {rows} which {checkpoint.place} says were archived: it is "
            "an older copy, or another lake; bring the newest one back, or use another checkpoint "
            "with another lake"
        )
