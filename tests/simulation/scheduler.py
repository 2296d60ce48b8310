"""Decides who goes next and what goes wrong, from one seed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.client.address import parse_url
from penstock.client.settings import Settings
from penstock.codec.elements import task_of
from penstock.errors import StoreUnavailable
from penstock.model.queues import DEFAULT_MAX_FAILURES
from penstock.store.command import Operation
from penstock.store.commands import queues
from penstock.store.script import SIMULATED
from tests.invariants import AT_EVERY_INSTANT, AT_REST, violations
from tests.simulation import clients
from tests.simulation.clients import Ask, Hands, SilentHeartbeat, Sleep
from tests.simulation.history import History
from tests.simulation.reference import Arguments, Reference
from tests.simulation.world import EPOCH_MS, NAMESPACE, Violated, World

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from penstock.client._async.client import AsyncPenstock
    from penstock.client._async.session import AsyncWorkerSession
    from penstock.store.command import Command
    from tests.invariants import Snapshot, Violation

MAX_TASKS = 30
MAX_WORKERS = 5
MAX_NAMES = 16
"""how many workers there may be one after the other"""
RECOVERY_MS = 2 * clients.LEASE_MS + 3 * clients.HEARTBEAT_MS
"""a lease, another one if whoever recovered died too, and a beat to notice each"""
MENDABLE = {"member_is_unknown", "registration_of_no_queue"}
"""what a crash at one moment may leave behind: harmless, and put right by `penstock fsck`"""
LATER_MS = 24 * 3_600_000
"""after which nothing that was under way can still be"""


@dataclass
class Faults:
    """How often each thing goes wrong. Drawn for each seed, so that some seeds see much of one
    fault and nothing of another.
    """

    request_lost: float = 0.0
    reply_lost: float = 0.0
    late_copy: float = 0.0
    """the request gets stuck, is sent again, and arrives after all much later"""
    gave_up: float = 0.0
    crash: float = 0.0
    pause: float = 0.0
    script_flush: float = 0.0
    clock_jump: float = 0.0

    @classmethod
    def draw(cls, random: Random) -> Faults:
        if random.random() < 0.05:
            return cls()
        levels = {"crash": (0.0, 0.01, 0.03), "pause": (0.0, 0.01, 0.03)}
        usual = (0.0, 0.02, 0.1, 0.25)
        rates = {f.name: random.choice(levels.get(f.name, usual)) for f in fields(cls)}
        rates["gave_up"] /= 5
        rates["script_flush"] /= 10
        rates["clock_jump"] /= 10
        return cls(**rates)


class Routine:
    """One coroutine of a program."""

    def __init__(self, program: Program, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self.program = program
        self.coroutine = coroutine
        self.name = name
        self.ask: Ask | None = None
        self.wake_at = 0.0
        self.done_last = ""
        """the last script that was answered"""
        self.incarnations: set[str] = set()
        """those that it has yet to create a queue with, or to take off the list of queues"""

    def resume(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Go on until the next request or sleep; False if it has ended."""
        self.ask = None
        try:
            step = self.coroutine.throw(error) if error else self.coroutine.send(value)
        except StopIteration:
            return False
        if isinstance(step, Ask):
            self.ask = step
        else:
            assert isinstance(step, Sleep)
            self.wake_at = self.program.scheduler.now_ms + step.ms
        return True


@dataclass(eq=False)
class Program:
    """A process of the operating system: its routines crash and stop together."""

    scheduler: Scheduler
    kind: str
    name: str
    client: AsyncPenstock
    routines: list[Routine] = field(default_factory=list)
    paused_until: float = 0.0
    hands: Hands | None = None

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self.routines.append(Routine(self, coroutine, name))

    def close(self) -> None:
        for routine in self.routines:
            routine.coroutine.close()
        self.routines.clear()


