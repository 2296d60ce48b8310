"""Workers of logs: the real worker but for its registration, its subscription and its threads."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import penstock
from penstock.coordination.positions import StoredPositions
from penstock.coordination.redis import RedisCoordinator
from penstock.executors.mixed import MixedExecutor
from penstock.model.workers import LEASE_MS, Lease
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.group_reading import GroupReading
from penstock.worker.log_counters import LogCounters
from penstock.worker.order import QueueOrder
from penstock.worker.renewal import Renewal
from penstock.worker.serving import Serving
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.executors.batch_context import BatchContext
    from penstock.model.logs import Message
    from penstock.worker.consumers import Consumer
    from tests.simulation.logs_process import Process
    from tests.simulation.logs_scheduler import LogScheduler

LOG = "clicks"
GROUPS = ("sessions", "totals")
"""one that is given batches and passes over gaps, one that is given single messages and does not"""
SETTLE_S = 1.0
_GRACE_S = 3.0


class LogHands:
    """A worker, and what it reads."""

    def __init__(self, scheduler: LogScheduler, process: Process, groups: tuple[str, ...]) -> None:
        client = process.client
        self.executor = MixedExecutor(scheduler.random.choice((1, 2, 4)), [], None)
        about: Any = client, None, self.executor, QueueOrder([], False, {}), Renewal(None, None)
        self.serving = Serving(*about)
        lease = Lease(LEASE_MS)
        lease.renewed(math.inf)  # the other simulations are about the leases of workers
        consumers = [_consumer(scheduler, process, group) for group in groups]
        self.readings = [
            GroupReading(
                self.serving,
                client,
                self._coordinator(process, consumer),
                consumer,
                process.name.replace(" ", "-"),
                lease,
                LogCounters(),
            )
            for consumer in consumers
        ]

    @property
    def is_paused(self) -> bool:
        return False

    def _coordinator(self, process: Process, consumer: Consumer) -> RedisCoordinator:
        store, keys = process.client.store, process.client.keys
        return RedisCoordinator(
            store,
            keys,
            lambda group: StoredPositions(store, keys, group, consumer.start),
            settle_s=SETTLE_S,
        )


async def work(scheduler: LogScheduler, process: Process) -> None:
    """As `Worker._live` does it: serve until it is to stop, let what runs end, leave."""
    groups = scheduler.groups
    if len(groups) > 1 and scheduler.random.random() < 0.3 and not scheduler.is_draining:
        groups = (scheduler.random.choice(groups),)
    hands = process.hands = LogHands(scheduler, process, groups)
    serving = hands.serving
    hands.executor.start(False, True)
    lives_until = scheduler.now_ms + scheduler.lifetime_ms()

    def is_to_stop() -> bool:
        is_old = scheduler.now_ms > lives_until and not scheduler.is_draining
        return scheduler.is_stopping or is_old

    beside = [reading.run() for reading in hands.readings]
    serving.tasks += [asyncio.create_task(it) for it in (*beside, serving.look())]
    serving.tasks.append(asyncio.create_task(_watch(is_to_stop, serving)))
    try:
        await serving.until(is_to_stop)
        serving.is_stopping = True
        await serving.stop_accepting()
        try:
            async with asyncio.timeout(_GRACE_S):
                await serving.until(lambda: serving.is_done)
        except TimeoutError:
            scheduler.happened("grace time is over")
        scheduler.happened("worker stopped")
    except penstock.StoreUnavailable:
        scheduler.happened("worker ended with an error")
    finally:
        await serving.end()
        await hands.executor.close()


async def _watch(is_to_stop: Callable[[], bool], serving: Serving) -> None:
    while not is_to_stop():  # noqa: ASYNC110 - the virtual clock, and the scheduler's wish
        await asyncio.sleep(0.5)
    serving.changed()
    await asyncio.Event().wait()


def _consumer(scheduler: LogScheduler, process: Process, group: str) -> Consumer:
    async def handle(given: Message | list[Message], context: BatchContext) -> None:
        messages = given if isinstance(given, list) else [given]
        if process.is_dead:
            return
        end = scheduler.history.began(process, group, context, messages)
        is_bad = any(message.body.startswith(b"poison") for message in messages)
        if is_bad:
            scheduler.tempt(process)
        await asyncio.sleep(scheduler.run_ms(is_bad) / 1000)
        if process.is_dead:
            return
        if is_bad or scheduler.fails():
            end(0)
            raise ValueError("no")
        end(len(messages))

    is_first = group == GROUPS[0]
    mark = penstock.consumer(
        LOG,
        group,
        batch=scheduler.batch if is_first else None,
        attempts=2,
        backoff=0.2,
        on_gap="skip" if is_first else "stop",
        commit=scheduler.commit,
        weight=scheduler.random.choice((1, 1, 2)),
    )
    mark(handle)
    marked: tuple[Consumer, ...] = getattr(handle, CONSUMER_MARK)
    return marked[0]


def check_process(process: Process) -> None:
    """A process whose main task has failed has met an error that the simulation did not make."""
    main = process.main
    if main.done() and not main.cancelled() and main.exception() is not None:
        error = main.exception()
        raise Violated(f"{process.name} failed: {error!r}") from error
