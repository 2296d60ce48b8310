"""Decides who goes next and what goes wrong, from one seed, whatever the programs do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.connection.address import parse_url
from penstock.connection.settings import Settings
from penstock.errors import StoreUnavailable
from penstock.store.script import SIMULATED
from tests.simulation.arguments import Arguments
from tests.simulation.batch_history import BatchHistory
from tests.simulation.batch_writers import BatchName
from tests.simulation.batches_look import task_rows
from tests.simulation.programs import Program, SilentHeartbeat, new_client
from tests.simulation.server import EPOCH_MS, NAMESPACE, QUEUES, Violated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.client.client import AsyncPenstock
    from penstock.client.session import AsyncWorkerSession
    from penstock.store.command import Command
    from tests.simulation.batches_look import RowsOf, Staging
    from tests.simulation.programs import Ask, Routine
    from tests.simulation.server import Server

LEASE_MS = 3_000
HEARTBEAT_MS = 1_000
RECOVERY_MS = 2 * LEASE_MS + 3 * HEARTBEAT_MS
"""a lease, another one if the worker that recovered died too, and a beat to notice each"""

_UNORDERED = {
    "fail_worker": (1, 1),
    "list_paused_workers": (1, 1),
    "list_queues": (2, 1),
    "list_schedules": (2, 3),
}
"""scripts that answer with a set or a hash -> where in the reply its items begin, and how many
parts each has"""


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
    stage_expired: float = 0.0
    """a stage that was not decided goes, as it does after a day"""
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
        rates["stage_expired"] /= 10
        return cls(**rates)


class Engine:
    """One run of one seed."""

    jumps_ms: tuple[int, ...] = (-4_000, -500, 500, 4_000, 60_000)
    """by how much the clock of the server may jump"""
    option = ""
    """of `tests.simulation.run`, that runs this kind of simulation"""
    rows_of: RowsOf = staticmethod(task_rows)
    """the rows in a chunk of a batch"""

    def __init__(self, world: Server, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = world
        self.sometimes: Counter[str] = Counter()
        self.trace: list[tuple[float, str, str, object]] = []
        self.now_ms = 0.0
        self.steps = 0
        self.is_draining = False
        self.is_stopping = False
        self.faults = Faults()
        self._settings = Settings(
            parse_url("unix:///nowhere"), NAMESPACE, retry_for_s=None, dialect=SIMULATED
        )
        self._programs: list[Program] = []
        self._late: list[Command[Any]] = []
        self.batches = BatchHistory(self.sometimes, self.rows_of)
        self._batches_named: list[BatchName] = []
        self._stages_made = 0
        self._skew_ms = 0
        self._most_back_ms = 0
        self._programs_made = 0
        self._abandoned: set[str] = set()
        """incarnations that somebody who gave up or crashed may have left on the list of queues"""
        self.deaths: dict[str, str] = {}
        """worker that crashed -> what its parent tells of it; every other one has none"""

    # What every kind of simulation has to say.

    def _start_program(self, kind: str, must: bool = False) -> None:
        raise NotImplementedError

    def _execute(self, command: Command[Any], who: str, unsettled: set[str]) -> list[Any]:
        """The command reaches the server. Its sender then has to see to the `unsettled`
        incarnations: to create a queue with them, or to take them off the list of queues.
        """
        raise NotImplementedError

    def _check_hands(self) -> None:
        """Everybody knows what they hold."""
        raise NotImplementedError

    def _staging(self) -> Mapping[str, Staging]:
        """What is staged, by queue."""
        raise NotImplementedError

    def _forget_stage(self, queue: str, stage: str) -> None:
        """A stage has expired."""
        raise NotImplementedError

    # What clients need.

    def happened(self, what: str) -> None:
        self.sometimes[what] += 1

    def new_client(self) -> AsyncPenstock:
        return new_client(self._settings)

    def new_stage(self) -> str:
        """A name for what one attempt stages."""
        self._stages_made += 1
        return f"s{self._stages_made}"

    def new_batch(self) -> BatchName:
        """A batch that is to be written; sometimes one that somebody else has written too."""
        if self._batches_named and self.random.random() < 0.4:
            return self.random.choice(self._batches_named)
        number = len(self._batches_named)
        batch, version = ("stream", number) if number % 2 else (f"load-{number}", 0)
        name = BatchName(self.random.choice(QUEUES), batch, version)
        self._batches_named.append(name)
        return name

    def new_session(self, program: Program) -> AsyncWorkerSession:
        session = program.client.worker(lease_ms=LEASE_MS)
        session.id = f"w{len(self.world.workers)}"
        session.heartbeat = SilentHeartbeat()  # type: ignore[assignment]
        self.world.workers.append(session.id)
        return session

    # The run.

    def step(self) -> None:
        """Something happens to somebody."""
        random, faults = self.random, self.faults
        if random.random() < faults.script_flush:
            self.world.forget_scripts()
            self.happened("scripts flushed")
        if random.random() < faults.clock_jump:
            self._jump()
        if random.random() < faults.stage_expired:
            self._expire_stage()
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
        times = [(routine.ready_at, routine) for routine in self._routines()]
        if not times:
            return None
        self.now_ms = max(min(at for at, _ in times), self.now_ms)
        self.now_ms += self.random.choice((0, 0, 1, 5))
        return self.random.choice([routine for at, routine in times if at <= self.now_ms])

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
            self._execute(command, f"{routine} (reply lost)", routine.incarnations)
            self.happened(f"reply lost on {command.script.name}")
            self._again_or_give_up(routine)
        else:
            ask.sent += 1
            reply = self._execute(command, str(routine), routine.incarnations)
            is_settled = routine.incarnations and command.script.name != "register_queue"
            if is_settled and reply[0] == b"ok":
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
        if routine.name in ("main", "feed") and routine.program.is_serving:
            # The error ends a worker that does not handle it.
            self._crash(routine)
            return
        self._abandoned |= routine.incarnations
        routine.incarnations.clear()
        error = StoreUnavailable("no answer")
        self._resume(routine, error=error)

    def _resume(
        self, routine: Routine, reply: Any = None, error: BaseException | None = None
    ) -> None:
        if not routine.resume(reply, error):
            routine.program.routines.remove(routine)
            if routine.name == "main" and routine.program.is_serving:
                routine.program.hands = None

    def _crash(self, routine: Routine) -> None:
        """kill -9, wherever each of its routines happens to be."""
        program = routine.program
        self._note(routine, f"crashed {program.name}", None)
        self.happened(f"{program.kind} crashed")
        for one in program.routines:
            self._abandoned |= one.incarnations
            waits_for = one.ask.command.script.name if one.ask else ""
            if one.done_last in ("fail_worker", "leave_queue", "leave_jobs") and waits_for in (
                "leave_queue",
                "leave_jobs",
                "forget_worker",
            ):
                self.happened("crash inside fail_worker")
            joins = ("join_queue", "join_jobs", "keep_worker_alive")
            if waits_for in joins and one.name == "main":
                self.happened("crash inside start_work")
            if waits_for == "unregister_queue":
                self.happened("crash inside delete")
            is_send = waits_for.startswith("enqueue") or waits_for == "send_jobs"
            if is_send and one.ask and one.ask.sent:
                self.happened("producer crashed, outcome unknown")
        if program.stages:
            self.batches.writer_crashed(program.stages)
        if program.hands is not None:
            self.deaths[program.hands.session.id] = "signal 9" if len(self.deaths) % 2 else ""
        program.close()
        self._programs.remove(program)

    def _deliver_late(self, index: int) -> None:
        command = self._late.pop(index)
        self._execute(command, "late copy", self._abandoned)
        self.happened("late copy delivered")

    def _expire_stage(self) -> None:
        """Times to live run on the real clock, so what would expire is deleted by hand."""
        staging = self._staging().items()
        stages = [(queue, stage) for queue, found in staging for stage in sorted(found.expiring)]
        if stages:
            queue, stage = self.random.choice(stages)
            self.world.expire(queue, stage)
            self._forget_stage(queue, stage)
            self.trace.append((self.now_ms, "clock", f"stage {stage} of {queue} expired", None))

    def _jump(self) -> None:
        by_ms = self.random.choice(self.jumps_ms)
        self._skew_ms += by_ms
        self._most_back_ms += max(0, -by_ms)
        self.happened("clock jumped")
        self.trace.append((self.now_ms, "clock", f"jumped by {by_ms} ms", None))

    def _set_clock(self) -> None:
        """What time it is for the server."""
        self.world.now_ms = EPOCH_MS + int(self.now_ms) + self._skew_ms

    # The acts after the trouble.

    def _end_trouble(self) -> None:
        """Nothing goes wrong any more; what was stuck arrives; programs that were stopped go on."""
        self.faults = Faults()
        while self._late:
            self._deliver_late(self.random.randrange(len(self._late)))
        for program in self._programs:
            program.paused_until = 0.0
        self.is_draining = True

    def _until(self, condition: Callable[[], bool], within_ms: float, what: str) -> None:
        deadline = self.now_ms + within_ms
        while not condition():
            if self.now_ms > deadline:
                raise Violated(f"not within {within_ms:.0f} ms: {what}")
            self.step()

    def _are_gone(self, *kinds: str) -> bool:
        return not any(p.routines for p in self._programs if p.kind in kinds)

    # Who is there.

    def _living(self) -> frozenset[str]:
        return frozenset(p.hands.session.id for p in self._programs if p.hands and p.routines)

    def _routines(self) -> Iterator[Routine]:
        for program in self._programs:
            yield from program.routines

    def _note(self, routine: Routine, what: str, command: Command[Any] | None) -> None:
        summary = summarise(command) if command else ""
        self.trace.append((self.now_ms, str(routine), f"{what} {summary}", None))


def put_in_order(command: Command[Any], reply: list[Any]) -> None:
    """Sort what the server says in no particular order, as a replay must have one."""
    first, size = _UNORDERED.get(command.script.name, (len(reply), 1))
    items = sorted(reply[at : at + size] for at in range(first, len(reply), size))
    reply[first:] = [part for item in items for part in item]


def summarise(command: Command[Any]) -> str:
    keys = command.keys[0].partition("}")[0].removeprefix("{")
    return f"{command.script.name} {keys} {command.arguments!r}"


def describe(error: BaseException, scheduler: Engine, last: int | None = 60) -> str:
    """Everything that is needed to find out what went wrong."""
    steps = scheduler.trace if last is None else scheduler.trace[-last:]
    lines = [f"{at:9.1f} {who:28} {what} -> {reply!r}"[:400] for at, who, what, reply in steps]
    again = f"python -m tests.simulation.run{scheduler.option} --seed {scheduler.seed} --trace"
    return "\n".join([*lines, f"seed {scheduler.seed}: {error}", f"again: {again}"])
