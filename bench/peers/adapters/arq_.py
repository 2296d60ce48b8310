"""arq: results not kept, polls every 10 ms, 100 jobs at once."""

# mypy: ignore-errors
from contextlib import asynccontextmanager

import stopwatch
import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

REDIS = RedisSettings(port=stopwatch.port())


async def handle(context, task):
    stopwatch.record(task)


@asynccontextmanager
async def producer():
    pool = await create_pool(REDIS)

    async def send(task):
        await pool.enqueue_job("handle", task)

    yield send, None
    await pool.aclose()


def work():
    async def run():
        functions = [func(handle, name="handle", keep_result=0)]
        worker = Worker(functions, redis_settings=REDIS, poll_delay=0.01, max_jobs=100)
        await worker.async_run()

    uvloop.run(run())


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
