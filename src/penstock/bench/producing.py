"""What it costs to enqueue tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bench.environment import make_tasks
from penstock.bench.sizes import BATCH_TASKS, Sizes

if TYPE_CHECKING:
    from penstock.bench.environment import Environment
    from penstock.bench.figures import Values


def enqueue_one_by_one(environment: Environment, sizes: Sizes) -> Values:
    tasks = make_tasks(sizes.singles)
    with environment.queue() as queue:
        queue.enqueue(b"the queue exists from now on")

        def enqueue() -> None:
            for task in tasks:
                queue.enqueue(task)

        return environment.measure(len(tasks), enqueue)._asdict()


def enqueue_hundreds(environment: Environment, sizes: Sizes) -> Values:
    """In calls of 100 tasks, to compare with pipelines of 100."""
    tasks = make_tasks(sizes.bulk)
    with environment.queue() as queue:

        def enqueue() -> None:
            for start in range(0, len(tasks), BATCH_TASKS):
                queue.enqueue_many(tasks[start : start + BATCH_TASKS])

        return environment.measure(len(tasks), enqueue)._asdict()


def enqueue_all_at_once(environment: Environment, sizes: Sizes) -> Values:
    tasks = make_tasks(sizes.bulk)
    with environment.queue() as queue:
        return environment.measure(len(tasks), lambda: queue.enqueue_many(tasks))._asdict()


def bytes_in_a_queue(environment: Environment, sizes: Sizes) -> Values:
    with environment.queue() as queue:
        queue.enqueue(b"the queue exists from now on")
        before = environment.data_bytes()
        queue.enqueue_many(make_tasks(sizes.stored))
        return {"bytes_per_task": (environment.data_bytes() - before) / sizes.stored}
