"""What every operation should do, in plain Python: the specification that Redis is held against.

Tasks of a simulation are all different, so a task stands for its element. Nobody listens in a
simulation, so waking workers means that nobody is idle any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from penstock.model.queues import DEFAULT_MAX_FAILURES, Counters
from penstock.model.snapshot import Registration
from tests.simulation.arguments import Arguments
from tests.simulation.reference_batches import Batches
from tests.simulation.server import QUEUES, Violated

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.snapshot import QueueSnapshot
    from penstock.store.command import Command
    from penstock.store.keys import NamespaceKeys
    from tests.simulation.world import WorldSnapshot

_SUSPECT = 2
_READ_ONLY = {
    *("describe_log", "find_processes", "inspect_queue", "list_queues", "list_work"),
    *("list_workers", "page_tasks"),
}

Reply = list[Any]


@dataclass
class Queue:
    """A queue as it should be."""

    name: str
    incarnation: str = ""
    process: int = 0
    is_of_tasks: bool = False
    """whether tasks came in, or a worker for tasks has joined: it takes no jobs then"""
    is_paused: bool = False
    max_length: int | None = None
    max_failures: int = DEFAULT_MAX_FAILURES
    ready: list[bytes] = field(default_factory=list)
    """the next to run first"""
    dead: list[bytes] = field(default_factory=list)
    running: dict[str, dict[int, bytes]] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)
    failures: dict[bytes, int] = field(default_factory=dict)
    unique: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """key -> holder, task"""
    holds: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """task -> key, holder; as long as the task carries them with it"""
    counters: dict[str, int] = field(default_factory=dict)
    batches: Batches = field(default_factory=Batches)

    def count(self, name: str, by: int) -> None:
        self.is_of_tasks |= name == "enqueued"
        if by:
            self.counters[name] = self.counters.get(name, 0) + by

    def create(self, incarnation: str, now_ms: int) -> None:
        if not self.incarnation:
            self.incarnation = incarnation
            self.process = now_ms * 1000

    def clear(self) -> None:
        self.ready, self.dead, self.failures, self.unique = [], [], {}, {}

    def forget(self, task: bytes) -> None:
        """What a task takes with it when it leaves for good."""
        self.failures.pop(task, None)
        key, holder = self.holds.get(task, (b"", b""))
        if key and self.unique.get(key, (b"",))[0] == holder:
            del self.unique[key]

    def deliveries_failed(self, tasks: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Count a failure of each; returns those to try again and those that are dead now."""
        again: list[bytes] = []
        dead: list[bytes] = []
        for task in tasks:
            self.failures[task] = self.failures.get(task, 0) + 1
            (dead if self.failures[task] >= self.max_failures else again).append(task)
        for task in dead:
            self.forget(task)
            self.holds.pop(task, None)
        self.dead += dead
        return again, dead

    def take(self, worker: str, processes: list[int]) -> tuple[list[bytes], list[int]]:
        """Out of the worker's hands; returns the tasks, and the processes it did not hold."""
        held = self.running.get(worker, {})
        refused = [process for process in processes if process not in held]
        taken = [held.pop(process) for process in processes if process in held]
        return taken, refused

    def start(self, worker: str, limit: int, wait: bool) -> Reply:
        if worker not in self.members:
            return [b"not_working"]
        if self.is_paused or not self.ready:
            if wait:
                self.idle.add(worker)
            return [b"paused" if self.is_paused else b"empty"]
        count = self._startable(worker, limit)
        if not count:
            self.idle.clear()
            return [b"apart"]
        started, self.ready = self.ready[:count], self.ready[count:]
        first = self.process + 1
        self.process += count
        self.count("started", count)
        held = self.running.setdefault(worker, {})
        held.update((first + index, task) for index, task in enumerate(started))
        if wait and count < limit:
            self.idle.add(worker)
        if self.ready:
            self.idle.clear()
        return [b"ok", first, *started]

    def _startable(self, worker: str, limit: int) -> int:
        """A task on its last chance is handed out alone, and not to a worker that holds another
        one, so that it takes no others down with it.
        """
        next_tasks = self.ready[:limit]
        count = next((i for i, t in enumerate(next_tasks) if self._is_suspect(t)), len(next_tasks))
        if not count and not any(map(self._is_suspect, self.running.get(worker, {}).values())):
            return 1
        return count

    def _is_suspect(self, task: bytes) -> bool:
        return self.failures.get(task, 0) >= max(_SUSPECT, self.max_failures - 1)


