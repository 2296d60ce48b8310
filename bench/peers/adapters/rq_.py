"""rq: SimpleWorker (no fork per job), results kept for 500 s or not at all."""

# mypy: ignore-errors
import logging

import redis
import stopwatch
from rq import Queue, SimpleWorker

OPTIONS = {"result_ttl": 500 if stopwatch.keeps_results() else 0}


def handle(task):
    return stopwatch.record(task)


def queue():
    return Queue("bench", connection=redis.Redis(port=stopwatch.port()))


def work():
    bench = queue()
    SimpleWorker([bench], connection=bench.connection).work(logging_level=logging.WARNING)


def main():
    bench = queue()

    def send(task):
        return bench.enqueue_call("rq_.handle", (task,), **OPTIONS)

    def ask(task):
        return send(task).latest_result(timeout=stopwatch.SAMPLE_TIMEOUT_S).return_value

    stopwatch.main(
        send=send,
        send_many=lambda tasks: bench.enqueue_many(
            [Queue.prepare_data("rq_.handle", (task,), **OPTIONS) for task in tasks]
        ),
        work=work,
        ask=ask,
    )


if __name__ == "__main__":
    main()
