"""saq: finished jobs not kept; as many jobs at once as the setting says."""

# mypy: ignore-errors
import logging
from contextlib import asynccontextmanager

import stopwatch
import uvloop
from saq import Queue, Worker

logging.getLogger("saq").setLevel(logging.ERROR)


async def handle(context, *, task):
    stopwatch.record(task)


@asynccontextmanager
async def producer():
    queue = Queue.from_url(stopwatch.url(), name="bench")
    await queue.connect()

    async def send(task):
        await queue.enqueue("handle", task=task, ttl=-1)

    yield send, None
    await queue.disconnect()


def work():
    async def run():
        queue = Queue.from_url(stopwatch.url(), name="bench")
        concurrency = int(stopwatch.setting())
        await Worker(queue, functions=[handle], concurrency=concurrency).start()

    uvloop.run(run())


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