class Reference:
    """The whole namespace as it should be."""

    def __init__(self, keys: NamespaceKeys) -> None:
        self.queues = {name: Queue(name) for name in QUEUES}
        self.registry: dict[str, Registration] = {}
        self.leases: dict[str, int] = {}
        self.condemned: dict[str, int] = {}
        self.info: set[str] = set()
        self.work: dict[str, set[str]] = {}
        self._memory: dict[str, tuple[int, Reply]] = {}
        self._tags = {keys.queue(name).tag: name for name in QUEUES}
        self._now_ms = 0

    def queue_of(self, command: Command[Any]) -> str:
        """Which queue a command is about; empty if it is about none."""
        tag = command.keys[0].partition("}")[0] + "}"
        return self._tags.get(tag, "")

    def apply(self, command: Command[Any], now_ms: int) -> tuple[Reply | None, bool]:
        """Do what the command should do. Returns the reply it should give (None: not said) and
        whether it was a repetition.
        """
        name = command.script.name
        if name in _READ_ONLY:
            return None, False
        self._now_ms = now_ms
        arguments = Arguments(command)
        memory: str | None = arguments.get("memory")
        number: int = arguments.get("operation", 0)
        if memory is not None and self._memory.get(memory, (0, []))[0] >= number:
            return self._repeat(name, command, arguments), True
        act: Callable[..., Reply] = getattr(self, f"_{name}")
        queue = self.queue_of(command)
        reply = act(self.queues[queue], arguments) if queue else act(arguments)
        if memory is not None and reply != [b"exists"]:
            self._memory[memory] = (number, reply)
        return reply, False

    def expire(self, queue: str, stage: str) -> None:
        """A stage that was not decided in time is gone."""
        self.queues[queue].batches.stages.pop(stage, None)

    def compare(self, snapshot: WorldSnapshot, queue: str) -> None:
        """Raise Violated if what is stored is not what should be."""
        if queue:
            _compare_queue(self.queues[queue], snapshot.queues[queue])
            difference = self.queues[queue].batches.difference(snapshot.staging[queue])
            if difference:
                raise Violated(f"batches of {queue}: {difference}")
            return
        for what in ("registry", "leases", "condemned"):
            _equal(what, getattr(self, what), getattr(snapshot, what))
        _equal("info", self.info, set(snapshot.info))
        served = {
            w: {n.partition("\0")[0] for n in names} for w, names in self.work.items() if names
        }
        _equal("work", served, {w: set(names) for w, names in snapshot.work.items()})

    def _repeat(self, name: str, command: Command[Any], arguments: Arguments) -> Reply | None:
        number, reply = self._memory[arguments["memory"]]
        if number > arguments["operation"]:
            return None
        if reply[0] == b"exists":
            # The task that held the key is not remembered, only that one did.
            holds = self.queues[self.queue_of(command)].unique.get(arguments["key"])
            return [b"exists", holds[1] if holds else arguments["task"]]
        if name not in ("start_tasks", "finish_tasks"):
            return reply
        at = 1 if name == "finish_tasks" else 0
        if reply[at] != b"ok":
            return reply
        held = self.queues[self.queue_of(command)].running.get(arguments["worker"], {})
        is_held = all(reply[at + 1] + i in held for i in range(len(reply) - at - 2))
        return reply if is_held else [*reply[:at], b"not_working"]

    # Tasks.

    def _enqueue_tasks(self, queue: Queue, a: Arguments) -> Reply:
        tasks = a["tasks"]
        refusal = self._refusal(queue, a) or self._full(queue, len(tasks))
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        queue.ready += tasks
        queue.count("enqueued", len(tasks))
        queue.idle.clear()
        return [b"ok", len(queue.ready)]

    def _enqueue_unique_task(self, queue: Queue, a: Arguments) -> Reply:
        key, holder, task = a["key"], a["holder"], a["task"]
        refusal = self._refusal(queue, a)
        if not refusal and key in queue.unique:
            return [b"exists", queue.unique[key][1]]
        refusal = refusal or self._full(queue, 1)
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        queue.ready.append(task)
        queue.unique[key] = (holder, task)
        queue.holds[task] = (key, holder)
        queue.count("enqueued", 1)
        queue.idle.clear()
        return [b"ok", len(queue.ready)]

    def _refusal(self, queue: Queue, a: Arguments) -> Reply | None:
        if not queue.incarnation and not a["incarnation"]:
            return [b"no_queue"]
        if queue.incarnation and a["incarnation"] not in ("", queue.incarnation):
            return [b"queue_exists"]
        return None

    def _full(self, queue: Queue, count: int) -> Reply | None:
        if queue.max_length is not None and len(queue.ready) + count > queue.max_length:
            return [b"full", len(queue.ready), queue.max_length]
        return None

    def _cancel_tasks(self, queue: Queue, a: Arguments) -> Reply:
        task = a["task"]
        if task not in queue.ready:
            return [b"ok", 0]
        queue.ready.remove(task)
        queue.forget(task)
        queue.count("cancelled", 1)
        return [b"ok", 1]

    def _retry_dead_tasks(self, queue: Queue, a: Arguments) -> Reply:
        retried, queue.dead = queue.dead[: a["limit"]], queue.dead[a["limit"] :]
        queue.ready += retried
        if retried:
            queue.idle.clear()
        return [b"ok", len(retried), len(queue.dead)]

    # Batches.

    def _stage_chunk(self, queue: Queue, a: Arguments) -> Reply:
        return queue.batches.stage(a)

    def _drop_stages(self, queue: Queue, a: Arguments) -> Reply:
        return [b"ok", queue.batches.drop(a["stage"])]

    def _decide_batch(self, queue: Queue, a: Arguments) -> Reply:
        if queue.batches.is_known(a):
            queue.batches.drop(a["stage"])
            return [b"known"]
        lost = queue.batches.first_lost(a)
        if lost is not None:
            return [b"stage_lost", lost]
        refusal = self._refusal(queue, a)
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        queue.is_of_tasks = True
        queue.batches.decide(a, self._now_ms)
        return [b"ok"]

    def _move_tasks(self, queue: Queue, a: Arguments) -> Reply:
        batches, ready = queue.batches, len(queue.ready)
        if not batches.moving:
            return [b"empty"]
        tasks = batches.next_chunk()
        room = len(tasks) if queue.max_length is None else queue.max_length - ready
        if room <= 0:
            return [b"no_room", ready, queue.max_length, batches.staged]
        moved = tasks[:room]
        batches.move(len(moved), self._now_ms)
        queue.ready += moved
        queue.count("enqueued", len(moved))
        queue.idle.clear()
        return [b"ok", len(moved), batches.staged]

    # Processes.

    def _start_tasks(self, queue: Queue, a: Arguments) -> Reply:
        return queue.start(a["worker"], a["limit"], a["wait"] == 1)

    def _finish_tasks(self, queue: Queue, a: Arguments) -> Reply:
        finished, refused = queue.take(a["worker"], a["processes"][: a["count"]])
        for task in finished:
            queue.forget(task)
            queue.holds.pop(task, None)
        if queue.incarnation:
            queue.count("finished", len(finished))
            queue.count("refused", len(refused))
        if not a["limit"]:
            return [refused, b"idle"]
        return [refused, *queue.start(a["worker"], a["limit"], a["wait"] == 1)]

    def _stop_tasks(self, queue: Queue, a: Arguments) -> Reply:
        stopped, refused = queue.take(_worker(a["running"]), a["processes"])
        oldest_first = stopped[::-1]
        if a["side"] == "front":
            queue.ready = oldest_first + queue.ready
        else:
            queue.ready += oldest_first
        queue.count("stopped", len(stopped))
        if queue.incarnation:
            queue.count("refused", len(refused))
        if stopped:
            queue.idle.clear()
        return [b"ok", *refused]

    def _fail_tasks(self, queue: Queue, a: Arguments) -> Reply:
        failed, refused = queue.take(_worker(a["running"]), a["processes"])
        again, dead = queue.deliveries_failed(failed)
        queue.ready += again
        queue.count("failed", len(failed))
        if queue.incarnation:
            queue.count("refused", len(refused))
        if again:
            queue.idle.clear()
        return [b"ok", len(dead), *refused]

    def _read_failures(self, queue: Queue, a: Arguments) -> Reply:
        held = queue.running.get(_worker(a["running"]), {})
        counts = [queue.failures.get(held.get(process, b""), 0) for process in a["processes"]]
        return [b"ok", queue.max_failures, *counts]

    # Queues.

    def _join_queue(self, queue: Queue, a: Arguments) -> Reply:
        refusal = self._refusal(queue, a)
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        queue.is_of_tasks = True
        queue.members.add(a["worker"])
        return [b"ok"]

    def _join_jobs(self, queue: Queue, a: Arguments) -> Reply:
        return [b"tasks", b""]  # as it is sent to queues of tasks alone

    _send_jobs = _join_jobs

    def _leave_queue(self, queue: Queue, a: Arguments) -> Reply:
        worker = a["worker"]
        returned, _ = queue.take(worker, sorted(queue.running.get(worker, {})))
        queue.members.discard(worker)
        queue.idle.discard(worker)
        queue.count("lost" if a["lost"] else "stopped", len(returned))
        dead: list[bytes] = []
        if a["lost"]:
            returned, dead = queue.deliveries_failed(returned)
        queue.ready = returned + queue.ready
        if queue.ready:
            queue.idle.clear()
        return [b"ok", len(returned), len(dead)]

    def _pause_queue(self, queue: Queue, a: Arguments) -> Reply:
        refusal = self._refusal(queue, a)
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        queue.is_paused = True
        return [b"ok"]

    def _resume_queue(self, queue: Queue, a: Arguments) -> Reply:
        if not queue.incarnation:
            return [b"no_queue"]
        if queue.is_paused and queue.ready:
            queue.idle.clear()
        queue.is_paused = False
        return [b"ok"]

    def _configure_queue(self, queue: Queue, a: Arguments) -> Reply:
        refusal = self._refusal(queue, a)
        if refusal:
            return refusal
        queue.create(a["incarnation"], self._now_ms)
        flat = a["settings"]
        settings = dict(zip(flat[::2], flat[1::2], strict=True))
        if "max_length" in settings:
            queue.max_length = int(settings["max_length"]) if settings["max_length"] else None
        if "max_failures" in settings:
            queue.max_failures = int(settings["max_failures"] or DEFAULT_MAX_FAILURES)
        return [b"ok"]

    def _delete_queue(self, queue: Queue, a: Arguments) -> Reply:
        if not queue.incarnation:
            return [b"no_queue"]
        removed = len(queue.ready) + len(queue.dead)
        running = sum(map(len, queue.running.values()))
        incarnation = queue.incarnation
        dropped = queue.batches.delete()
        queue.clear()
        if running:
            queue.count("deleted", removed)
            return [b"ok", removed + dropped, running, b""]
        self.queues[queue.name] = Queue(
            queue.name, members=queue.members, idle=queue.idle, batches=queue.batches
        )
        return [b"ok", removed + dropped, 0, incarnation.encode()]

    def _register_queue(self, a: Arguments) -> Reply:
        self.registry[a["incarnation"]] = Registration(a["queue"], self._now_ms)
        return [b"ok"]

    def _unregister_queue(self, a: Arguments) -> Reply:
        self.registry.pop(a["incarnation"], None)
        return [b"ok"]

    # Workers.

    def _start_worker(self, a: Arguments) -> Reply:
        worker = a["worker"]
        if worker in self.leases or worker in self.condemned or worker in self.info:
            return [b"exists"]
        self.leases[worker] = self._now_ms + a["lease_ms"]
        self.info.add(worker)
        return [b"ok"]

    def _keep_worker_alive(self, a: Arguments) -> Reply:
        worker, lease_ms, now_ms = a["worker"], a["lease_ms"], self._now_ms
        if worker not in self.leases:
            return [b"lease_lost"]
        dead: list[str] = []
        if a["sweep"] and self.leases[worker] >= now_ms:
            lapsed = sorted((end, peer) for peer, end in self.leases.items() if end < now_ms)
            overdue = sorted((at, peer) for peer, at in self.condemned.items() if at <= now_ms)
            dead = [peer for _, peer in lapsed + overdue][: a["sweep"]]
        self.leases[worker] = now_ms + lease_ms
        for peer in dead:
            self.leases.pop(peer, None)
            self.condemned[peer] = now_ms + lease_ms
        return [b"ok", *(peer.encode() for peer in dead)]

    def _start_work(self, a: Arguments) -> Reply:
        if a["worker"] not in self.leases:
            return [b"lease_lost"]
        self.work.setdefault(a["worker"], set()).add(a["queue"])
        return [b"ok"]

    def _stop_work(self, a: Arguments) -> Reply:
        self.work.get(_worker(a["work"]), set()).discard(a["queue"])
        return [b"ok"]

    def _fail_worker(self, a: Arguments) -> Reply:
        worker = a["worker"]
        if worker not in self.leases and worker not in self.condemned:
            return [b"absent"]
        self.leases.pop(worker, None)
        self.condemned[worker] = self._now_ms + a["retry_ms"]
        return [b"ok", *sorted(queue.encode() for queue in self.work.get(worker, ()))]

    def _forget_worker(self, a: Arguments) -> Reply:
        worker = a["worker"]
        if worker in self.leases:
            return [b"alive"]
        self.work.pop(worker, None)
        self.info.discard(worker)
        self.condemned.pop(worker, None)
        return [b"ok"]


