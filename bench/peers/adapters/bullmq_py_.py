"""bullmq for Python: finished jobs kept or not; as many at once as the setting says."""

# mypy: ignore-errors
import asyncio
from contextlib import asynccontextmanager
from itertools import count

import stopwatch
import uvloop
from bullmq import Queue, QueueEvents, Worker

CONNECTION = {"host": "127.0.0.1", "port": stopwatch.port()}
OPTIONS = {"removeOnComplete": not stopwatch.keeps_results()}


async def handle(job, token):
    return stopwatch.record(job.data["task"])


@asynccontextmanager
async def producer():
    queue = Queue("bench", {"connection": CONNECTION})
    events, waiting, numbers = None, {}, count()

    async def send(task):
        await queue.add("handle", {"task": task}, OPTIONS)

    async def send_many(tasks):
        await queue.addBulk(
            [{"name": "handle", "data": {"task": task}, "opts": OPTIONS} for task in tasks]
        )

    async def listen():
        events = QueueEvents("bench", {"connection": CONNECTION})
        events.on("completed", lambda said, _: waiting[said["jobId"]].set_result(said))
        # It does not say when it listens.
        await asyncio.sleep(0.5)
        return events

    async def ask(task):
        nonlocal events
        events = events or await listen()
        # It has no waitUntilFinished; under an id of our own the end cannot come before we wait.
        job_id, ended = f"asked-{next(numbers)}", asyncio.get_running_loop().create_future()
        waiting[job_id] = ended
        await queue.add("handle", {"task": task}, OPTIONS | {"jobId": job_id})
        said = await asyncio.wait_for(ended, stopwatch.SAMPLE_TIMEOUT_S)
        return said["returnvalue"]

    yield send, send_many, ask
    if events is not None:
        await events.close()
    await queue.close()


def work():
    async def run():
        concurrency = int(stopwatch.setting())
        Worker("bench", handle, {"connection": CONNECTION, "concurrency": concurrency})
        await asyncio.Event().wait()

    uvloop.run(run())


if __name__ == "__main__":
    stopwatch.main_async(producer, work)
