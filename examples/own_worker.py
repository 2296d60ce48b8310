"""Drive a worker yourself, on an event loop: the operations one by one."""

from __future__ import annotations

import asyncio

import penstock


async def main() -> None:
    async with await penstock.aconnect() as ps:
        queue = ps.queue("letters")
        await queue.enqueue_many([b"first", b"second", b"third"])

        async with ps.worker("postman") as worker:
            await worker.start_work("letters")
            process = await worker.start_task("letters")
            assert process is not None
            await process.stop()  # back to the front, at no cost

            for process in await worker.start_tasks("letters", limit=10):
                print(process.id, process.task)
                await process.finish(b"delivered")

        print(await queue.inspect())


if __name__ == "__main__":
    asyncio.run(main())
