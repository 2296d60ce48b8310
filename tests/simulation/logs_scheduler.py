"""One run of one seed, with a log and its groups: trouble, recovery, rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.store.commands.log_members import keep_member
from tests.simulation import logs_clients, logs_workers
from tests.simulation.arguments import Arguments
from tests.simulation.engine import LEASE_MS, Engine, Faults, summarise
from tests.simulation.logs_history import LogHistory
from tests.simulation.logs_process import Process, listen
from tests.simulation.logs_workers import GROUPS, LOG
from tests.simulation.programs import Program, Reading
from tests.simulation.server import Violated
from tests.simulation.virtual_loop import virtual_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.connection.address import Address
    from penstock.store.command import Command
    from tests.simulation.batches_look import Staging
    from tests.simulation.logs_world import LogWorld
    from tests.simulation.programs import Routine

MAX_WORKERS = 3
MESSAGES_PER_S = 6
"""so that there is always some, and never too much, to read"""
LOOK_EVERY = 60
"""steps after which everything is looked at as `penstock fsck` does"""
TURNS_PER_STEP = 4
"""A process is chosen that often for each of its requests, about."""
_MESSAGES = {"append_messages", "replay_errors", "pause_reading", "seek_group"}
"""scripts that tell those who listen to a partition"""


class LogScheduler(Engine):
    """Everybody works on one log."""

    world: LogWorld
    option = " --logs"

    def __init__(self, world: LogWorld, seed: int) -> None:
        super().__init__(world, seed)
        world.reset()
        random = self.random
        self.groups = GROUPS if random.random() < 0.5 else (random.choice(GROUPS),)
        self.partitions = random.choice((1, 2, 3))
        self.batch = random.choice((2, 5, 100))
        self.commit: Any = random.choice(("each", 0.1, 0.5))
        self.history = LogHistory(self.groups, self.sometimes)
        self.faults = Faults.draw(random)
        self.faults.crash /= TURNS_PER_STEP
        self.faults.pause /= TURNS_PER_STEP
        # Leases are counted by the server and by their owner, and both trust the other's pace.
        self.faults.clock_jump = 0.0
        self.is_healed = False
        """nothing is paused, and everything has its settings"""
        self._bodies_made = 0
        self._look_at = LOOK_EVERY
        self._gone: list[Process] = []

    # What clients need.

    @property
    def address(self) -> Address:
        return self._settings.address

    def new_bodies(self, count: int) -> list[bytes]:
        """Never seen before; some are such that no consumer can do them."""
        bodies = []
        for number in range(self._bodies_made, self._bodies_made + count):
            kind = b"poison" if self.random.random() < 0.4 / (count + 5) else b"message"
            bodies.append(b"%s-%d" % (kind, number))
        self._bodies_made += count
        self.history.offered.update(bodies)
        return bodies

    def token_hex(self, size: int) -> str:
        """In the place of `secrets.token_hex`: a seed names everything alike in every process."""
        return self.random.randbytes(size).hex()

    def run_ms(self, is_bad: bool) -> float:
        """How long a consumer takes."""
        if self.is_draining:
            return self.random.expovariate(1 / 10)
        if is_bad:
            return self.random.uniform(100, 1_500)
        if self.random.random() < 0.03:
            return self.random.uniform(1_000, 6_000)
        return self.random.expovariate(1 / 60)

    def fails(self) -> bool:
        return not self.is_draining and self.random.random() < 0.05

    def lifetime_ms(self) -> float:
        """How long a worker goes on before it stops by itself."""
        return self.random.expovariate(1 / 20_000)

    def was_left_alone(self, command: Command[Any] | Reading) -> None:
        """Nobody waits for the reply any more; the request may be on its way all the same."""
        if not isinstance(command, Reading) and self.random.random() < 0.5:
            self._late.append(command)

    def standing_still(self) -> list[tuple[str, int]]:
        """Groups and partitions that do not go on, as messages are gone."""
        return [
            (reading._consumer.group, number)
            for process in self._processes()
            if process.hands is not None and not process.main.done()
            for reading in process.hands.readings
            for number, owned in sorted(reading._owned.items())
            if owned.source.problem
        ]

    # The run.

    def run(self, steps: int) -> None:
        """The whole story: trouble, recovery, rest. Raises Violated."""
        others = {
            ("penstock.worker.serving", "listen"): listen,
            ("penstock.connection._async.queues", "secrets"): self,
        }
        with virtual_time(lambda: self.now_ms / 1000, self.random, others):
            try:
                self._run(steps)
            finally:
                for process in [*self._processes(), *self._gone]:
                    process.bury()
                for program in self._programs:
                    program.close()

    def _run(self, steps: int) -> None:
        for kind in ("producer", "producer", "worker", "worker", "operator"):
            self._start_program(kind)
        while self.steps < steps:
            self._populate()
            self.step()
        self._heal()
        self._until(self._is_read, 90_000, "everything is processed and written down")
        self._look_closely(is_quiet=True)
        self.is_stopping = True
        self._until(lambda: not any(self._routines()), 60_000, "workers stop")
        self._inspect_remains()

    def step(self) -> None:
        if self.random.random() < self.faults.pause / 2:
            self._freeze()
        super().step()
        if self.history.broken is not None:
            raise self.history.broken
        for program in self._programs:
            if isinstance(program, Process):
                logs_workers.check_process(program)
        if self.steps >= self._look_at:
            self._look_at = self.steps + LOOK_EVERY
            self._look_closely()

    def _execute(self, command: Command[Any], who: str, unsettled: set[str]) -> list[Any]:
        self._set_clock()
        name = command.script.name
        if name == "disown_partitions" and who != "late copy":
            member, number = command.arguments
            if number != "":
                group = command.keys[0].rpartition(":")[2]
                self.history.released(str(member), group, int(number))
        reply: list[Any]
        reply, look = self.world.run(command)
        self.trace.append((self.now_ms, who, summarise(command), reply))
        if look is not None:
            self.history.observe(command, reply, look)
        if name in _MESSAGES and reply[0] == b"ok":
            self._tell(command, reply)
        return reply

    def _tell(self, command: Command[Any], reply: list[Any]) -> None:
        """Those who listen hear it soon, or never."""
        arguments = Arguments(command)
        channel = arguments["appended"]
        is_about_group = command.script.name in ("pause_reading", "seek_group")
        message = b"@" + arguments["group"].encode() if is_about_group else b"1-1"
        for process in self._processes():
            pump = process.listening.get(channel)
            if pump is None:
                continue
            if self.random.random() < 0.1 and not self.is_draining:
                self.happened("message lost")
                continue
            process.loop.call_later(self.random.random() * 0.02, pump.heard, channel, message)

    def _look_closely(self, is_quiet: bool = False) -> None:
        """While an operator is at work, some things are about to be put right."""
        self._set_clock()
        found = [v for v in self.world.violations() if is_quiet or v.kind != _ON_ITS_WAY]
        if found:
            raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in found))

    def _crash(self, routine: Routine) -> None:
        program = routine.program
        self._note(routine, f"crashed {program.name}", None)
        self.happened(f"{program.kind} crashed")
        program.close()
        self._programs.remove(program)
        if isinstance(program, Process):
            self._gone.append(program)

    def _freeze(self) -> None:
        """An owner is stopped in mid-batch, for longer than its lease."""
        busy = [p for p in self._processes() if p.hands is not None and p.hands.serving.load]
        busy = [process for process in busy if process.paused_until < self.now_ms]
        if busy:
            self._freeze_one(self.random.choice(busy))

    def tempt(self, process: Process) -> None:
        """It is about to fail, and what it says of that is to be refused if it comes too late."""
        if self.random.random() < 20 * self.faults.pause:
            self._freeze_one(process)

    def _freeze_one(self, process: Process) -> None:
        process.paused_until = self.now_ms + self.random.uniform(LEASE_MS, 3 * LEASE_MS)
        self.trace.append((self.now_ms, process.name, "frozen in mid-batch", None))
        self.happened("owner frozen in mid-batch")

    def _staging(self) -> Mapping[str, Staging]:
        return {}

    def _forget_stage(self, queue: str, stage: str) -> None: ...

    def _check_hands(self) -> None: ...

    # The acts after the trouble.

    def _heal(self) -> None:
        self._end_trouble()
        for _ in range(2):
            self._start_program("worker")
        self._until(lambda: self._are_gone("producer", "operator"), 60_000, "operators end")
        self._start_program("healer")

    def _is_read(self) -> bool:
        return self.is_healed and not self.history.left()

    def _inspect_remains(self) -> None:
        """Nobody is left in the groups, once the time of the dead is up."""
        self._look_closely(is_quiet=True)
        self.now_ms += LEASE_MS + 1
        keys = self.world.keys.queue(LOG)
        for group in self.groups:
            command = keep_member(keys, group, "undertaker", LEASE_MS, 1, 1, joins=True)
            view = command.decode(self._execute(command, "undertaker", set()))
            if view is None or view.weights.keys() != {"undertaker"} or view.owners:
                raise Violated(f"somebody is left in {group}: {view}")

    # Who is there.

    def _populate(self) -> None:
        """Programs that have gone are replaced, as long as the world stays small."""
        alive = [program for program in self._programs if program.routines]
        self._gone += [p for p in self._programs if isinstance(p, Process) and not p.routines]
        self._programs = alive
        count = {kind: sum(p.kind == kind for p in alive) for kind in _KINDS}
        is_small = len(self.history.seen) < 50 + MESSAGES_PER_S * self.now_ms / 1000
        wanted = {
            "worker": 0.01 if count["worker"] < MAX_WORKERS else 0.0,
            "producer": 0.05 if count["producer"] < 2 and is_small else 0.0,
            "operator": 0.03 if count["operator"] < 1 else 0.0,
        }
        for kind, chance in wanted.items():
            if self.random.random() < chance:
                self._start_program(kind)

    def _start_program(self, kind: str, must: bool = False) -> None:
        self._programs_made += 1
        name = f"{kind} {self._programs_made}"
        if kind == "worker":
            process = Process(self, kind, name, self.new_client())
            process.boot(self._programs_made, logs_workers.work(self, process))
            self._programs.append(process)
            return
        program = Program(self, kind, name, self.new_client())
        program.spawn(logs_clients.routine(self, program), "main")
        self._programs.append(program)

    def _processes(self) -> list[Process]:
        return [program for program in self._programs if isinstance(program, Process)]


_ON_ITS_WAY = "partition_has_old_settings"
"""between two requests of somebody who changes them"""
_KINDS = ("worker", "producer", "operator", "healer")
