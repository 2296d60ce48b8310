"""penstock: jobs with a record and a result, run by `penstock worker run`, slots by the setting."""

# mypy: ignore-errors
import os
import sys

import stopwatch

import penstock

NAMESPACE = "bench"


@penstock.job(queue="bench", type="noop")
def noop(task):
    return stopwatch.record(task)


def work():
    main = "from penstock.cli import main; main()"
    where = ["--url", stopwatch.url(), "--namespace", NAMESPACE]
    what = ["worker", "run", "penstock_jobs", "-q", "bench", "-c", stopwatch.setting() or "1"]
    what += ["--log-level", "warning"]
    os.execv(sys.executable, [sys.executable, "-c", main, *what, *where])


def main():
    jobs = penstock.connect(stopwatch.url(), namespace=NAMESPACE).jobs("bench")

    def send(task):
        return jobs.add("noop", {"task": task})

    stopwatch.main(
        send=send,
        send_many=lambda tasks: jobs.add_many("noop", [{"task": task} for task in tasks]),
        work=work,
        ask=lambda task: send(task).result(timeout=stopwatch.SAMPLE_TIMEOUT_S),
    )


if __name__ == "__main__":
    main()
