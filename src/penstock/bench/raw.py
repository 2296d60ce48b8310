"""The raw limits: what Redis and Python with hiredis can do at all, with nothing in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bench.ground import make_tasks
from penstock.bench.latency import percentiles
from penstock.bench.processes import listener_process
from penstock.bench.sizes import BATCH_TASKS, TASK_BYTES, Sizes
from penstock.client.wire import pack

if TYPE_CHECKING:
    from penstock.bench.figures import Values
    from penstock.bench.ground import Ground

_PUSH = "return redis.call('LPUSH', KEYS[1], ARGV[1])"


def push_in_batches(ground: Ground, sizes: Sizes) -> Values:
    """LPUSH, 100 in a pipeline; packed on the way, as a client has to."""
    connection, key = ground.connection, ground.raw_key("ready")
    tasks = make_tasks(sizes.bulk)

    def push() -> None:
        for start in range(0, len(tasks), BATCH_TASKS):
            batch = tasks[start : start + BATCH_TASKS]
            connection.send(b"".join([pack("LPUSH", key, task) for task in batch]))
            connection.expect(len(batch))

    try:
        return ground.measure(len(tasks), push)._asdict()
    finally:
        connection.request("DEL", key)


def run_script_one_by_one(ground: Ground, sizes: Sizes) -> Values:
    """EVALSHA of a script that does one LPUSH and nothing else."""
    connection, key = ground.connection, ground.raw_key("ready")
    digest = connection.request("SCRIPT", "LOAD", _PUSH)
    tasks = make_tasks(sizes.singles)

    def push() -> None:
        for task in tasks:
            connection.request("EVALSHA", digest, 1, key, task)

    try:
        return ground.measure(len(tasks), push)._asdict()
    finally:
        connection.request("DEL", key)


def move_in_batches(ground: Ground, sizes: Sizes) -> Values:
    """LMOVE to a list of the worker's own and DEL of that, for 100 tasks in a pipeline."""
    connection, ready, running = ground.connection, ground.raw_key("ready"), ground.raw_key("held")
    fill_list(ground, ready, sizes.drained)
    one = pack("LMOVE", ready, running, "RIGHT", "LEFT") + pack("DEL", running)
    trips = max(1, sizes.drained // BATCH_TASKS)

    def move() -> None:
        for _ in range(trips):
            connection.send(one * BATCH_TASKS)
            connection.expect(2 * BATCH_TASKS)

    try:
        return ground.measure(trips * BATCH_TASKS, move)._asdict()
    finally:
        connection.request("DEL", ready, running)


def wake_a_listener(ground: Ground, sizes: Sizes) -> Values:
    """From before a PUBLISH to after the EVALSHA with which an idle subscriber answers it."""
    channel = ground.raw_key("wake")
    with listener_process(ground, channel) as records:
        return percentiles(
            records,
            sizes.samples,
            lambda task: ground.connection.request("PUBLISH", channel, task),
        )


def bytes_in_a_list(ground: Ground, sizes: Sizes) -> Values:
    """Memory of a bare list with the same tasks."""
    key = ground.raw_key("stored")
    before = ground.data_bytes()
    fill_list(ground, key, sizes.stored)
    try:
        return {"bytes_per_task": (ground.data_bytes() - before) / sizes.stored}
    finally:
        ground.connection.request("DEL", key)


def fill_list(ground: Ground, key: str, count: int) -> None:
    tasks = make_tasks(count, TASK_BYTES)
    for start in range(0, count, 1000):
        ground.connection.request("LPUSH", key, *tasks[start : start + 1000])
