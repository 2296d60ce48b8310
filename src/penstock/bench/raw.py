"""The raw limits: what Redis and Python with hiredis can do at all, with nothing in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bench.environment import make_tasks
from penstock.bench.latency import percentiles
from penstock.bench.processes import listener_process
from penstock.bench.sizes import BATCH_TASKS, TASK_BYTES, Sizes
from penstock.connection.wire import pack

if TYPE_CHECKING:
    from penstock.bench.environment import Environment
    from penstock.bench.figures import Values

_PUSH = "return redis.call('LPUSH', KEYS[1], ARGV[1])"


def push_in_batches(environment: Environment, sizes: Sizes) -> Values:
    """LPUSH, 100 in a pipeline; packed on the way, as a client has to."""
    connection, key = environment.connection, environment.raw_key("ready")
    tasks = make_tasks(sizes.bulk)

    def push() -> None:
        for start in range(0, len(tasks), BATCH_TASKS):
            batch = tasks[start : start + BATCH_TASKS]
            connection.send(b"".join([pack("LPUSH", key, task) for task in batch]))
            connection.expect(len(batch))

    try:
        return environment.measure(len(tasks), push)._asdict()
    finally:
        connection.request("DEL", key)


def run_script_one_by_one(environment: Environment, sizes: Sizes) -> Values:
    """EVALSHA of a script that does one LPUSH and nothing else."""
    connection, key = environment.connection, environment.raw_key("ready")
    digest = connection.request("SCRIPT", "LOAD", _PUSH)
    tasks = make_tasks(sizes.singles)

    def push() -> None:
        for task in tasks:
            connection.request("EVALSHA", digest, 1, key, task)

    try:
        return environment.measure(len(tasks), push)._asdict()
    finally:
        connection.request("DEL", key)


def move_in_batches(environment: Environment, sizes: Sizes) -> Values:
    """LMOVE to a list of the worker's own and DEL of that, for 100 tasks in a pipeline."""
    connection, ready, running = (
        environment.connection,
        environment.raw_key("ready"),
        environment.raw_key("held"),
    )
    fill_list(environment, ready, sizes.drained)
    one = pack("LMOVE", ready, running, "RIGHT", "LEFT") + pack("DEL", running)
    trips = max(1, sizes.drained // BATCH_TASKS)

    def move() -> None:
        for _ in range(trips):
            connection.send(one * BATCH_TASKS)
            connection.expect(2 * BATCH_TASKS)

    try:
        return environment.measure(trips * BATCH_TASKS, move)._asdict()
    finally:
        connection.request("DEL", ready, running)


def wake_a_listener(environment: Environment, sizes: Sizes) -> Values:
    """From before a PUBLISH to after the EVALSHA with which an idle subscriber answers it."""
    channel = environment.raw_key("wake")
    with listener_process(environment, channel) as records:
        return percentiles(
            records,
            sizes.samples,
            lambda task: environment.connection.request("PUBLISH", channel, task),
        )


def bytes_in_a_list(environment: Environment, sizes: Sizes) -> Values:
    """Memory of a bare list with the same tasks."""
    key = environment.raw_key("stored")
    before = environment.data_bytes()
    fill_list(environment, key, sizes.stored)
    try:
        return {"bytes_per_task": (environment.data_bytes() - before) / sizes.stored}
    finally:
        environment.connection.request("DEL", key)


def fill_list(environment: Environment, key: str, count: int) -> None:
    tasks = make_tasks(count, TASK_BYTES)
    for start in range(0, count, 1000):
        environment.connection.request("LPUSH", key, *tasks[start : start + 1000])
