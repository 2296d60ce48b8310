"""What the clients were told, held against what happened: the promises.

The reference says what each operation does; this says what may be relied on, and knows nothing
about how it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.queues import DEFAULT_MAX_FAILURES
from tests.invariants import (
    AT_EVERY_INSTANT,
    effects_are_single,
    failures_stay_below_the_limit,
    finishes_are_single,
    tasks_have_an_origin,
    tokens_only_grow,
    violations,
)
from tests.simulation.arguments import Arguments
from tests.simulation.batch_history import BatchStep
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from penstock.store.command import Command
    from tests.invariants import Snapshot, Violation
    from tests.simulation.batch_history import BatchHistory
    from tests.simulation.world import WorldSnapshot


class History:
    """Everything that was promised and everything that was seen, since the beginning."""

    def __init__(self, max_failures: int, sometimes: Counter[str], batches: BatchHistory) -> None:
        self._checks = AT_EVERY_INSTANT
        if max_failures == DEFAULT_MAX_FAILURES:
            # Where the limit is lowered in the middle, some tasks are over it for a while.
            self._checks += (failures_stay_below_the_limit,)
        self.offered: set[bytes] = set()
        """tasks that somebody tried to enqueue"""
        self.refused: set[bytes] = set()
        """tasks whose producer was told that they were not accepted"""
        self.seen: set[bytes] = set()
        """tasks that were ever in a queue"""
        self.present: dict[bytes, str] = {}
        """tasks that are in a queue now, and where"""
        self.gone: dict[bytes, str] = {}
        """tasks that have left for good -> by which operation"""
        self.sometimes = sometimes
        self._batches = batches
        self._finishes: list[tuple[str, int]] = []
        self._effects: list[tuple[str, str, int]] = []

    # What clients were told.

    def accepted(self, tasks: Iterable[bytes]) -> None:
        """A producer was told that these are in."""
        for task in tasks:
            if task not in self.seen:
                raise Violated(f"task {task!r} was acknowledged but never in the queue")

    def rejected(self, tasks: Iterable[bytes]) -> None:
        """A producer was told that these are not in."""
        for task in tasks:
            self.refused.add(task)
            if task in self.seen:
                raise Violated(f"task {task!r} was refused but is in the queue")

    def finish_told(self, queue: str, process: int, is_accepted: bool) -> None:
        """A worker was told whether its finish counted."""
        if is_accepted != ((queue, process) in self._finishes):
            told = "accepted" if is_accepted else "refused"
            raise Violated(f"the finish of process {process} in {queue} was {told}, and it was not")

    # What happened.

    def observe(
        self,
        command: Command[Any],
        reply: list[Any],
        is_repetition: bool,
        before: WorldSnapshot,
        after: WorldSnapshot,
        now_ms: int,
    ) -> None:
        """One command has run; everything must still be as promised."""
        for name, queue in after.queues.items():
            came: list[bytes] = []
            if before.queues[name] is not queue:
                came = self._queue_changed(command, name, before, after, is_repetition)
            self._batches_changed(command, reply, is_repetition, name, before, after, came)
        if command.script.name == "keep_worker_alive" and len(reply) > 1:
            self._peers_handed_out(command, reply, before, now_ms)
        if command.script.name == "leave_queue":
            self._queue_left(command, reply, before)
        found = [*violations(after, self._checks), *tokens_only_grow(before, after)]
        found += finishes_are_single(self._finishes[-10:])
        _raise(found)

    def at_the_end(self) -> list[Violation]:
        """What can be said about the history as a whole."""
        return [
            *tasks_have_an_origin(self.seen, self.offered),
            *finishes_are_single(self._finishes),
            *effects_are_single(self._effects),
        ]

    def _queue_changed(
        self,
        command: Command[Any],
        name: str,
        before: Snapshot,
        after: Snapshot,
        is_repetition: bool,
    ) -> list[bytes]:
        """Returns the tasks that came into the queue, in their order."""
        operation = command.script.name
        places = _places(after, name)
        others = {task: at for task, at in self.present.items() if not at.startswith(f"{name} ")}
        for task in places.keys() & others.keys():
            raise Violated(f"task {task!r} is in two places: {places[task]} and {others[task]}")
        here = {task for task, at in self.present.items() if at.startswith(f"{name} ")}
        if is_repetition and _tasks(before, name) != _tasks(after, name):
            raise Violated(f"a repeated {operation} had a second effect on {name}")
        for task in here - places.keys():
            self.gone[task] = operation
            if operation not in ("finish_tasks", "cancel_tasks", "delete_queue"):
                raise Violated(f"task {task!r} vanished from {name} by {operation}")
        for task in places.keys() - here:
            if task in self.gone:
                raise Violated(f"task {task!r} is back, although {self.gone[task]} had removed it")
            if task in self.refused:
                raise Violated(f"task {task!r} is in {name}, although it was refused")
        self.seen |= places.keys()
        self.present = {**others, **places}
        if operation == "finish_tasks":
            old, new = before.queues[name].running, after.queues[name].running
            worker = Arguments(command)["worker"]
            ended = old.get(worker, {}).keys() - new.get(worker, {}).keys()
            self._finishes += [(name, process) for process in ended]
        a = Arguments(command)
        if not is_repetition and "memory" in a:
            self._effects.append((name, a["memory"], a["operation"]))
        self._nobody_sleeps_beside_work(name, after)
        return [task for task in places if task not in here]

    def _batches_changed(
        self,
        command: Command[Any],
        reply: list[Any],
        is_repetition: bool,
        name: str,
        before: WorldSnapshot,
        after: WorldSnapshot,
        came: list[bytes],
    ) -> None:
        old, new = before.staging[name], after.staging[name]
        is_decision = command.script.name == "decide_batch" and f":{name}}}" in command.keys[-1]
        if not is_decision and not came and old is new:
            return
        if is_repetition and old is not new:
            raise Violated(f"a repeated {command.script.name} had a second effect on {name}")
        if command.script.name == "delete_queue" and not is_repetition and reply[0] == b"ok":
            for task in self._batches.left_in(name):
                self.gone[task] = "delete_queue"
        arguments = Arguments(command)
        self._batches.observe(
            BatchStep(command.script.name, arguments, reply, is_repetition, name, old, new), came
        )

    def _nobody_sleeps_beside_work(self, name: str, after: Snapshot) -> None:
        queue = after.queues[name]
        if queue.idle and queue.ready and not queue.is_paused:
            raise Violated(f"{sorted(queue.idle)} wait in {name} although {queue.ready} tasks do")

    def _peers_handed_out(
        self, command: Command[Any], reply: list[Any], before: Snapshot, now_ms: int
    ) -> None:
        worker = Arguments(command)["worker"]
        if before.leases[worker] < now_ms:
            raise Violated(f"worker {worker!r} judged others though its own lease had run out")
        for peer in (name.decode() for name in reply[1:]):
            if before.leases.get(peer, 0) >= now_ms:
                raise Violated(f"worker {peer!r} was given up although its lease had not run out")
        self.sometimes["lease ran out"] += 1

    def _queue_left(self, command: Command[Any], reply: list[Any], before: Snapshot) -> None:
        a = Arguments(command)
        if a["lost"] and a["worker"] in before.leases and reply[1:] != [0, 0]:
            raise Violated(f"tasks of {a['worker']!r} were taken while it held its lease")
        if a["lost"] and reply[1:] != [0, 0]:
            self.sometimes["worker recovered with its tasks"] += 1


def _places(snapshot: Snapshot, name: str) -> dict[bytes, str]:
    """Where every task of a queue is; raises Violated if one is in two places."""
    queue = snapshot.queues[name]
    found = [(element.task, f"{name} ready") for element in queue.waiting or ()]
    found += [(task, f"{name} dead") for task in queue.buried]
    for worker, held in queue.running.items():
        found += [(element.task, f"{name} held by {worker}") for element in held.values()]
    places: dict[bytes, str] = {}
    for task, place in found:
        if task in places:
            raise Violated(f"task {task!r} is in two places: {places[task]} and {place}")
        places[task] = place
    return places


def _tasks(snapshot: Snapshot, name: str) -> tuple[Any, ...]:
    queue = snapshot.queues[name]
    return queue.waiting, queue.buried, queue.running


def _raise(found: list[Violation]) -> None:
    if found:
        raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in found))
