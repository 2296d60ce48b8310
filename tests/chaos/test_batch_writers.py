"""Writers of batches are killed at any moment and started again: every row gets in once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client._sync.fsck import check
from penstock.client._sync.staging import move_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import RedisServer

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
BATCHES, PARTITIONS, ROWS = 4, 4, 5_000


pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(240)]


def test_a_batch_whose_writers_are_killed_gets_in_once_and_as_a_whole(
    own_server: RedisServer, namespace: str, record_property: Callable[[str, object], None]
) -> None:
    kills = 0
    chance = random.Random(7)
    for number in range(BATCHES):
        while _write(own_server, namespace, f"batch{number}", chance.uniform(0, 0.6)):
            kills += 1

    with penstock.connect(own_server.url, namespace=namespace) as ps:
        assert move_batches(ps.store, ps.keys.queue("mail"), "tasks").left == 0
        total = BATCHES * PARTITIONS * ROWS
        found = Counter(
            task
            for at in range(0, ps.queue("mail").count(), 1000)
            for task in ps.queue("mail").page(at, 1000).tasks
        )
        assert len(found) == total and set(found.values()) == {1}
        assert check(ps).violations == []
    assert kills
    record_property("chaos", f"{total} rows in {BATCHES} batches, {kills} writers killed")


def _write(server: RedisServer, namespace: str, batch: str, after_s: float) -> bool:
    """Write a batch, and kill the writer after so long; False if it was done by then."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, server.url, namespace, batch, str(ROWS)],
        stdout=subprocess.PIPE,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        writer.kill()
    return writer.returncode != 0
