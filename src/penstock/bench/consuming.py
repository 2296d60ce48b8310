"""What a worker costs: busy with nothing to do per task, waiting for one, and idle."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.bench.environment import make_tasks
from penstock.bench.handlers import ASYNC, STAMPED, SYNC
from penstock.bench.latency import percentiles
from penstock.bench.processes import worker_process

if TYPE_CHECKING:
    from penstock.bench.environment import Environment
    from penstock.bench.figures import Values
    from penstock.bench.sizes import Sizes

_DRAIN_S = 300.0
_SETTLE_S = 1.5


def drain_sync(environment: Environment, sizes: Sizes) -> Values:
    return _drain(environment, SYNC, sizes.drained)


def drain_async(environment: Environment, sizes: Sizes) -> Values:
    return _drain(environment, ASYNC, sizes.drained)


def pick_up(environment: Environment, sizes: Sizes) -> Values:
    """From before an enqueue to the start of the handler, with a worker that was idle."""
    with worker_process(environment, STAMPED) as worker:
        return percentiles(worker.records, sizes.samples, environment.client.queue(STAMPED).enqueue)


def idle(environment: Environment, sizes: Sizes) -> Values:
    """What one worker with nothing to do sends and burns."""
    with worker_process(environment, SYNC) as worker:
        time.sleep(min(_SETTLE_S, sizes.idle_s))
        cpu_s, commands, began_at = worker.cpu_s(), environment.commands_sent(), time.monotonic()
        time.sleep(sizes.idle_s)
        cpu_after_s, commands_after = worker.cpu_s(), environment.commands_sent()
        seconds = time.monotonic() - began_at
    return {
        # One of them is our own question.
        "commands_per_s": (commands_after - commands - 1) / seconds,
        "worker_ms_per_s": _difference(cpu_after_s, cpu_s, 1e3 / seconds),
    }


def _drain(environment: Environment, name: str, tasks: int) -> Values:
    """The queue is filled while it is paused, and the worker is ready when it is resumed."""
    queue = environment.client.queue(name)
    queue.pause()
    before = queue.inspect().counters.finished
    queue.enqueue_many(make_tasks(tasks))
    with worker_process(environment, name) as worker:
        server_s, worker_s, began_at = (
            environment.server_cpu_s(),
            worker.cpu_s(),
            time.perf_counter(),
        )
        queue.resume()
        worker.wait_until(
            lambda: queue.inspect().counters.finished >= before + tasks,
            f"the worker did not run {tasks:,} tasks",
            _DRAIN_S,
        )
        seconds = time.perf_counter() - began_at
        worker_after_s, server_after_s = worker.cpu_s(), environment.server_cpu_s()
    scale = 1e6 / tasks
    return {
        "per_s": tasks / seconds,
        "worker_us": _difference(worker_after_s, worker_s, scale),
        "server_us": (server_after_s - server_s) * scale,
    }


def _difference(after: float | None, before: float | None, scale: float) -> float | None:
    return None if after is None or before is None else (after - before) * scale
