"""dramatiq: the middleware it ships with; processes x threads, such as `1x8`."""

# mypy: ignore-errors
import os
import sys

import dramatiq
import stopwatch
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=stopwatch.url()))


@dramatiq.actor(queue_name="bench", max_retries=0)
def handle(task):
    stopwatch.record(task)


def work():
    processes, threads = stopwatch.setting().split("x")
    # The module is imported again under its own name, as dramatiq's users do it.
    options = ["--processes", processes, "--threads", threads, "--skip-logging"]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "dramatiq_", *options])


if __name__ == "__main__":
    stopwatch.main(send=handle.send, send_many=None, work=work)
