"""celery: late acknowledgement, no gossip, mingle or heartbeat; `solo` or `threads`."""

# mypy: ignore-errors
import stopwatch
from celery import Celery

KEEPS = stopwatch.keeps_results()

app = Celery("bench", broker=stopwatch.url(), backend=stopwatch.url() if KEEPS else None)
app.conf.update(
    task_ignore_result=not KEEPS,
    task_acks_late=True,
    task_default_queue="bench",
    worker_prefetch_multiplier=16,
    worker_hijack_root_logger=False,
)


@app.task(name="bench.handle")
def handle(task):
    return stopwatch.record(task)


def work():
    pool = {
        "solo": ["--pool=solo", "--concurrency=1"],
        "threads": ["--pool=threads", "--concurrency=8"],
    }[stopwatch.setting()]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["worker", *pool, *quiet])


def ask(task):
    return handle.delay(task).get(timeout=stopwatch.SAMPLE_TIMEOUT_S)


if __name__ == "__main__":
    stopwatch.main(send=handle.delay, send_many=None, work=work, ask=ask)
