"""One run of one seed, with jobs: trouble, recovery, rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.codec.ids import SENDERS, id_number, id_text
from penstock.connection import job_ids
from penstock.model.jobs import FINAL_STATES, Report
from penstock.store.command import Operation
from penstock.store.commands.jobs import leave_jobs
from penstock.store.commands.queues import join_queue
from penstock.store.commands.tasks import enqueue_tasks
from tests.simulation import jobs_clients, jobs_workers
from tests.simulation.arguments import Arguments
from tests.simulation.batches_look import job_rows
from tests.simulation.engine import RECOVERY_MS, Engine, Faults, put_in_order, summarise
from tests.simulation.jobs_history import JobHistory
from tests.simulation.programs import Program
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.jobs import HandedOut
    from penstock.store.command import Command
    from tests.simulation.batches_look import Staging
    from tests.simulation.jobs_look import Look
    from tests.simulation.jobs_world import JobWorld

MAX_JOBS = 40
MAX_WORKERS = 5
MAX_NAMES = 20
"""how many workers there may be one after the other"""
STANDSTILL_MS = 20_000
"""more than any delay, and than it takes until there is a token"""
MAX_CHUNK = 10
STRAY_EVERY = 20
"""steps after which plain tasks stray into queues of jobs"""
_FIRST_ID = 10**6


class JobScheduler(Engine):
    """Everybody works on jobs."""

    world: JobWorld
    jumps_ms = (50, 500, 4_000, 60_000)
    option = " --jobs"
    rows_of = staticmethod(job_rows)

    def __init__(self, world: JobWorld, seed: int) -> None:
        super().__init__(world, seed)
        world.reset()
        world.is_heard = self.random.random() < 0.5
        self.is_calm = self.random.random() < 0.3
        """nobody turns a knob, and jobs are plain: one that is sent often finds a worker idle"""
        self.look: Look = world.look()
        self.history = JobHistory(self.sometimes, world.is_heard, self.batches)
        self.faults = Faults.draw(self.random)
        self._data_made = 0
        self._last_id = _FIRST_ID
        self._strays_at = STRAY_EVERY

    # What clients need.

    def take(self, count: int) -> int:
        """Ids for new jobs, in the place of those that have the time in them and are random; once
        in a while somebody else has made the same one.
        """
        known = self._ids_in_use() if self.random.random() < (0.03 if count == 1 else 0.1) else []
        if count > 1:
            known = [number for number in known if self._is_followed_by_none(number)]
        if known:
            self.happened("id made twice")
            number = self.random.choice(known)
            self.history.reused.update(map(id_text, _block(number)[:count]))
            return number
        first = self._last_id + SENDERS
        self._last_id += count * SENDERS
        return first

    def _ids_in_use(self) -> list[int]:
        """Ids made by clients, of jobs that have left their line: within the time that one has in
        it, no job comes and goes and leaves its entry behind.
        """
        jobs = [job.stored for queue in self.look.queues.values() for job in queue.jobs.values()]
        numbers = [id_number(job.id) for job in jobs if job.state in ("running", "done")]
        return sorted(number for number in numbers if number > _FIRST_ID)

    def _is_followed_by_none(self, number: int) -> bool:
        """Whether no job has ever had one of the next ids, so that those are as good as new."""
        ids = {id for _, id in self.history.seen}
        return ids.isdisjoint(map(id_text, _block(number)[1:]))

    def new_data(self, count: int) -> list[bytes]:
        """Never seen before; every seventh or so kills its worker."""
        numbers = range(self._data_made, self._data_made + count)
        self._data_made += count
        kind = b"poison" if self.random.random() < 0.15 else b"job"
        return [b"%s-%d" % (kind, number) for number in numbers]

    def new_report(self, queue: str, job: HandedOut) -> Report:
        """What came of a job."""
        random = self.random
        stored = self.look.queues[queue].jobs.get(job.id)
        if b"poison" in job.data:
            return Report(job.process, "crashed", 5, 5, 0, "", jobs_workers.ERROR)
        if stored is not None and stored.is_cancel_asked and random.random() < 0.7:
            return Report(job.process, "cancelled", 5, 5)
        choice = random.random()
        if choice < (0.8 if self.is_calm else 0.55):
            return Report(job.process, "done", 5, 5, 0, "", b"j1")
        if choice < (0.85 if self.is_calm else 0.75):
            delay_ms = random.choice((0, 0, 1, 400, 3_000))
            return Report(job.process, "failed", 5, 5, delay_ms, "", jobs_workers.ERROR)
        if choice < (0.86 if self.is_calm else 0.8):
            return Report(job.process, "final", 5, 5, 0, "rejected", jobs_workers.ERROR)
        if choice < 0.87:
            return Report(job.process, "crashed", 5, 5, 0, "", jobs_workers.ERROR)
        if self.is_draining:
            return Report(job.process, "done", 5, 5, 0, "", b"j1")
        return Report(job.process, "stopped")

    def run_ms(self) -> float:
        """How long a job takes."""
        if self.random.random() < 0.1 and not self.is_draining:
            return self.random.uniform(1_000, 6_000)
        return self.random.expovariate(1 / 250)

    def lifetime_ms(self) -> float:
        """How long a worker goes on before it stops by itself."""
        return self.random.expovariate(1 / 15_000)

    # The run.

    def run(self, steps: int = 300) -> None:
        """The whole story: trouble, recovery, rest. Raises Violated."""
        numbers, job_ids._numbers = job_ids._numbers, self  # type: ignore[assignment]
        try:
            kinds = ["worker", "worker", "producer", "producer"]
            for kind in kinds if self.is_calm else [*kinds, "writer", "firer", "firer", "operator"]:
                self._start_program(kind)
            while self.steps < steps:
                self._populate()
                if not self._programs and len(self.world.workers) >= MAX_NAMES:
                    break  # all names are used up, and so nothing more can go wrong
                self.step()
                if self.steps >= self._strays_at:
                    self._strays_at = self.steps + STRAY_EVERY
                    self._send_strays()
            self._heal()
            self._drain()
            self._stop()
            self._inspect_remains()
        finally:
            job_ids._numbers = numbers
            for program in self._programs:
                program.close()

    def _execute(self, command: Command[Any], who: str, unsettled: set[str]) -> list[Any]:
        before = self.look
        self._set_clock()
        self.world.listen(self._living())
        reply, after = self.world.run(command)
        self.trace.append((self.now_ms, who, summarise(command), reply))
        self.look = after
        if command.script.name == "register_queue":
            unsettled.add(Arguments(command)["incarnation"])
        unsettled |= _incarnations(before) - _incarnations(after)
        self.history.observe(command, reply, before, after, self.world.now_ms)
        put_in_order(command, reply)
        return reply

    def _send_strays(self) -> None:
        """A plain task, and a worker for plain tasks, come to queues of jobs and are refused."""
        for name in self.look.queues:
            keys = self.world.keys.queue(name)
            if self.world.ask([("HEXISTS", keys.meta, "kind")]) != [1]:
                continue
            lane = f"stray.{self.steps}"
            for command in (
                enqueue_tasks(keys, Operation(lane, 1), [b"stray"]),
                join_queue(keys, Operation(lane, 2), "stray"),
            ):
                before = self.look.queues[name]
                reply = self._execute(command, "stray", set())
                if reply != [b"jobs", b"jobs"] or self.look.queues[name] != before:
                    raise Violated(f"{command.script.name} on a queue of jobs answered {reply!r}")
            self.happened("stray task refused")

    def _staging(self) -> Mapping[str, Staging]:
        return {name: queue.staging for name, queue in self.look.queues.items()}

    def _forget_stage(self, queue: str, stage: str) -> None:
        self.look = self.world.look()

    def _check_hands(self) -> None:
        for program in self._programs:
            if program.hands is not None and program.hands.is_open:
                jobs_workers.check_hands(program, self.look)

    # The acts after the trouble.

    def _heal(self) -> None:
        self._end_trouble()
        for _ in range(2):
            self._start_program("worker", must=True)
        self._until(
            lambda: self._are_gone("producer", "writer", "operator", "firer"),
            60_000,
            "producers, writers and operators come to an end",
        )
        self._start_program("healer")
        self._until(lambda: self._are_gone("healer"), 60_000, "all is well")

    def _drain(self) -> None:
        """Liveness: the dead are recovered in time, what is due is fired, and everything that was
        accepted comes to an end, though nobody looks unless it is woken.
        """
        self._until(
            lambda: self.look.known_workers <= self._living(),
            RECOVERY_MS,
            "dead workers are recovered",
        )
        self._until(self._are_slots_fired, 120_000, "slots that are due are fired")
        self._start_program("mover")
        self._start_program("latecomer")
        self._start_program("closer")
        while not self._are_jobs_ended():
            # Limits may make it take long, but never stop.
            is_moving = partial(self._has_moved, self.history.ends)
            self._until(is_moving, STANDSTILL_MS, "all jobs come to an end")

    def _has_moved(self, ends: int) -> bool:
        return self.history.ends > ends or self._are_jobs_ended()

    def _are_slots_fired(self) -> bool:
        self._set_clock()
        slots = [slot for queue in self.look.queues.values() for slot in queue.slots.values()]
        return all(slot > self.world.now_ms for slot in slots)

    def _are_jobs_ended(self) -> bool:
        jobs = [job for queue in self.look.queues.values() for job in queue.jobs.values()]
        is_quiet = self._are_gone("mover", "latecomer", "closer")
        return is_quiet and all(job.stored.state in FINAL_STATES for job in jobs)

    def _stop(self) -> None:
        self.is_stopping = True
        self._until(lambda: not any(self._routines()), 60_000, "workers stop")

    def _inspect_remains(self) -> None:
        """No leaks: once the queues are deleted, nothing is left at all."""
        self._mend_members()
        self._start_program("undertaker")
        self._until(lambda: not any(self._routines()), 60_000, "queues are deleted")
        look = self.look
        if look.known_workers or look.info or look.work:
            raise Violated(f"traces of workers are left: {look}")
        if look.registry - self._abandoned:
            raise Violated(f"queues are registered that nobody knows: {look.registry}")
        if self.batches.left():
            raise Violated(f"rows of decided batches are left: {self.batches.left()}")
        keys = self.world.stored_keys() - {self.world.keys.queues}
        if keys:
            raise Violated(f"queues are deleted, and these keys are left: {sorted(keys)}")

    def _mend_members(self) -> None:
        """A worker that crashes while it joins may stay a member; as `penstock fsck --repair` does
        it.
        """
        for name, queue in self.look.queues.items():
            for worker in sorted(queue.snapshot.totals.members - self.look.known_workers):
                keys = self.world.keys.queue(name)
                operation = Operation(f"mender.{worker}", 1)
                self._execute(leave_jobs(keys, operation, worker, True), "mender", self._abandoned)
                self.happened("member is unknown, mended")

    # Who is there.

    def _populate(self) -> None:
        """Programs that have gone are replaced, as long as the world stays small."""
        alive = [program for program in self._programs if program.routines]
        self._programs = alive
        count = {kind: sum(p.kind == kind for p in alive) for kind in jobs_clients.ROUTINES}
        jobs = sum(len(q.jobs) + q.staging.staged for q in self.look.queues.values())
        wanted = {
            "worker": 0.1 if count["worker"] < MAX_WORKERS - 1 else 0.0,
            "sweeper": 0.01 if count["sweeper"] < 1 else 0.0,
            "producer": 0.1 if count["producer"] < 3 and jobs < MAX_JOBS else 0.0,
            "writer": 0.1 if self._may_write(count["writer"], jobs) else 0.0,
            "firer": 0.1 if count["firer"] < 3 and not self.is_calm else 0.0,
            "operator": 0.1 if count["operator"] < 3 and not self.is_calm else 0.0,
        }
        for kind, chance in wanted.items():
            if self.random.random() < chance:
                self._start_program(kind)

    def _may_write(self, writers: int, jobs: int) -> bool:
        return writers < 2 and jobs < MAX_JOBS and not self.is_calm

    def _start_program(self, kind: str, must: bool = False) -> None:
        if kind in ("worker", "sweeper") and len(self.world.workers) >= MAX_NAMES and not must:
            return
        self._programs_made += 1
        program = Program(self, kind, f"{kind} {self._programs_made}", self.new_client())
        program.spawn(jobs_clients.routine(self, program), "main")
        self._programs.append(program)


def _block(first: int) -> range:
    """Ids for at least as many jobs as one request sends or moves."""
    return range(first, first + MAX_CHUNK * SENDERS, SENDERS)


def _incarnations(look: Look) -> set[str]:
    return {queue.incarnation for queue in look.queues.values() if queue.incarnation}