class Scheduler:
    """One run of one seed."""

    def __init__(self, world: World, seed: int, is_blind: bool = False) -> None:
        self.seed = seed
        self.is_blind = is_blind
        """whether the promises alone must find what is wrong, without the reference"""
        self.random = Random(seed)
        self.world = world
        world.reset()
        self.snapshot: Snapshot = world.look()
        self.reference = Reference(world.keys)
        self.max_failures = self.random.choice((2, 3, DEFAULT_MAX_FAILURES))
        self.history = History(self.max_failures)
        self.faults = Faults.draw(self.random)
        self.trace: list[tuple[float, str, str, object]] = []
        self.now_ms = 0.0
        self.steps = 0
        self.is_draining = False
        self.is_stopping = False
        self._settings = Settings(
            parse_url("unix:///nowhere"), NAMESPACE, retry_for_s=None, dialect=SIMULATED
        )
        self._programs: list[Program] = []
        self._late: list[Command[Any]] = []
        self._skew_ms = 0
        self._most_back_ms = 0
        self._tasks_made = 0
        self._programs_made = 0
        self._abandoned: set[str] = set()
        """incarnations that somebody who gave up or crashed may have left on the list of queues"""

    # What clients need.

    def happened(self, what: str) -> None:
        self.history.sometimes[what] += 1

    def pace_ms(self, is_busy: bool) -> int:
        """How long a worker takes between two acts, on average."""
        if not self.is_draining:
            return 250
        is_empty = not any(queue.ready for queue in self.snapshot.queues.values())
        return 40 if is_busy or not is_empty else 1_000

    def new_client(self) -> AsyncPenstock:
        return clients.new_client(self._settings)

    def new_session(self, program: Program) -> AsyncWorkerSession:
        session = program.client.worker(lease_ms=clients.LEASE_MS)
        session.id = f"w{len(self.world.workers)}"
        session.heartbeat = SilentHeartbeat()  # type: ignore[assignment]
        self.world.workers.append(session.id)
        return session

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
            for kind in ("worker", "worker", "producer", "producer", "operator"):
                self._start_program(kind)
            while self.steps < steps:
                self._populate()
                self.step()
            self._heal()
            self._drain()
            self._stop()
            self._inspect_remains()
        finally:
            for program in self._programs:
                program.close()

    def step(self) -> None:
        """Something happens to somebody."""
        random, faults = self.random, self.faults
        if random.random() < faults.script_flush:
            self.world.forget_scripts()
            self.happened("scripts flushed")
        if random.random() < faults.clock_jump:
            self._jump()
        if self._late and random.random() < 0.1:
            self._deliver_late(random.randrange(len(self._late)))
        routine = self._next_routine()
        if routine is None:
            return
        program = routine.program
        if random.random() < faults.crash:
            self._crash(routine)
        elif random.random() < faults.pause:
            program.paused_until = self.now_ms + random.uniform(500, 9_000)
            self._note(routine, "paused", None)
        elif routine.ask is None:
            self._resume(routine)
        else:
            self._send(routine, routine.ask)
        self._check_hands()

    def _next_routine(self) -> Routine | None:
        """One that can go on; time passes until there is one."""
        routines = list(self._routines())
        if not routines:
            return None
        ready_at = min(map(_ready_at, routines))
        self.now_ms = max(ready_at, self.now_ms) + self.random.choice((0, 0, 1, 5))
        return self.random.choice([r for r in routines if _ready_at(r) <= self.now_ms])

    def _send(self, routine: Routine, ask: Ask) -> None:
        """One try at a request."""
        random, faults = self.random, self.faults
        command = ask.command
        self.steps += 1
        if random.random() < faults.request_lost:
            self._note(routine, "request lost", command)
            self._again_or_give_up(routine)
        elif random.random() < faults.late_copy:
            self._late.append(command)
            ask.sent += 1
            self._note(routine, "request stuck", command)
            self._again_or_give_up(routine)
        elif random.random() < faults.reply_lost:
            ask.sent += 1
            self._execute(command, f"{_name(routine)} (reply lost)", routine.incarnations)
            self.happened(f"reply lost on {command.script.name}")
            self._again_or_give_up(routine)
        else:
            ask.sent += 1
            reply = self._execute(command, _name(routine), routine.incarnations)
            if command.script.name != "register_queue" and reply[0] == b"ok":
                routine.incarnations.discard(Arguments(command).get("incarnation", ""))
            if ask.sent > 1 and command.script.name.startswith("enqueue"):
                self.happened("duplicate enqueue absorbed")
            routine.done_last = command.script.name
            self._resume(routine, reply)

    def _again_or_give_up(self, routine: Routine) -> None:
        """A lost request is sent again at the routine's next turn, unless it has had enough."""
        # A heartbeat gives up at once: there is always a next one.
        rate = 0.5 if routine.name == "heartbeat" else self.faults.gave_up
        if self.random.random() >= rate:
            return
        if routine.name == "main" and routine.program.kind in ("worker", "sweeper"):
            # The error ends a worker that does not handle it.
            self._crash(routine)
            return
        self._abandoned |= routine.incarnations
        routine.incarnations.clear()
        error = StoreUnavailable("no answer")
        self._resume(routine, error=error)

    def _execute(self, command: Command[Any], who: str, unsettled: set[str]) -> list[Any]:
        """The command reaches the server. Whoever sent it then has to see to the `unsettled`
        incarnations: to create a queue with them, or to take them off the list of queues.
        """
        before = self.snapshot
        self.world.now_ms = EPOCH_MS + int(self.now_ms) + self._skew_ms
        reply, after = self.world.run(command)
        self.trace.append((self.now_ms, who, _summary(command), reply))
        self.snapshot = after
        if command.script.name == "register_queue":
            unsettled.add(Arguments(command)["incarnation"])
        unsettled |= _incarnations(before) - _incarnations(after)
        should, is_repetition = self.reference.apply(command, self.world.now_ms)
        if not self.is_blind:
            self.reference.compare(after, self.reference.queue_of(command))
        self.history.observe(command, reply, is_repetition, before, after, self.world.now_ms)
        if command.script.name == "fail_worker":
            reply[1:] = sorted(reply[1:])  # a set has no order, and a replay must have one
        is_said = should is not None and not self.is_blind
        if is_said and _plain(should) != _plain(reply):
            raise Violated(f"{command.script.name} should answer {should!r} but said {reply!r}")
        if is_repetition:
            self.happened("repetition absorbed")
        return reply

    def _resume(
        self, routine: Routine, reply: Any = None, error: BaseException | None = None
    ) -> None:
        if not routine.resume(reply, error):
            routine.program.routines.remove(routine)
            if routine.name == "main" and routine.program.kind in ("worker", "sweeper"):
                routine.program.hands = None

    def _crash(self, routine: Routine) -> None:
        """kill -9, wherever each of its routines happens to be."""
        program = routine.program
        self._note(routine, f"crashed {program.name}", None)
        self.happened(f"{program.kind} crashed")
        for one in program.routines:
            self._abandoned |= one.incarnations
            waits_for = one.ask.command.script.name if one.ask else ""
            if one.done_last in ("fail_worker", "leave_queue") and waits_for in (
                "leave_queue",
                "forget_worker",
            ):
                self.happened("crash inside fail_worker")
            if waits_for in ("join_queue", "keep_worker_alive") and one.name == "main":
                self.happened("crash inside start_work")
            if waits_for == "unregister_queue":
                self.happened("crash inside delete")
            if waits_for.startswith("enqueue") and one.ask and one.ask.sent:
                self.happened("producer crashed, outcome unknown")
        program.close()
        self._programs.remove(program)

    def _deliver_late(self, index: int) -> None:
        command = self._late.pop(index)
        self._execute(command, "late copy", self._abandoned)
        self.happened("late copy delivered")

    def _jump(self) -> None:
        by_ms = self.random.choice((-4_000, -500, 500, 4_000, 60_000))
        self._skew_ms += by_ms
        self._most_back_ms += max(0, -by_ms)
        self.happened("clock jumped")
        self.trace.append((self.now_ms, "clock", f"jumped by {by_ms} ms", None))

    def _check_hands(self) -> None:
        for program in self._programs:
            if program.hands is None or not program.routines:
                continue
            main = program.routines[0]
            if main.name == "main" and (main.ask is None or main.ask.sent == 0):
                clients.check_hands(program.hands, self.snapshot)

    # The acts after the trouble.

    def _heal(self) -> None:
        """Nothing goes wrong any more; what was stuck arrives; whoever was stopped goes on."""
        self.faults = Faults()
        while self._late:
            self._deliver_late(self.random.randrange(len(self._late)))
        for program in self._programs:
            program.paused_until = 0.0
        self.is_draining = True
        self._start_program("healer")
        for _ in range(2):
            self._start_program("worker", must=True)
        kinds = ("producer", "operator", "healer")
        self._until(
            lambda: not any(p.routines for p in self._programs if p.kind in kinds),
            60_000,
            "producers and operators come to an end",
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
            lambda: not any(q.ready + q.held for q in self.snapshot.queues.values()),
            20_000,
            "all tasks are done",
        )

    def _stop(self) -> None:
        self.is_stopping = True
        self._until(
            lambda: not any(self._routines()),
            60_000,
            "workers stop",
        )

    def _until(self, condition: Any, within_ms: float, what: str) -> None:
        deadline = self.now_ms + within_ms
        while not condition():
            if self.now_ms > deadline:
                raise Violated(f"not within {within_ms:.0f} ms: {what}")
            self.step()

    def _living(self) -> frozenset[str]:
        return frozenset(p.hands.session.id for p in self._programs if p.hands and p.routines)

    def _inspect_remains(self) -> None:
        """No leaks: nothing is left but settings, dead tasks and memories that expire."""
        later = replace(self.snapshot, now_ms=self.world.now_ms + LATER_MS)
        for violation in violations(later, AT_REST):
            if violation.kind in MENDABLE:
                self._mend(violation)
        left = violations(self.world.key_census(), AT_EVERY_INSTANT)
        left += violations(replace(self.snapshot, now_ms=self.world.now_ms + LATER_MS))
        left += self.history.at_the_end()
        if left:
            raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in left))
        remains = self.snapshot
        if remains.known_workers or remains.info or remains.work:
            raise Violated(f"traces of workers are left: {remains}")
        for queue in remains.queues.values():
            if queue.members or queue.idle or queue.unique or queue.failures:
                raise Violated(f"queue {queue.name!r} is not empty: {queue}")
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
        """Whoever has gone is replaced, as long as the world stays small."""
        alive = [program for program in self._programs if program.routines]
        self._programs = alive
        serving = [p for p in alive if p.kind in ("worker", "sweeper")]
        if len(serving) < MAX_WORKERS and self.random.random() < 0.05:
            self._start_program("sweeper" if self.random.random() < 0.15 else "worker")
        producers = [p for p in alive if p.kind == "producer"]
        is_small = len(self.history.present) < MAX_TASKS - 10
        if len(producers) < 3 and is_small and self.random.random() < 0.1:
            self._start_program("producer")
        if len(alive) - len(serving) - len(producers) < 1 and self.random.random() < 0.1:
            self._start_program("operator")

    def _start_program(self, kind: str, must: bool = False) -> None:
        if kind in ("worker", "sweeper") and len(self.world.workers) >= MAX_NAMES and not must:
            return
        self._programs_made += 1
        program = Program(self, kind, f"{kind} {self._programs_made}", self.new_client())
        program.spawn(clients.routine(self, program), "main")
        self._programs.append(program)

    def _routines(self) -> Iterator[Routine]:
        for program in self._programs:
            yield from program.routines

    def _note(self, routine: Routine, what: str, command: Command[Any] | None) -> None:
        summary = _summary(command) if command else ""
        self.trace.append((self.now_ms, _name(routine), f"{what} {summary}", None))


