"""Who takes part: producers, writers, workers and operators. All of them use the real client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.recovery import afail_worker
from penstock.errors import LeaseLost, NotWorking, QueueFull, StoreUnavailable
from penstock.store.commands import processes, workers
from tests.simulation.batch_writers import BatchWriter, StagedChunk, move_everything
from tests.simulation.engine import HEARTBEAT_MS, LEASE_MS
from tests.simulation.programs import Sleep
from tests.simulation.server import QUEUES, Violated

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.client.session import AsyncProcess, AsyncWorkerSession
    from tests.simulation.engine import Engine
    from tests.simulation.programs import Program
    from tests.simulation.scheduler import Scheduler

_SWEEP = 10


async def produce(scheduler: Scheduler, program: Program) -> None:
    """Adds tasks one by one, in bulk, and under unique keys."""
    random = scheduler.random
    for _ in range(random.randint(3, 8)):
        if scheduler.is_draining:
            return
        queue = program.client.queue(random.choice(QUEUES))
        batch = scheduler.new_tasks(random.choice((1, 1, 1, 2, 3)))
        try:
            if random.random() < 0.35:
                key = random.choice(("red", "green", "blue"))
                answer = await queue.enqueue_unique(batch[0], key)
                if answer.is_new:
                    scheduler.history.accepted(batch[:1])
                else:
                    scheduler.history.rejected(batch[:1])
                    scheduler.happened("unique duplicate refused")
            elif len(batch) == 1:
                await queue.enqueue(batch[0])
                scheduler.history.accepted(batch)
            else:
                await queue.enqueue_many(batch)
                scheduler.history.accepted(batch)
        except QueueFull:
            scheduler.history.rejected(batch)
            scheduler.happened("queue full")
        except StoreUnavailable:
            scheduler.happened("producer gave up")
        await Sleep(random.expovariate(1 / 600))


async def write(scheduler: Scheduler, program: Program) -> None:
    """Writes a batch of tasks."""
    random = scheduler.random
    partitions = [
        [_new_chunk(scheduler) for _ in range(random.choice((1, 1, 2, 3)))]
        for _ in range(random.choice((1, 1, 2)))
    ]
    writer = BatchWriter(scheduler, program, "tasks", scheduler.new_batch())
    try:
        await writer.write(partitions)
    except StoreUnavailable:
        scheduler.happened("writer gave up")


def _new_chunk(scheduler: Scheduler) -> StagedChunk:
    tasks = scheduler.new_tasks(scheduler.random.choice((1, 2, 3, 5)))
    return StagedChunk(tasks, tasks)


class Hands:
    """What a worker believes that it holds."""

    def __init__(self, session: AsyncWorkerSession) -> None:
        self.session = session
        self.held: dict[tuple[str, int], AsyncProcess] = {}

    def pause(self, is_paused: bool) -> None:
        """Nobody pauses workers here."""

    def take(self, started: list[AsyncProcess]) -> None:
        self.held.update(((process.queue, process.id), process) for process in started)

    def drop(self, process: AsyncProcess) -> None:
        self.held.pop((process.queue, process.id), None)

    def of(self, queue: str) -> list[AsyncProcess]:
        return [process for process in self.held.values() if process.queue == queue]


async def work(scheduler: Scheduler, program: Program) -> None:
    """Registers, serves queues, and starts again under a new name whenever it was given up."""
    while not scheduler.is_stopping:
        session = scheduler.new_session(program)
        hands = Hands(session)
        program.hands = hands
        try:
            await session.start()
            program.spawn(beat(scheduler, program, session), "heartbeat")
            if program.kind == "worker":
                names = QUEUES if scheduler.random.random() < 0.6 else QUEUES[:1]
                if scheduler.is_draining:
                    names = QUEUES
                for queue in names:
                    await session.start_work(queue)
            while not scheduler.is_stopping:
                await _act(scheduler, program, session, hands)
                await Sleep(scheduler.random.expovariate(1 / scheduler.pace_ms(bool(hands.held))))
            await _stop(session)
            return
        except LeaseLost:
            scheduler.happened("worker found out that it was given up")
        except NotWorking:
            scheduler.happened("worker was taken off a queue")


async def _stop(session: AsyncWorkerSession) -> None:
    """`AsyncWorkerSession.stop` without its first line, which waits for threads."""
    for queue in sorted(session._queues):
        await session.stop_work(queue)
    await session._client.fail_worker(session.id)


async def _act(
    scheduler: Scheduler, program: Program, session: AsyncWorkerSession, hands: Hands
) -> None:
    random = scheduler.random
    if not session._queues:
        return
    queue = random.choice(sorted(session._queues))
    held = hands.of(queue)
    if not held:
        if random.random() < 0.5:
            hands.take(await session.start_tasks(queue, random.randint(1, 3)))
        else:
            await _start_and_wait(scheduler, program, session, hands, queue)
        return
    process = random.choice(held)
    choice = random.random()
    if process.task.startswith(b"poison"):
        choice = 0.97
    if scheduler.is_draining and choice < 0.9:
        choice = 0.1
    try:
        if choice < 0.45:
            await _finish(scheduler, process, hands)
        elif choice < 0.7:
            batch = held[: random.randint(1, len(held))]
            await _finish_many(scheduler, session, queue, batch, hands)
        elif choice < 0.9:
            await process.stop("front" if random.random() < 0.7 else "back")
            hands.drop(process)
        elif choice < 0.94:
            await session.stop_work(queue)
            for mine in held:
                hands.drop(mine)
            await session.start_work(queue)
            scheduler.happened("work stopped and started again")
        else:
            await _hold_back(scheduler, program, session, process)
            is_dead = await process.fail()
            hands.drop(process)
            if is_dead:
                scheduler.happened("poison went to the dead list")
    except LeaseLost:
        hands.drop(process)
        scheduler.happened("stale process refused")


async def _hold_back(
    scheduler: Scheduler, program: Program, session: AsyncWorkerSession, process: AsyncProcess
) -> None:
    """As `penstock worker` does it: a failed task is held for a while, unless it dies now."""
    keys = program.client.keys.queue(process.queue)
    past = await program.client.store.run(processes.read_failures(keys, session.id, [process.id]))
    if past.counts[0] + 1 < past.most and scheduler.random.random() < 0.3:
        await Sleep(scheduler.random.expovariate(1 / 200))
        scheduler.happened("failed task held back")


async def _start_and_wait(
    scheduler: Scheduler, program: Program, session: AsyncWorkerSession, hands: Hands, queue: str
) -> None:
    """As `penstock worker` does it: asks to be woken if there is nothing."""
    limit = scheduler.random.randint(1, 3)
    claim = await program.client.store.run_once(
        lambda operation: processes.start_tasks(
            program.client.keys.queue(queue), operation, session.id, limit, wait=True
        )
    )
    hands.take(session._processes(queue, claim))


async def _finish(scheduler: Scheduler, process: AsyncProcess, hands: Hands) -> None:
    try:
        await process.finish(b"done")
    except LeaseLost:
        scheduler.history.finish_told(process.queue, process.id, is_accepted=False)
        scheduler.happened("stale finish refused")
        raise
    hands.drop(process)
    scheduler.history.finish_told(process.queue, process.id, is_accepted=True)


async def _finish_many(
    scheduler: Scheduler,
    session: AsyncWorkerSession,
    queue: str,
    batch: list[AsyncProcess],
    hands: Hands,
) -> None:
    limit = scheduler.random.randint(0, 3)
    claim = await session._store.run_once(
        lambda operation: processes.finish_tasks(
            session._keys.queue(queue), operation, session.id, [p.id for p in batch], limit=limit
        )
    )
    for process in batch:
        hands.drop(process)
        is_accepted = process.id not in claim.refused
        scheduler.history.finish_told(queue, process.id, is_accepted)
        if not is_accepted:
            scheduler.happened("stale finish refused")
    hands.take(session._processes(queue, claim))


async def beat(scheduler: Engine, program: Program, session: AsyncWorkerSession) -> None:
    """`client/heartbeat.py`: renews the lease, and has dead peers recovered by a second routine."""
    keys = program.client.keys
    client = scheduler.new_client()
    while program.hands is not None and program.hands.session is session:
        await Sleep(HEARTBEAT_MS)
        try:
            peers = await client.store.run(
                workers.keep_worker_alive(keys, session.id, LEASE_MS, _SWEEP)
            )
        except LeaseLost:
            session.lease.lose()
            scheduler.happened("lease stolen")
            return
        except StoreUnavailable:
            continue
        if program.hands is not None:
            program.hands.pause(peers.is_paused)
        if peers:
            program.spawn(recover(scheduler, peers), "recovery")


async def recover(scheduler: Engine, peers: list[str]) -> None:
    client = scheduler.new_client()
    for peer in peers:
        try:
            await afail_worker(client.store, client.keys, peer, scheduler.deaths.get(peer, ""))
            scheduler.happened("worker recovered")
        except StoreUnavailable:
            continue


async def operate(scheduler: Scheduler, program: Program) -> None:
    """Somebody at a keyboard."""
    random = scheduler.random
    for _ in range(random.randint(2, 6)):
        await Sleep(random.expovariate(1 / 900))
        if scheduler.is_draining:
            return
        queue = program.client.queue(random.choice(QUEUES))
        try:
            await random.choice(_OPERATIONS)(scheduler, program, queue)
        except StoreUnavailable:
            continue


async def _pause(scheduler: Scheduler, program: Program, queue: Any) -> None:
    await queue.pause()
    await Sleep(scheduler.random.expovariate(1 / 800))
    await queue.resume()


async def _cancel(scheduler: Scheduler, program: Program, queue: Any) -> None:
    known = sorted(scheduler.history.present)
    if known and await queue.cancel(scheduler.random.choice(known)):
        scheduler.happened("task cancelled")


async def _delete(scheduler: Scheduler, program: Program, queue: Any) -> None:
    deleted = await queue.delete()
    scheduler.happened("queue deleted" if not deleted.running else "queue emptied")


async def _configure(scheduler: Scheduler, program: Program, queue: Any) -> None:
    max_length = scheduler.random.choice((1, 2, 3, 5, None))
    await queue.configure(max_length=max_length, max_failures=scheduler.max_failures)


async def _fail(scheduler: Scheduler, program: Program, queue: Any) -> None:
    names = sorted(scheduler.snapshot.leases)
    if names:
        await program.client.fail_worker(scheduler.random.choice(names))
        scheduler.happened("operator failed a worker")


async def _retry(scheduler: Scheduler, program: Program, queue: Any) -> None:
    for name in QUEUES:
        if await program.client.queue(name).retry_dead():
            scheduler.happened("dead tasks retried")


_OPERATIONS = (_pause, _cancel, _cancel, _delete, _configure, _fail, _retry, _retry)


async def heal(scheduler: Scheduler, program: Program) -> None:
    """What somebody does when everything is over: nothing stays paused, full or on its way."""
    for name in QUEUES:
        queue = program.client.queue(name)
        await queue.resume()
        await queue.configure(max_length=None, max_failures=scheduler.max_failures)
    await move_everything(scheduler, program, "tasks")


ROUTINES = {
    "producer": produce,
    "writer": write,
    "worker": work,
    "sweeper": work,
    "operator": operate,
    "healer": heal,
}


def routine(scheduler: Scheduler, program: Program) -> Coroutine[Any, Any, None]:
    return ROUTINES[program.kind](scheduler, program)


def check_hands(hands: Hands, snapshot: Any) -> None:
    """A living worker holds nothing that it does not know of, or nobody would ever finish it."""
    for name, queue in snapshot.queues.items():
        for process in queue.running.get(hands.session.id, ()):
            if (name, process) not in hands.held:
                raise Violated(
                    f"worker {hands.session.id!r} holds process {process} of {name} and was never "
                    "told so"
                )
