"""The systems that are measured with tasks, each with settings chosen beforehand, not searched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Jobs:
    """How many jobs a step gets, so that it takes one to four seconds on a small machine."""

    one_by_one: int
    bulk: int
    drain: int


@dataclass(frozen=True)
class System:
    """One peer with one setting of its worker."""

    name: str
    peer: str
    adapter: str
    setting: str
    jobs: Jobs
    said: str
    # The second setting of a peer shares the producer of the first.
    has_own_producer: bool = True
    is_default: bool = True
    # A job that waits can be looked up by its id; it is more than a message in a list.
    keeps_record: bool = False
    # Fewer where one round trip takes a tenth of a second.
    most_samples: int = 1_000

    @property
    def is_node(self) -> bool:
        return self.adapter.endswith(".mjs")


SYSTEMS = (
    System(
        "penstock",
        "penstock",
        "penstock_.py",
        "1",
        Jobs(12_000, 400_000, 350_000),
        "plain queue of bytes, worker run -c 1",
    ),
    System(
        "penstock-50",
        "penstock",
        "penstock_.py",
        "50",
        Jobs(12_000, 400_000, 350_000),
        "plain queue of bytes, worker run -c 50",
        has_own_producer=False,
        is_default=False,
    ),
    System(
        "rq-simple",
        "rq",
        "rq_.py",
        "",
        Jobs(2_000, 8_000, 400),
        "SimpleWorker, result_ttl=0",
    ),
    System(
        "celery-solo",
        "celery",
        "celery_.py",
        "solo",
        Jobs(1_500, 1_500, 2_000),
        "no results, acks_late, prefetch 16, no gossip/mingle/heartbeat, pool solo",
    ),
    System(
        "celery-threads",
        "celery",
        "celery_.py",
        "threads",
        Jobs(1_500, 1_500, 2_000),
        "no results, acks_late, prefetch 16, no gossip/mingle/heartbeat, 8 threads",
        has_own_producer=False,
    ),
    System(
        "dramatiq-1x8",
        "dramatiq",
        "dramatiq_.py",
        "1x8",
        Jobs(5_000, 5_000, 5_000),
        "default middleware, 1 process of 8 threads",
    ),
    System(
        "dramatiq-2x8",
        "dramatiq",
        "dramatiq_.py",
        "2x8",
        Jobs(5_000, 5_000, 9_000),
        "default middleware, 2 processes of 8 threads",
        has_own_producer=False,
    ),
    System(
        "huey-1t",
        "huey",
        "huey_.py",
        "1",
        Jobs(8_000, 8_000, 6_000),
        "no results, no periodic tasks, 1 thread",
    ),
    System(
        "huey-8t",
        "huey",
        "huey_.py",
        "8",
        Jobs(8_000, 8_000, 6_000),
        "no results, no periodic tasks, 8 threads",
        has_own_producer=False,
    ),
    System(
        "arq-tuned",
        "arq",
        "arq_.py",
        "",
        Jobs(2_500, 6_000, 4_000),
        "keep_result=0, poll_delay=0.01, max_jobs=100, uvloop",
    ),
    System(
        "saq-10",
        "saq",
        "saq_.py",
        "10",
        Jobs(4_000, 8_000, 4_500),
        "ttl=-1, concurrency 10, uvloop",
        is_default=False,
    ),
    System(
        "saq-100",
        "saq",
        "saq_.py",
        "100",
        Jobs(4_000, 8_000, 4_500),
        "ttl=-1, concurrency 100, uvloop",
    ),
    System(
        "streaq-16",
        "streaq",
        "streaq_.py",
        "16",
        Jobs(3_000, 8_000, 2_400),
        "ttl=0, silent, concurrency 16, uvloop",
        is_default=False,
    ),
    System(
        "streaq-100",
        "streaq",
        "streaq_.py",
        "100",
        Jobs(3_000, 8_000, 2_400),
        "ttl=0, silent, concurrency 100, uvloop",
    ),
    System(
        "taskiq-list",
        "taskiq",
        "taskiq_.py",
        "list",
        Jobs(3_000, 4_000, 4_500),
        "ListQueueBroker, no results, 1 process, 100 at once, uvloop",
    ),
    System(
        "taskiq-stream",
        "taskiq",
        "taskiq_.py",
        "stream",
        Jobs(3_000, 4_000, 6_000),
        "RedisStreamBroker, no results, 1 process, 100 at once, uvloop",
    ),
    System(
        "bullmq-50",
        "bullmq",
        "bullmq_.mjs",
        "50",
        Jobs(5_000, 16_000, 24_000),
        "Node, removeOnComplete, concurrency 50",
    ),
    System(
        "bee-50",
        "bee-queue",
        "bee_queue_.mjs",
        "50",
        Jobs(8_000, 50_000, 40_000),
        "Node, removeOnSuccess, no events, storeJobs off, concurrency 50",
    ),
)
