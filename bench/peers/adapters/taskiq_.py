"""taskiq: no result backend, one worker process, up to 100 tasks at once; `list` or `stream`."""

# mypy: ignore-errors
import os
import sys
from contextlib import asynccontextmanager

import stopwatch
from taskiq_redis import ListQueueBroker, RedisStreamBroker


def make_broker():
    if stopwatch.setting() == "list":
        return ListQueueBroker(stopwatch.url(), queue_name="bench")
    # From the beginning of the stream, so that no job is missed whoever makes the group.
    return RedisStreamBroker(stopwatch.url(), queue_name="bench", consumer_id="0")


broker = make_broker()


@broker.task(task_name="handle")
async def handle(task):
    stopwatch.record(task)


@asynccontextmanager
async def producer():
    await broker.startup()
    yield handle.kiq, None
    await broker.shutdown()


def work():
    options = ["--workers", "1", "--max-async-tasks", "100", "--log-level", "ERROR"]
    command = [sys.executable, "-m", "taskiq", "worker", "taskiq_:broker", *options]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
