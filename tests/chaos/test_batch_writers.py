"""Writers of batches are killed at any moment and started again: every row gets in once."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client.fsck import check
from penstock.connection.staging import move_batches
from tests.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITER = """
import sys
import pyarrow as pa
from pyspark.sql.types import StructType
import penstock.spark

url, namespace, batch, rows = sys.argv[1:]
options = {"url": url, "namespace": namespace, "queue": "mail", "batch_id": batch}
schema = StructType().add("payload", "string")
writer = penstock.spark.PenstockSource(options).writer(schema, overwrite=False)
print("ready", flush=True)

def partition(number):
    values = [f"{batch}-{number}-{row}" for row in range(int(rows))]
    return writer.write(iter([pa.record_batch({"payload": values})]))

staged = [partition(number) for number in range(4)]
partition(2)  # a twin that is not committed
writer.commit(staged)
"""
BATCHES, PARTITIONS, ROWS = 2, 4, 5_000


pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(240)]


def test_a_batch_whose_writers_are_killed_gets_in_once_and_as_a_whole(
    own_server: RedisServer, namespace: str, record_property: Callable[[str, object], None]
) -> None:
    kills = 0
    chance = random.Random(7)
    for number in range(BATCHES):
        # Each gets more time than the one before, so that one is done in the end on any machine.
        after_s = chance.uniform(0.05, 0.2)
        while _write(own_server, namespace, f"batch{number}", after_s):
            kills, after_s = kills + 1, 2.5 * after_s

    with penstock.connect(own_server.url, namespace=namespace) as ps:
        assert move_batches(ps.store, ps.keys.queue("mail"), "tasks").left == 0
        expected = [row for number in range(BATCHES) for row in _expected(f"batch{number}")]
        assert _rows_of(ps) == dict.fromkeys(expected, 1)
        assert check(ps).violations == []
    assert kills
    record_property("chaos", f"{len(expected)} rows in {BATCHES} batches, {kills} writers killed")


def test_a_batch_survives_a_store_that_is_killed_and_started_again(namespace: str) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        # A killed server with `everysec` may lose what it has answered.
        server = RedisServer(Path(folder), "--appendonly", "yes", "--appendfsync", "always").start()
        try:
            with _writer(server, namespace, "batch", ROWS) as writer:
                for _ in range(3):
                    server.kill()
                    server.start()
                assert writer.wait(100) == 0
            with penstock.connect(server.url, namespace=namespace) as ps:
                assert _rows_of(ps) == dict.fromkeys(_expected("batch"), 1)
                assert check(ps).violations == []
        finally:
            server.kill()


def _expected(batch: str) -> Iterator[bytes]:
    for part in range(PARTITIONS):
        for row in range(ROWS):
            yield f"{batch}-{part}-{row}".encode()


def _rows_of(ps: penstock.Penstock) -> Counter[bytes]:
    queue = ps.queue("mail")
    pages = (queue.page(at, 1000).tasks for at in range(0, queue.count(), 1000))
    return Counter(task for page in pages for task in page)


def _writer(server: RedisServer, namespace: str, batch: str, rows: int) -> subprocess.Popen[bytes]:
    """A process that is about to write a batch."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, server.url, namespace, batch, str(rows)],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    return writer


def _write(server: RedisServer, namespace: str, batch: str, after_s: float) -> bool:
    """Write a batch, and kill the writer after so long; False if it was done by then."""
    with _writer(server, namespace, batch, ROWS) as writer:
        time.sleep(after_s)
        writer.kill()
    return writer.returncode != 0
