"""The systems that are measured with jobs: each keeps what its jobs returned, at its best."""

from __future__ import annotations

from bench.peers.systems import Jobs, System


def _jobs(bulk: int, drain: int) -> Jobs:
    return Jobs(one_by_one=0, bulk=bulk, drain=drain)


JOB_SYSTEMS = (
    System(
        "penstock-jobs",
        "penstock",
        "penstock_jobs.py",
        "1",
        _jobs(60_000, 60_000),
        "queue of jobs, worker run -c 1",
        keeps_record=True,
    ),
    System(
        "penstock-jobs-50",
        "penstock",
        "penstock_jobs.py",
        "50",
        _jobs(60_000, 60_000),
        "queue of jobs, worker run -c 50",
        has_own_producer=False,
        is_default=False,
        keeps_record=True,
    ),
    System(
        "rq-simple",
        "rq",
        "rq_.py",
        "",
        _jobs(6_000, 300),
        "SimpleWorker, result_ttl=500; waits by XREAD",
        keeps_record=True,
    ),
    System(
        "celery-solo",
        "celery",
        "celery_.py",
        "solo",
        _jobs(1_500, 1_200),
        "Redis result backend, acks_late, prefetch 16, no gossip/mingle/heartbeat, pool solo; "
        "waits by pub/sub",
    ),
    System(
        "celery-threads",
        "celery",
        "celery_.py",
        "threads",
        _jobs(1_500, 1_000),
        "Redis result backend, acks_late, prefetch 16, no gossip/mingle/heartbeat, 8 threads; "
        "waits by pub/sub",
        has_own_producer=False,
        is_default=False,
    ),
    System(
        "dramatiq-1x8",
        "dramatiq",
        "dramatiq_.py",
        "1x8",
        _jobs(5_000, 3_000),
        "default middleware and Results in Redis, 1 process of 8 threads; waits by BRPOPLPUSH",
        # The message is a field of a hash under its id, though nothing of dramatiq looks it up.
        keeps_record=True,
        is_default=False,
    ),
    System(
        "dramatiq-2x8",
        "dramatiq",
        "dramatiq_.py",
        "2x8",
        _jobs(5_000, 5_000),
        "default middleware and Results in Redis, 2 processes of 8 threads; waits by BRPOPLPUSH",
        keeps_record=True,
    ),
    System(
        "huey-8t",
        "huey",
        "huey_.py",
        "8",
        _jobs(8_000, 4_000),
        "results on, no periodic tasks, 8 threads; waits by looking after 50 ms and ever later",
        most_samples=60,
    ),
    System(
        "huey-8t-notify",
        "huey",
        "huey_.py",
        "8-notify",
        _jobs(8_000, 3_000),
        "results on with notify_result, no periodic tasks, 8 threads; waits by BLPOP",
        has_own_producer=False,
    ),
    System(
        "arq-tuned",
        "arq",
        "arq_.py",
        "",
        _jobs(6_000, 3_000),
        "keep_result=3600, poll_delay=0.01, max_jobs=100, uvloop; waits by looking every 0.5 ms",
        keeps_record=True,
    ),
    System(
        "saq-100",
        "saq",
        "saq_.py",
        "100",
        _jobs(8_000, 4_000),
        "ttl=600, concurrency 100, uvloop; waits by looking every 0.5 ms",
        keeps_record=True,
    ),
    System(
        "streaq-100",
        "streaq",
        "streaq_.py",
        "100",
        _jobs(8_000, 2_000),
        "ttl=300, silent, concurrency 100, uvloop; waits by pub/sub, and its client spends 0.1 s "
        "on every unsubscription",
        keeps_record=True,
        most_samples=60,
    ),
    System(
        "taskiq-list",
        "taskiq",
        "taskiq_.py",
        "list",
        _jobs(4_000, 3_000),
        "ListQueueBroker, Redis result backend, 1 process, 100 at once, uvloop; "
        "waits by looking every 0.5 ms",
    ),
    System(
        "taskiq-stream",
        "taskiq",
        "taskiq_.py",
        "stream",
        _jobs(4_000, 3_000),
        "RedisStreamBroker, Redis result backend, 1 process, 100 at once, uvloop; "
        "waits by looking every 0.5 ms",
    ),
    System(
        "bullmq-py-50",
        "bullmq-py",
        "bullmq_py_.py",
        "50",
        _jobs(12_000, 2_500),
        "Python, finished jobs kept, concurrency 50, uvloop; waits by QueueEvents",
        keeps_record=True,
    ),
    System(
        "bullmq-50",
        "bullmq",
        "bullmq_.mjs",
        "50",
        _jobs(16_000, 16_000),
        "Node, finished jobs kept, concurrency 50; waits by QueueEvents",
        keeps_record=True,
    ),
    System(
        "bullmq-100",
        "bullmq",
        "bullmq_.mjs",
        "100",
        _jobs(16_000, 16_000),
        "Node, finished jobs kept, concurrency 100; waits by QueueEvents",
        has_own_producer=False,
        keeps_record=True,
    ),
    System(
        "bee-50",
        "bee-queue",
        "bee_queue_.mjs",
        "50",
        _jobs(50_000, 24_000),
        "Node, finished jobs kept, events sent, storeJobs off, concurrency 50; the result is in "
        "the event and nowhere else; waits by pub/sub",
        keeps_record=True,
    ),
    System(
        "kue-50",
        "kue",
        "kue_.mjs",
        "50",
        _jobs(6_000, 5_000),
        "Node, finished jobs kept, concurrency 50; waits by pub/sub",
        keeps_record=True,
    ),
)
