"""celery: no results, late acknowledgement, no gossip, mingle or heartbeat; `solo` or `threads`."""

# mypy: ignore-errors
import stopwatch
from celery import Celery

app = Celery("bench", broker=stopwatch.url())
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue="bench",
    worker_prefetch_multiplier=16,
    worker_hijack_root_logger=False,
)


@app.task(name="bench.handle")
def handle(task):
    stopwatch.record(task)


def work():
    pool = {
        "solo": ["--pool=solo", "--concurrency=1"],
        "threads": ["--pool=threads", "--concurrency=8"],
    }[stopwatch.setting()]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["worker", *pool, *quiet])


if __name__ == "__main__":
    stopwatch.main(send=handle.delay, send_many=None, work=work)
