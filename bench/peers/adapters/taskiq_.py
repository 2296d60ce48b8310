"""taskiq: one worker process, up to 100 tasks at once; `list` or `stream`."""

# mypy: ignore-errors
import os
import sys
from contextlib import asynccontextmanager

import stopwatch
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker


def make_broker():
    if stopwatch.setting() == "list":
        return ListQueueBroker(stopwatch.url(), queue_name="bench")
    # From the beginning of the stream, so that no job is missed before the group is made.
    return RedisStreamBroker(stopwatch.url(), queue_name="bench", consumer_id="0")


broker = make_broker()
if stopwatch.keeps_results():
    broker = broker.with_result_backend(RedisAsyncResultBackend(stopwatch.url()))


@broker.task(task_name="handle")
async def handle(task):
    return stopwatch.record(task)


@asynccontextmanager
async def producer():
    async def ask(task):
        sent = await handle.kiq(task)
        look_every_s, timeout_s = stopwatch.LOOK_EVERY_S, stopwatch.SAMPLE_TIMEOUT_S
        return (await sent.wait_result(look_every_s, timeout_s)).return_value

    await broker.startup()
    yield handle.kiq, None, ask
    await broker.shutdown()


def work():
    options = ["--workers", "1", "--max-async-tasks", "100", "--log-level", "ERROR"]
    command = [sys.executable, "-m", "taskiq", "worker", "taskiq_:broker", *options]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