def _compare_queue(should: Queue, found: QueueSnapshot) -> None:
    waiting = [element.task for element in found.waiting or ()]
    _equal(f"ready tasks of {should.name}", should.ready, waiting)
    _equal(f"dead tasks of {should.name}", should.dead, list(found.buried))
    held = {w: processes for w, processes in should.running.items() if processes}
    found_held = {w: {p: e.task for p, e in es.items()} for w, es in found.running.items()}
    _equal(f"processes of {should.name}", held, found_held)
    _equal(f"members of {should.name}", should.members, set(found.members))
    _equal(f"idle workers of {should.name}", should.idle, set(found.idle))
    _equal(f"unique keys of {should.name}", should.unique, dict(found.unique))
    digests = {element.digest: element.task for element in found.elements()}
    failures = {digests.get(digest, digest): n for digest, n in found.failures.items()}
    _equal(f"failures in {should.name}", should.failures, failures)
    for name in ("incarnation", "process", "is_paused", "max_length", "max_failures"):
        _equal(f"{name} of {should.name}", getattr(should, name), getattr(found, name))
    counters = {f.name: should.counters.get(f.name, 0) for f in fields(Counters)}
    found_counters = {f.name: getattr(found.counters, f.name) for f in fields(Counters)}
    _equal(f"counters of {should.name}", counters, found_counters)


def _equal(what: str, should: object, found: object) -> None:
    if should != found:
        raise Violated(f"{what} should be {should!r} but are {found!r}")


def _worker(key: str) -> str:
    return key.rpartition(":")[2]
