"""Whether one task costs more when many wait, or when it is large."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from penstock.bench.environment import make_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.bench.environment import Environment
    from penstock.bench.figures import Values
    from penstock.bench.sizes import Sizes
    from penstock.client.queue import Queue
    from penstock.client.session import WorkerSession

_PAYLOAD_TOTAL = 20 * 1024 * 1024


def cost_by_backlog(
    environment: Environment, sizes: Sizes, rounds: int, advance: Callable[[], None]
) -> dict[str, Values]:
    """One queue that is filled further and further; what is added to measure is taken out again."""
    found: dict[str, Values] = {}
    with environment.queue() as queue, environment.client.worker("bench") as worker:
        worker.start_work(queue.name)
        for backlog in sizes.backlogs:
            missing = backlog - queue.count()
            queue.enqueue_many(make_tasks(missing) if missing > 0 else ())
            found[str(backlog)] = _cost(environment, queue, worker, make_tasks(sizes.steps), rounds)
            advance()
    return found


def cost_by_payload(
    environment: Environment, sizes: Sizes, rounds: int, advance: Callable[[], None]
) -> dict[str, Values]:
    found: dict[str, Values] = {}
    with environment.queue() as queue, environment.client.worker("bench") as worker:
        worker.start_work(queue.name)
        for size in sizes.payloads:
            tasks = make_tasks(max(10, min(sizes.steps, _PAYLOAD_TOTAL // size)), size)
            found[str(size)] = _cost(environment, queue, worker, tasks, rounds)
            advance()
    return found


def _cost(
    environment: Environment, queue: Queue, worker: WorkerSession, tasks: list[bytes], rounds: int
) -> Values:
    """Microseconds per task, one task at a time: enqueue; then start and finish, two trips."""

    def enqueue() -> None:
        for task in tasks:
            queue.enqueue(task)

    def start_and_finish() -> None:
        for _ in tasks:
            process = worker.start_task(queue.name)
            assert process is not None
            process.finish()

    into = [
        (
            environment.measure(len(tasks), enqueue),
            environment.measure(len(tasks), start_and_finish),
        )
        for _ in range(rounds)
    ]
    return {
        "enqueue_us": median(1e6 / put.per_s for put, _ in into),
        "enqueue_server_us": median(put.server_us for put, _ in into),
        "start_finish_us": median(1e6 / taken.per_s for _, taken in into),
        "start_finish_server_us": median(taken.server_us for _, taken in into),
    }
