"""streaq: results kept for five minutes or not at all; as many at once as the setting says."""

# mypy: ignore-errors
import logging
from contextlib import asynccontextmanager

import stopwatch
from streaq import Worker

logging.getLogger("streaq").setLevel(logging.ERROR)
OPTIONS = {} if stopwatch.keeps_results() else {"ttl": 0}
worker = Worker(
    redis_url=stopwatch.url(),
    queue_name="bench",
    concurrency=int(stopwatch.setting()),
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(silent=True, name="handle", **OPTIONS)
async def handle(task):
    return stopwatch.record(task)


@asynccontextmanager
async def producer():
    async def send(task):
        await handle.enqueue(task)

    async def send_many(tasks):
        await worker.enqueue_many([handle.enqueue(task) for task in tasks])

    async def ask(task):
        sent = await handle.enqueue(task)
        return (await sent.result(stopwatch.SAMPLE_TIMEOUT_S)).result

    async with worker:
        yield send, send_many, ask


if __name__ == "__main__":
    stopwatch.main_async(producer, worker.run_sync)
