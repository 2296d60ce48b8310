"""streaq: results not kept, silent; as many tasks at once as the setting says."""

# mypy: ignore-errors
import logging
from contextlib import asynccontextmanager

import stopwatch
from streaq import Worker

logging.getLogger("streaq").setLevel(logging.ERROR)
worker = Worker(
    redis_url=stopwatch.url(),
    queue_name="bench",
    concurrency=int(stopwatch.setting()),
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(ttl=0, silent=True, name="handle")
async def handle(task):
    stopwatch.record(task)


@asynccontextmanager
async def producer():
    async def send(task):
        await handle.enqueue(task)

    async def send_many(tasks):
        await worker.enqueue_many([handle.enqueue(task) for task in tasks])

    async with worker:
        yield send, send_many


if __name__ == "__main__":
    stopwatch.main_async(producer, worker.run_sync)
