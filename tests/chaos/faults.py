"""Kills, freezes and restarts workers at random, and sees to it that there are always enough; cuts
connections.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from tests.chaos.fleet import LEASE_MS

if TYPE_CHECKING:
    from tests.chaos.fleet import WorkerProcess
    from tests.chaos.harness import World
    from tests.chaos.recovery import RecoveryWatch

_FROZEN_AT_ONCE = 2


class WorkerFaults:
    """A fault counts only if the worker served the queue when it happened; `at_work` of them held
    tasks.
    """

    def __init__(self, world: World, hooks: int, killed: RecoveryWatch, seed: int) -> None:
        self.kills = self.freezes = self.restarts = self.at_work = 0
        self._world = world
        self._killed = killed
        self._random = random.Random(seed)
        self._bag: list[str] = []
        self._thaws: list[tuple[float, WorkerProcess]] = []
        self._leaving: list[WorkerProcess] = []
        self._hooks = [world.fleet.start() for _ in range(hooks)]
        world.wait_for_workers(self._hooks)

    def run(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self._strike(self._random.choice([w for w in self._hooks if not w.is_frozen]))
            threading.Event().wait(self._random.uniform(0.2, 0.8))
            self._thaw(time.monotonic())

    def heal(self) -> None:
        """Everybody runs again. Who was asked to stop has stopped, and ended well."""
        self._thaw(float("inf"))
        for worker in self._leaving:
            worker.wait(30)
            assert worker.status == 0, worker.log[-3000:]
        for worker in self._hooks:
            assert worker.is_running, worker.log[-3000:]

    def _strike(self, victim: WorkerProcess) -> None:
        members = self._world.members(victim)
        if not members:
            return
        fault = self._next_fault()
        if fault == "freeze" and len(self._thaws) == _FROZEN_AT_ONCE:
            return
        self.at_work += any(members.values())
        if fault == "kill":
            victim.kill()
            self.kills += 1
            for worker in members:
                self._killed.lost(worker)
            self._replace(victim)
        elif fault == "freeze":
            victim.freeze()
            self.freezes += 1
            frozen_s = LEASE_MS / 1000 * self._random.uniform(1.3, 2.5)
            self._thaws.append((time.monotonic() + frozen_s, victim))
        else:
            victim.terminate()
            self.restarts += 1
            self._leaving.append(victim)
            self._replace(victim)

    def _next_fault(self) -> str:
        """In random order, but each as often as it should be."""
        if not self._bag:
            self._bag = ["kill"] * 5 + ["freeze"] * 4 + ["restart"]
            self._random.shuffle(self._bag)
        return self._bag.pop()

    def _replace(self, victim: WorkerProcess) -> None:
        self._hooks.remove(victim)
        self._hooks.append(self._world.fleet.start())

    def _thaw(self, now: float) -> None:
        for entry in [entry for entry in self._thaws if entry[0] <= now]:
            self._thaws.remove(entry)
            entry[1].thaw()


def cut_all(world: World) -> int:
    """End all connections but our own; returns how many."""
    kinds = ("normal", "pubsub")
    return sum(int(world.server.command("CLIENT", "KILL", "TYPE", kind)) for kind in kinds)
