"""One run of one seed, with plain tasks: trouble, recovery, rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.codec.elements import task_of
from penstock.model.batch_invariants import batch_violations
from penstock.model.queues import DEFAULT_MAX_FAILURES
from penstock.store.command import Operation
from penstock.store.commands import jobs, queues
from tests.invariants import AT_EVERY_INSTANT, AT_REST, violations
from tests.job_samples import group
from tests.simulation import clients
from tests.simulation.arguments import Arguments
from tests.simulation.engine import RECOVERY_MS, Engine, Faults, put_in_order, summarise
from tests.simulation.history import History
from tests.simulation.programs import Program
from tests.simulation.reference import Reference
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.store.command import Command
    from tests.invariants import Snapshot, Violation
    from tests.simulation.batches_look import Staging
    from tests.simulation.world import World, WorldSnapshot

MAX_TASKS = 30
MAX_WORKERS = 5
MAX_NAMES = 16
"""how many workers there may be one after the other"""
MENDABLE = {"member_is_unknown", "registration_of_no_queue"}
"""what a crash at one moment may leave behind: harmless, and put right by `penstock fsck`"""
STRAY_EVERY = 10
"""steps after which jobs stray into queues of tasks"""
LATER_MS = 24 * 3_600_000
"""after which nothing that was under way can still be"""


class Scheduler(Engine):
    """Everybody works on plain tasks, and every command is held against the reference."""

    world: World

    def __init__(self, world: World, seed: int, is_blind: bool = False) -> None:
        super().__init__(world, seed)
        self.is_blind = is_blind
        """whether the promises alone must find what is wrong, without the reference"""
        world.reset()
        self.snapshot: WorldSnapshot = world.look()
        self.reference = Reference(world.keys)
        self.max_failures = self.random.choice((2, 3, DEFAULT_MAX_FAILURES))
        self.history = History(self.max_failures, self.sometimes, self.batches)
        self.faults = Faults.draw(self.random)
        self._tasks_made = 0
        self._strays_at = STRAY_EVERY

    # What clients need.

    def pace_ms(self, is_busy: bool) -> int:
        """How long a worker takes between two acts, on average."""
        if not self.is_draining:
            return 250
        is_empty = not any(queue.ready for queue in self.snapshot.queues.values())
        return 40 if is_busy or not is_empty else 1_000

    def new_tasks(self, count: int) -> list[bytes]:
        """Tasks never seen before; every seventh or so is one that no worker can do."""
        numbers = range(self._tasks_made, self._tasks_made + count)
        self._tasks_made += count
        kind = b"poison" if self.random.random() < 0.15 else b"task"
        tasks = [b"%s-%d" % (kind, number) for number in numbers]
        self.history.offered.update(tasks)
        return tasks

    # The run.

    def run(self, steps: int = 300) -> None:
        """The whole story: trouble, recovery, rest. Raises Violated."""
        try:
            for kind in ("worker", "worker", "producer", "producer", "writer", "operator"):
                self._start_program(kind)
            while self.steps < steps:
                self._populate()
                self.step()
                if self.steps >= self._strays_at:
                    self._strays_at = self.steps + STRAY_EVERY
                    self._send_strays()
            self._heal()
            self._drain()
            self._stop()
            self._inspect_remains()
        finally:
            for program in self._programs:
                program.close()

    def _execute(self, command: Command[Any], who: str, unsettled: set[str]) -> list[Any]:
        before = self.snapshot
        self._set_clock()
        reply, after = self.world.run(command)
        self.trace.append((self.now_ms, who, summarise(command), reply))
        self.snapshot = after
        if command.script.name == "register_queue":
            unsettled.add(Arguments(command)["incarnation"])
        unsettled |= _incarnations(before) - _incarnations(after)
        should, is_repetition = self.reference.apply(command, self.world.now_ms)
        if not self.is_blind:
            self.reference.compare(after, self.reference.queue_of(command))
        self.history.observe(command, reply, is_repetition, before, after, self.world.now_ms)
        put_in_order(command, reply)
        is_said = should is not None and not self.is_blind
        if is_said and _plain(should) != _plain(reply):
            raise Violated(f"{command.script.name} should answer {should!r} but said {reply!r}")
        if is_repetition:
            self.happened("repetition absorbed")
        return reply

    def _send_strays(self) -> None:
        """Jobs, and a worker for jobs, come to queues of tasks and are refused: it is not the
        first to come after a worker who decides what a queue holds.
        """
        for name, queue in self.reference.queues.items():
            if not queue.is_of_tasks:
                continue
            keys, operation = self.world.keys.queue(name), Operation(f"stray.{self.steps}", 1)
            self._execute(jobs.send_jobs(keys, operation, [group("urgent")]), "stray", set())
            operation = Operation(operation.lane, 2)
            self._execute(jobs.join_jobs(keys, operation, "stray", None), "stray", set())
            self.happened("stray job refused")
            if not queue.counters.get("enqueued"):
                self.happened("stray job refused by a queue that was only joined")

    def _staging(self) -> Mapping[str, Staging]:
        return self.snapshot.staging

    def _forget_stage(self, queue: str, stage: str) -> None:
        self.snapshot = self.world.look()
        self.reference.expire(queue, stage)

    def _check_hands(self) -> None:
        for program in self._programs:
            if program.hands is None or not program.routines:
                continue
            main = program.routines[0]
            if main.name == "main" and (main.ask is None or main.ask.sent == 0):
                clients.check_hands(program.hands, self.snapshot)

    # The acts after the trouble.

    def _heal(self) -> None:
        self._end_trouble()
        self._start_program("healer")
        for _ in range(2):
            self._start_program("worker", must=True)
        self._until(
            lambda: self._are_gone("producer", "writer", "operator", "healer"),
            60_000,
            "producers, writers and operators come to an end",
        )
        self._start_program("healer")

    def _drain(self) -> None:
        """Liveness: the dead are recovered in time, and everything that was accepted gets done."""
        self._until(
            lambda: self.snapshot.known_workers <= self._living(),
            RECOVERY_MS + self._most_back_ms,
            "dead workers are recovered",
        )
        self._until(
            self._are_tasks_done,
            20_000,
            "all tasks are done",
        )

    def _are_tasks_done(self) -> bool:
        is_any_moving = any(staging.moving for staging in self.snapshot.staging.values())
        is_any_left = any(q.ready + q.held for q in self.snapshot.queues.values())
        return not is_any_moving and not is_any_left

    def _stop(self) -> None:
        self.is_stopping = True
        self._until(
            lambda: not any(self._routines()),
            60_000,
            "workers stop",
        )

    def _inspect_remains(self) -> None:
        """No leaks: nothing is left but settings, dead tasks and memories that expire."""
        later = replace(self.snapshot, now_ms=self.world.now_ms + LATER_MS)
        for violation in violations(later, AT_REST):
            if violation.kind in MENDABLE:
                self._mend(violation)
        left = violations(self.world.key_scan(), AT_EVERY_INSTANT)
        later = replace(self.snapshot, now_ms=self.world.now_ms + LATER_MS)
        left += [*violations(later), *batch_violations(_with_batches(later))]
        left += self.history.at_the_end()
        if left:
            raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in left))
        remains = self.snapshot
        if remains.known_workers or remains.info or remains.work:
            raise Violated(f"traces of workers are left: {remains}")
        for queue in remains.queues.values():
            if queue.members or queue.idle or queue.unique or queue.failures:
                raise Violated(f"queue {queue.name!r} is not empty: {queue}")
        if self.batches.left():
            raise Violated(f"rows of decided batches are left: {self.batches.left()}")
        unaccounted = self.history.seen - self.history.gone.keys() - self.history.present.keys()
        if unaccounted:
            raise Violated(f"tasks are lost: {sorted(unaccounted)}")

    def _mend(self, violation: Violation) -> None:
        """As `penstock fsck --repair` does it."""
        self.happened(f"{violation.kind}, mended")
        keys = self.world.keys
        command: Command[Any]
        if violation.kind == "member_is_unknown":
            operation = Operation(f"mender.{violation.subject}", 1)
            queue = keys.queue(violation.queue)
            command = queues.leave_queue(queue, operation, violation.subject, is_lost=True)
        else:
            if violation.subject not in self._abandoned:
                raise Violated(f"nobody crashed, but {violation.message}")
            command = queues.unregister_queue(keys, violation.subject)
        self._execute(command, "mender", self._abandoned)

    # Who is there.

    def _populate(self) -> None:
        """Programs that have gone are replaced, as long as the world stays small."""
        alive = [program for program in self._programs if program.routines]
        self._programs = alive
        serving = [program for program in alive if program.is_serving]
        if len(serving) < MAX_WORKERS and self.random.random() < 0.05:
            self._start_program("sweeper" if self.random.random() < 0.15 else "worker")
        producers = [p for p in alive if p.kind == "producer"]
        writers = [p for p in alive if p.kind == "writer"]
        staged = sum(staging.staged for staging in self.snapshot.staging.values())
        is_small = len(self.history.present) + staged < MAX_TASKS - 10
        if len(producers) < 3 and is_small and self.random.random() < 0.1:
            self._start_program("producer")
        if len(writers) < 2 and is_small and self.random.random() < 0.1:
            self._start_program("writer")
        if (
            len(alive) - len(serving) - len(producers) - len(writers) < 1
            and self.random.random() < 0.1
        ):
            self._start_program("operator")

    def _start_program(self, kind: str, must: bool = False) -> None:
        if kind in ("worker", "sweeper") and len(self.world.workers) >= MAX_NAMES and not must:
            return
        self._programs_made += 1
        program = Program(self, kind, f"{kind} {self._programs_made}", self.new_client())
        program.spawn(clients.routine(self, program), "main")
        self._programs.append(program)


def _incarnations(snapshot: Snapshot) -> set[str]:
    return {queue.incarnation for queue in snapshot.queues.values() if queue.exists}


def _with_batches(snapshot: WorldSnapshot) -> Snapshot:
    """The snapshot, with what is staged as the invariants look at it."""
    staging = {name: found.snapshot for name, found in snapshot.staging.items()}
    return replace(snapshot, batches=staging)


def _plain(reply: Any) -> Any:
    """Numbers come as integers or as text, tasks with or without their key: it is all one."""
    if isinstance(reply, list):
        return [_plain(part) for part in reply]
    return task_of(str(reply).encode() if isinstance(reply, int) else reply)
