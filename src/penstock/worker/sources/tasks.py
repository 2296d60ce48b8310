"""A queue of plain tasks, as a worker serves it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.executors.backoffs import wait_ms
from penstock.executors.context import Context
from penstock.model.claims import Claim
from penstock.model.retries import fixed
from penstock.store.commands import processes, queues
from penstock.worker.source import WOKEN, Cancelled, QueueSource, Request, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.model.processes import Failed, PastFailures
    from penstock.model.queues import Side
    from penstock.model.retries import Backoff
    from penstock.model.workers import Lease
    from penstock.store.keys import QueueKeys
    from penstock.worker.source import Purpose, Woken

log = logging.getLogger("penstock.worker")

_NO_WAIT = fixed(0)
_FAILURES = ("failed", "again")
"""just now; and held long enough since"""


class TaskSource(QueueSource):
    """Tasks are finished together with the next claim; failed and stopped ones go before it.

    A failed task is held for its backoff and then given back, which counts its failure. If the
    worker dies meanwhile, the recovery counts the same one.
    """

    kind = "tasks"
    at_once = 1000

    def __init__(
        self,
        keys: QueueKeys,
        worker: str,
        lease: Lease,
        handle: Callable[[bytes, Context], Any],
        max_payload: int,
        backoff: Backoff,
        backoffs: Mapping[str, Callable[[int], float]],
    ) -> None:
        """`backoffs` are those that `backoff` may name."""
        channels = [keys.cancel, keys.delete]
        super().__init__(keys, worker, lease, handle, max_payload, channels)
        self._backoff = backoff
        self._backoffs = backoffs

    def claim(self, reported: Sequence[Context], limit: int, offer: int) -> Request:
        keys, worker = self.keys, self.worker
        if not reported:
            return Request(
                "claim",
                lambda o: processes.start_tasks(keys, o, worker, limit, wait=True),
                limit=limit,
            )
        tokens = [context.token for context in reported]
        results: list[bytes] = []
        if any(context.result for context in reported):
            results = [context.result for context in reported]
        return Request(
            "claim",
            lambda o: processes.finish_tasks(
                keys, o, worker, tokens, results, limit, wait=limit > 0
            ),
            contexts=reported,
            limit=limit,
        )

    def contexts(self, found: Iterable[bytes], first_process: int) -> list[Context]:
        return [Context(self, process, task) for process, task in enumerate(found, first_process)]

    def report_apart(self, outcomes: list[Context]) -> tuple[list[Request], list[Context]]:
        finished = [context for context in outcomes if context.outcome == "finished"]
        if len(finished) == len(outcomes):
            return [], finished
        requests = []
        failed = [context for context in outcomes if context.outcome == "failed"]
        again = [context for context in outcomes if context.outcome == "again"]
        if failed and self._backoff == _NO_WAIT:
            failed, again = [], failed
        if failed:
            requests.append(self._ask_delays(failed))
        if again:
            requests.append(self._fail(again))
        sides: tuple[Side, ...] = ("front", "back")
        for side in sides:
            stopped = [c for c in outcomes if c.outcome == "stopped" and c.side == side]
            if stopped:
                requests.append(self._stop("report", stopped, side))
        return requests, finished

    def told(self, reported: Sequence[Context], refused: Sequence[int]) -> Told:
        # A request has outcomes of one kind.
        count, outcome = len(reported) - len(refused), reported[0].outcome
        return Told(count * (outcome == "finished"), count * (outcome in _FAILURES))

    def give_back(self, contexts: Sequence[Context]) -> Request:
        return self._stop("give_back", contexts, "front")

    def pass_on(self, is_busy: bool) -> Request:
        return Request(
            "pass_on", queues.pass_work(self.keys, self.worker), lambda answer: Claim("idle")
        )

    def hear(self, channel: str, message: bytes) -> Woken | Cancelled | None:
        if channel == self.keys.cancel:
            last_process, _, task = message.partition(b" ")
            return Cancelled(up_to=int(last_process), task=task)
        if channel == self.keys.delete:
            return Cancelled(up_to=int(message.split()[1]))
        return WOKEN

    def retry(self, context: Context) -> None:
        context.outcome = "again"

    def drop(self, context: Context) -> None:
        context.outcome = "finished"

    def _ask_delays(self, contexts: list[Context]) -> Request:
        """Only the store knows how often a task has failed. One that dies now need not be held."""

        def read(past: PastFailures) -> Claim[float]:
            return Claim("ok", [self._delay_s(before + 1, past.most) for before in past.counts])

        tokens = [context.token for context in contexts]
        command = processes.read_failures(self.keys, self.worker, tokens)
        return Request("ask_delays", command, read, contexts)

    def _delay_s(self, failures: int, most: int) -> float:
        if failures >= most:
            return 0.0
        return wait_ms(self._backoff, failures, self._backoffs) / 1000

    def _fail(self, contexts: list[Context]) -> Request:
        tokens = [context.token for context in contexts]

        def read(answer: Failed) -> Claim[bytes]:
            if answer.dead:
                log.error("tasks died queue=%s count=%d", self.queue, answer.dead)
            return Claim("idle", refused=answer.refused)

        return Request(
            "report",
            lambda o: processes.fail_tasks(self.keys, o, self.worker, tokens),
            read,
            contexts,
        )

    def _stop(self, purpose: Purpose, contexts: Sequence[Context], side: Side) -> Request:
        tokens = [context.token for context in contexts]
        return Request(
            purpose,
            lambda o: processes.stop_tasks(self.keys, o, self.worker, tokens, side),
            lambda refused: Claim("idle", refused=refused),
            contexts,
        )
