"""A namespace whose history is archived, and the lake."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import penstock.spark
from penstock.errors import LakeNotFound
from penstock.spark.archiving import Housekeeping
from penstock.spark.history_lake import Lake
from tests.servers import wait_for
from tests.spark.history_worlds import HistoryWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.spark import Archived
    from penstock.spark.history_lake import TableName
    from tests.servers import RedisServer

PATIENCE_S = 120
EAGER = Housekeeping(read_every_s=0.1)


class Rig:
    """Ends jobs, archives them with the shared session, and reads the lake."""

    def __init__(
        self, spark: SparkSession, ps: penstock.Penstock, server: RedisServer, folder: Path
    ) -> None:
        self.world = HistoryWorld(ps, server)
        self.lake = Lake(folder)
        self._spark = spark
        self._url = server.url
        self._namespace = ps.settings.namespace

    def archive(self, *queues: str, **options: Any) -> Archived:
        return penstock.spark.archive(
            queues,
            self.lake.uri,
            **{
                "url": self._url,
                "namespace": self._namespace,
                "spark": self._spark,
                **options,
            },
        )

    @contextmanager
    def going_on(
        self, *queues: str, housekeeping: Housekeeping = EAGER, **options: Any
    ) -> Iterator[Running]:
        """An archive that goes on while the test does; it is told to stop in the end."""
        options |= {"once": False, "housekeeping": housekeeping}
        running = Running(lambda stop: self.archive(*queues, stop=stop, **options))
        running.start()
        try:
            yield running
        finally:
            running.end()

    def jobs(self) -> Counter[str]:
        return Counter(self.rows("attempts", "job"))

    def rows(self, table: TableName, column: str) -> list[Any]:
        try:
            found = self.lake.table(table).existing().to_pyarrow_table()
        except LakeNotFound:
            return []
        values: list[Any] = found[column].to_pylist()
        return values


class Running(Thread):
    """An archive in a thread."""

    def __init__(self, archive: Callable[[Event], Archived]) -> None:
        super().__init__(name="archive", daemon=True)
        self.stop = Event()
        self.done: Archived | None = None
        self.error: Exception | None = None
        self._archive = archive

    def run(self) -> None:
        try:
            self.done = self._archive(self.stop)
        except Exception as error:
            self.error = error

    def wait_until(self, condition: Callable[[], object]) -> None:
        """As soon as something is so; fails if the archive ends before."""
        wait_for(lambda: condition() or not self.is_alive(), PATIENCE_S)
        if self.error is not None:
            raise self.error
        assert condition(), "the archive ended before"

    def end(self) -> None:
        self.stop.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the archive does not stop"
