"""Whether limits are kept, by books of their own: what runs is counted, and so is what starts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.server import Violated

if TYPE_CHECKING:
    from tests.simulation.jobs_checks import Change
    from tests.simulation.jobs_look import Limit

_SLACK = 1e-6


@dataclass
class Bucket:
    """As much as a limit allows, from the moment on at which it was set."""

    limit: Limit
    tokens: float
    at_ms: int

    def take(self, count: int, now_ms: int) -> float:
        """What is left; below 0 if it was more than allowed."""
        gained = max(0, now_ms - self.at_ms) * self.limit.rate / self.limit.per_ms
        self.tokens = min(self.limit.burst, self.tokens + gained) - count
        self.at_ms = max(now_ms, self.at_ms)
        return self.tokens


class LimitBooks:
    """Slots and rates of all keys."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def check(self, change: Change) -> None:
        """What was started was within the limits that held then."""
        jobs = [change.new.jobs[id] for id in change.started.values()]
        if not jobs:
            return
        counted = Counter(job.stored.head.key for job in jobs if job.stored.head.key)
        counted[""] = len(jobs)
        running = [job for job in change.new.jobs.values() if job.stored.state == "running"]
        for key, count in counted.items():
            limit = change.new.limit_of(key)
            if limit is None:
                continue
            holders = sum(not key or job.stored.head.key == key for job in running)
            if 0 < limit.slots < holders:
                raise Violated(
                    f"{count} jobs of {key!r} started in {change.queue}, so {holders} run, and "
                    f"{limit.slots} may"
                )
            if limit.rate:
                self._take(change, key, limit, count)

    @staticmethod
    def check_parked(change: Change) -> None:
        """Nobody waits for a slot while one is free: it would be offered to nobody else."""
        snapshot = change.new.snapshot
        for key, at_ms in snapshot.unparks.items():
            limit = change.new.limit_of(key)
            running = snapshot.busy.get(key, 0)
            if math.isinf(at_ms) and (limit is None or running < limit.slots):
                raise Violated(
                    f"jobs of {key!r} wait for a slot in {change.queue}, and {running} run under "
                    f"{limit}"
                )

    def check_reply(self, change: Change) -> None:
        """Nobody is held up by a limit that is not reached."""
        if change.step.is_repetition or change.step.claim.word != "limited":
            return
        limit = change.new.limits[""]
        running = change.new.snapshot.totals.states["running"]
        # How many tokens are left depends on limits of before, so only slots are clear.
        if running < limit.slots and not limit.rate:
            raise Violated(f"{change.worker!r} was held up by {limit}, and {running} jobs run")

    def _take(self, change: Change, key: str, limit: Limit, count: int) -> None:
        name, now_ms = (change.queue, key), change.step.now_ms
        bucket = self._buckets.get(name)
        if bucket is None or bucket.limit != limit:
            bucket = self._buckets[name] = Bucket(limit, limit.burst, now_ms)
        left = bucket.take(count, now_ms)
        if left < -_SLACK:
            raise Violated(
                f"{count} jobs of {key!r} started in {change.queue}, {-left:g} more than {limit} "
                "allows"
            )