def _ready_at(routine: Routine) -> float:
    at = 0.0 if routine.ask else routine.wake_at
    return max(at, routine.program.paused_until)


def _name(routine: Routine) -> str:
    hands = routine.program.hands
    worker = f" {hands.session.id}" if hands else ""
    return f"{routine.program.name}{worker} {routine.name}"


def _incarnations(snapshot: Snapshot) -> set[str]:
    return {queue.incarnation for queue in snapshot.queues.values() if queue.exists}


def _summary(command: Command[Any]) -> str:
    keys = command.keys[0].partition("}")[0].removeprefix("{")
    return f"{command.script.name} {keys} {command.args!r}"


def _plain(reply: Any) -> Any:
    """Numbers come as integers or as text, tasks with or without their key: it is all one."""
    if isinstance(reply, list):
        return [_plain(part) for part in reply]
    return task_of(str(reply).encode() if isinstance(reply, int) else reply)


def describe(error: BaseException, scheduler: Scheduler, last: int | None = 60) -> str:
    """Everything that is needed to find out what went wrong."""
    steps = scheduler.trace if last is None else scheduler.trace[-last:]
    lines = [f"{at:9.1f} {who:28} {what} -> {reply!r}"[:400] for at, who, what, reply in steps]
    again = f"python -m tests.simulation.run --seed {scheduler.seed} --trace"
    return "\n".join([*lines, f"seed {scheduler.seed}: {error}", f"again: {again}"])
