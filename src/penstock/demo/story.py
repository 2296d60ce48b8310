"""The demo itself, told in the order in which it happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.client import fsck
from penstock.demo.outcome import Outcome, count_lost, find_disagreements
from penstock.demo.stage import CONCURRENCY

if TYPE_CHECKING:
    from penstock.demo.processes import WorkerProcess
    from penstock.demo.stage import Stage

_KILL_AT = 0.15
_FREEZES = 3


def tell_story(stage: Stage) -> Outcome:
    """The second worker is killed, then the last is frozen past its lease and woken; the others
    go on.
    """
    began_at = time.monotonic()
    tell = stage.view.tell
    stage.wait_for_workers()
    tell(f"{len(stage.workers)} workers started, {CONCURRENCY} tasks at a time each")

    working_since = time.monotonic()
    accepted = stage.queue.enqueue_many(str(number).encode() for number in range(stage.tasks))
    tell(f"{accepted:,} tasks accepted in {time.monotonic() - working_since:.2f} s")

    stage.until(lambda: stage.finished >= accepted * _KILL_AT)
    recovery_s = _kill(stage, stage.workers[1])
    _freeze(stage, stage.workers[-1])

    stage.until(lambda: stage.finished >= accepted)
    tasks_per_s = accepted / (time.monotonic() - working_since)
    tell("all tasks finished; stopping the workers and counting")
    stage.stop_workers()
    return _count(stage, accepted, recovery_s, tasks_per_s, began_at)


def _kill(stage: Stage, worker: WorkerProcess) -> float:
    """Returns how long it took until its tasks were back."""
    worker.kill()
    killed_at = time.monotonic()
    stage.look()
    lost = stage.state.counters.lost
    stage.view.tell(f"{worker} killed with SIGKILL, holding {stage.held(worker) or 0} tasks")
    stage.until(lambda: stage.held(worker) is None)
    recovery_s = time.monotonic() - killed_at
    returned = stage.state.counters.lost - lost
    stage.view.tell(f"a peer put its {returned} tasks back at the front after {recovery_s:.1f} s")
    stage.linger(stage.lease_s / 4)
    return recovery_s


def _freeze(stage: Stage, worker: WorkerProcess) -> None:
    """Until the worker has tried to finish what it no longer held.

    Waking up, it learns that its lease is lost from its heartbeat or from a finish. It is nearly
    always the finish; if not, it is frozen once more.
    """
    for _ in range(_FREEZES):
        if not _freeze_at_work(stage, worker):
            return
        frozen_at = time.monotonic()
        before = stage.state.counters
        stage.view.tell(f"{worker} frozen with SIGSTOP, holding {stage.held(worker)} tasks")
        stage.until(lambda: stage.held(worker) is None)
        took_s = time.monotonic() - frozen_at
        returned = stage.state.counters.lost - before.lost
        stage.view.tell(f"its {returned} tasks are back after {took_s:.1f} s; it does not know")
        stage.linger(stage.lease_s / 4)
        worker.thaw()
        stage.until(lambda: stage.held(worker) is not None)
        worker.state = "recovered"
        refused = stage.state.counters.refused - before.refused
        stage.view.tell(f"{worker} woke up: {refused} finishes refused, starts under a new name")
        if refused:
            return


def _freeze_at_work(stage: Stage, worker: WorkerProcess) -> bool:
    """False if there is no work left to freeze it at."""
    while True:
        worker.freeze()
        # What it sent before it froze is still carried out.
        stage.linger(0.05)
        if stage.held(worker):
            return True
        worker.thaw()
        worker.state = "alive"
        if stage.state.ready == 0:
            return False
        stage.linger(0.05)


def _count(
    stage: Stage, accepted: int, recovery_s: float, tasks_per_s: float, began_at: float
) -> Outcome:
    report = fsck.check(stage.client)
    return Outcome(
        accepted=accepted,
        finished=stage.finished,
        lost=count_lost(accepted, stage.ledger),
        refused=stage.state.counters.refused,
        run_more_than_once=stage.ledger.repeated,
        recovery_s=round(recovery_s, 2),
        tasks_per_s=round(tasks_per_s),
        seconds=round(time.monotonic() - began_at, 1),
        disagreements=find_disagreements(accepted, stage.state, stage.ledger, report),
    )
