"""huey: no periodic tasks, threads in one process; `8-notify` wakes who waits for a result."""

# mypy: ignore-errors
import logging

import stopwatch
from huey import RedisHuey

logging.getLogger("huey").setLevel(logging.ERROR)
threads, _, notify = stopwatch.setting().partition("-")
options = {"results": stopwatch.keeps_results()}
if notify:
    options["notify_result"] = True
huey = RedisHuey("bench", url=stopwatch.url(), **options)


@huey.task(name="handle")
def handle(task):
    return stopwatch.record(task)


def work():
    huey.create_consumer(workers=int(threads), worker_type="thread", periodic=False).run()


def ask(task):
    return handle(task).get(blocking=True, timeout=stopwatch.SAMPLE_TIMEOUT_S)


if __name__ == "__main__":
    stopwatch.main(send=handle, send_many=None, work=work, ask=ask)
