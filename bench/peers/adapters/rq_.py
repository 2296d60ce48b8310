"""rq: SimpleWorker (no fork per job), results not kept."""

# mypy: ignore-errors
import logging

import redis
import stopwatch
from rq import Queue, SimpleWorker

OPTIONS = {"result_ttl": 0}


def handle(task):
    stopwatch.record(task)


def queue():
    return Queue("bench", connection=redis.Redis(port=stopwatch.port()))


def work():
    bench = queue()
    SimpleWorker([bench], connection=bench.connection).work(logging_level=logging.WARNING)


def main():
    bench = queue()
    stopwatch.main(
        send=lambda task: bench.enqueue_call("rq_.handle", (task,), **OPTIONS),
        send_many=lambda tasks: bench.enqueue_many(
            [Queue.prepare_data("rq_.handle", (task,), **OPTIONS) for task in tasks]
        ),
        work=work,
    )


if __name__ == "__main__":
    main()
