"""penstock: a plain queue of bytes, run by `penstock worker run` with one slot per setting."""

# mypy: ignore-errors
import os
import sys

import stopwatch

import penstock

NAMESPACE = "bench"


@penstock.handler("bench")
def handle(task, context):
    stopwatch.record(task.decode())


def work():
    main = "from penstock.cli import main; main()"
    where = ["--url", stopwatch.url(), "--namespace", NAMESPACE]
    what = ["worker", "run", "penstock_", "-q", "bench", "-c", stopwatch.setting() or "1"]
    what += ["--log-level", "warning"]
    os.execv(sys.executable, [sys.executable, "-c", main, *what, *where])


def main():
    queue = penstock.connect(stopwatch.url(), namespace=NAMESPACE).queue("bench")
    stopwatch.main(
        send=lambda task: queue.enqueue(task.encode()),
        send_many=lambda tasks: queue.enqueue_many([task.encode() for task in tasks]),
        work=work,
    )


if __name__ == "__main__":
    main()
