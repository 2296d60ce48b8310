"""Jobs with retries and results: send, work, look. Runs by itself, without a worker elsewhere."""

import asyncio

import penstock


@penstock.job(queue="examples", attempts=3, backoff=0.05)
def flaky(number: int) -> int:
    """Fails at first, as the world does."""
    if penstock.current().attempt == 1:
        raise ConnectionError("the other side hung up")
    return number * number


async def main() -> None:
    async with await penstock.aconnect() as ps:
        worker = penstock.Worker(ps.settings, [flaky], concurrency=4)
        working = asyncio.create_task(worker.run())
        jobs = await flaky.on(ps).send_many([(number,) for number in range(5)])
        print([await job.result(timeout=10) for job in jobs])
        print(await ps.jobs("examples").counts())
        print((await jobs[0].attempts())[0].error)
        worker.stop()
        await working


if __name__ == "__main__":
    asyncio.run(main())
