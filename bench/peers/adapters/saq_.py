"""saq: finished jobs kept for ten minutes or not at all; as many at once as the setting says."""

# mypy: ignore-errors
import logging
from contextlib import asynccontextmanager

import stopwatch
import uvloop
from saq import Queue, Worker

logging.getLogger("saq").setLevel(logging.ERROR)
OPTIONS = {} if stopwatch.keeps_results() else {"ttl": -1}


async def handle(context, *, task):
    return stopwatch.record(task)


@asynccontextmanager
async def producer():
    queue = Queue.from_url(stopwatch.url(), name="bench")
    await queue.connect()

    async def send(task):
        await queue.enqueue("handle", task=task, **OPTIONS)

    async def ask(task):
        # It looks again and again. Job.refresh(until_complete) is woken, is no quicker, and misses
        # an end that comes between its look and its subscription.
        return await queue.apply(
            "handle",
            timeout=stopwatch.SAMPLE_TIMEOUT_S,
            poll_interval=stopwatch.LOOK_EVERY_S,
            task=task,
        )

    yield send, None, ask
    await queue.disconnect()


def work():
    async def run():
        queue = Queue.from_url(stopwatch.url(), name="bench")
        concurrency = int(stopwatch.setting())
        await Worker(queue, functions=[handle], concurrency=concurrency).start()

    uvloop.run(run())


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
