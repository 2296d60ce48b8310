"""Workers of jobs, from one registration to the next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.errors import LeaseLost
from tests.simulation.clients import beat
from tests.simulation.jobs_pump import TYPES, SimulatedPump
from tests.simulation.programs import Sleep
from tests.simulation.server import QUEUES, Violated

if TYPE_CHECKING:
    from penstock.client.session import AsyncWorkerSession
    from tests.simulation.jobs_look import Look
    from tests.simulation.jobs_scheduler import JobScheduler
    from tests.simulation.programs import Program


ERROR = b'["ValueError", "no", ""]'


class JobHands:
    """A worker's queues, and its slots, which they share."""

    waiting = 0
    """everything begins at once"""

    def __init__(self, session: AsyncWorkerSession, slots: int) -> None:
        self.session = session
        self.slots = slots
        self.pumps: dict[str, SimulatedPump] = {}
        self.is_open = True
        """whether it goes on; it does not once it has stopped or lost its lease"""
        self.is_paused = False

    @property
    def load(self) -> int:
        return sum(pump.load for pump in self.pumps.values())

    def pause(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            for pump in self.pumps.values():
                pump.pause(is_paused)

    def close(self) -> None:
        self.is_open = False


async def work(scheduler: JobScheduler, program: Program) -> None:
    """Registers, serves queues, and starts again under a new name whenever it was given up."""
    while not scheduler.is_stopping:
        await _live(scheduler, program, scheduler.new_session(program))


async def _live(scheduler: JobScheduler, program: Program, session: AsyncWorkerSession) -> None:
    """One incarnation, from registration to the loss of the lease or a stop."""
    hands = program.hands = JobHands(session, scheduler.random.randint(1, 4))
    try:
        await session.start()
        session.lease.renewed(math.inf)  # it ends when the store says so
        program.spawn(beat(scheduler, program, session), "heartbeat")
        if program.kind == "worker":
            await _serve(scheduler, program, session, hands)
        while _goes_on(scheduler, session, hands):
            await Sleep(
                scheduler.lifetime_ms(),
                unless=lambda: not _goes_on(scheduler, session, hands),
            )
            if not scheduler.is_draining:
                break  # when all is quiet, nobody may come by work by being new
    except LeaseLost:
        session.lease.lose()
    hands.close()
    await Sleep(unless=lambda: all(pump.has_ended for pump in hands.pumps.values()))
    if session.lease.is_lost:
        scheduler.happened("worker found out that it was given up")
        await session.abandon()
        return
    scheduler.happened("worker stopped")
    for queue in sorted(session._queues):
        await session.stop_work(queue)
    await session._client.fail_worker(session.id)


def _goes_on(scheduler: JobScheduler, session: AsyncWorkerSession, hands: JobHands) -> bool:
    return not scheduler.is_stopping and hands.is_open and not session.lease.is_lost


async def _serve(
    scheduler: JobScheduler, program: Program, session: AsyncWorkerSession, hands: JobHands
) -> None:
    random = scheduler.random
    types: list[str] | None = None
    if random.random() < 0.4 and not scheduler.is_draining:
        types = random.sample(TYPES, random.choice((1, 2)))
    names = QUEUES if random.random() < 0.6 or scheduler.is_draining else QUEUES[:1]
    takes_unasked = random.random() < 0.8
    for queue in names:
        await session.start_job_work(queue, types)
        hands.pause(session.heartbeat.is_paused)
        pump = SimulatedPump(scheduler, program, hands, queue, takes_unasked)
        hands.pumps[queue] = pump
        program.spawn(pump.serve(), "feed")


def check_hands(program: Program, look: Look) -> None:
    """A living worker holds nothing that it does not know of, or nobody would ever finish it."""
    hands: JobHands = program.hands
    asking = {routine for routine in program.routines if routine.ask and routine.ask.sent}
    if any(routine.name in ("feed", "main") for routine in asking):
        return
    for name, pump in hands.pumps.items():
        for process in look.queues[name].snapshot.running.get(hands.session.id, ()):
            is_known = process in pump.feed.processes
            if not is_known and not pump.has_ended and not pump.takes_unasked:
                raise Violated(
                    f"worker {hands.session.id!r} holds process {process} of {name} and was never "
                    "told so"
                )
