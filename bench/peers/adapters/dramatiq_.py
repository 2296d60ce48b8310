"""dramatiq: the middleware it ships with; processes x threads, such as `1x8`."""

# mypy: ignore-errors
import os
import sys

import dramatiq
import stopwatch
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=stopwatch.url())
options = {}
if stopwatch.keeps_results():
    broker.add_middleware(Results(backend=RedisBackend(url=stopwatch.url())))
    options["store_results"] = True
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench", max_retries=0, **options)
def handle(task):
    return stopwatch.record(task)


def work():
    processes, threads = stopwatch.setting().split("x")
    # The module is imported again under its own name, as dramatiq's users do it.
    size = ["--processes", processes, "--threads", threads, "--skip-logging"]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "dramatiq_", *size])


def ask(task):
    return handle.send(task).get_result(block=True, timeout=stopwatch.SAMPLE_TIMEOUT_S * 1000)


if __name__ == "__main__":
    stopwatch.main(send=handle.send, send_many=None, work=work, ask=ask)
