"""arq: results kept an hour or not at all, polls every 10 ms, 100 jobs at once."""

# mypy: ignore-errors
from contextlib import asynccontextmanager

import stopwatch
import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

REDIS = RedisSettings(port=stopwatch.port())


async def handle(context, task):
    return stopwatch.record(task)


@asynccontextmanager
async def producer():
    pool = await create_pool(REDIS)

    async def send(task):
        await pool.enqueue_job("handle", task)

    async def ask(task):
        job = await pool.enqueue_job("handle", task)
        return await job.result(stopwatch.SAMPLE_TIMEOUT_S, poll_delay=stopwatch.LOOK_EVERY_S)

    yield send, None, ask
    await pool.aclose()


def work():
    async def run():
        kept_s = 3600 if stopwatch.keeps_results() else 0
        functions = [func(handle, name="handle", keep_result=kept_s)]
        worker = Worker(functions, redis_settings=REDIS, poll_delay=0.01, max_jobs=100)
        await worker.async_run()

    uvloop.run(run())


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
