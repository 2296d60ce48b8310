"""huey: no results, no periodic tasks, threads in one process."""

# mypy: ignore-errors
import logging

import stopwatch
from huey import RedisHuey

logging.getLogger("huey").setLevel(logging.ERROR)
huey = RedisHuey("bench", url=stopwatch.url(), results=False)


@huey.task(name="handle")
def handle(task):
    stopwatch.record(task)


def work():
    threads = int(stopwatch.setting())
    huey.create_consumer(workers=threads, worker_type="thread", periodic=False).run()


if __name__ == "__main__":
    stopwatch.main(send=handle, send_many=None, work=work)
