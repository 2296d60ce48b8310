"""A partition of a log, as the worker that owns it serves it."""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from penstock.codec.failures import describe
from penstock.errors import JobCrashed, OffsetRefused
from penstock.executors.batch_context import BatchContext
from penstock.model.claims import Claim
from penstock.model.jobs import MAX_CRASHES
from penstock.model.taken import NO_DEATHS
from penstock.store.command import Command
from penstock.store.commands import log_groups, log_members
from penstock.worker.consumers import run_batch
from penstock.worker.log_counters import LogCounters
from penstock.worker.source import WOKEN, Request, Source, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.executors.context import Context
    from penstock.model.logs import Message
    from penstock.model.taken import Deaths
    from penstock.model.workers import Lease
    from penstock.store.command import Operation
    from penstock.store.commands.log_members import Read
    from penstock.store.keys import PartitionKeys
    from penstock.worker.consumers import Consumer
    from penstock.worker.source import Woken

log = logging.getLogger("penstock.worker")

_REASON_CHARS = 1000
_PAGE_BYTES = 4 * 1024 * 1024
"""A page holds up the store, and the worker with its leases, until it has been brought."""
_OVERHEAD = 100
_FIRST_PAGE = 100
"""messages, as nobody knows how large they are"""
_UNREADY_S = 1.0
_CAREFUL_S = 30.0
"""for how long each batch is written down before the next, after an owner has died"""


class LogSource(Source):
    """One batch at a time, so that messages stay in order. Messages are never taken out of a log:
    only how far it has come is written down, by the committer.
    """

    kind = "logs"
    at_once = 1
    most_held = 1

    def __init__(
        self,
        keys: PartitionKeys,
        worker: str,
        lease: Lease,
        consumer: Consumer,
        epoch: int,
        offset: str,
        max_payload: int,
        advanced: Callable[[str], None],
        deaths: Deaths = NO_DEATHS,
    ) -> None:
        """`advanced` is told how far it has come. `deaths` are of owners at this offset."""
        super().__init__(
            *(keys.log, keys.messages, worker, lease, run_batch, max_payload, [keys.appended])
        )
        self.keys = keys
        self.consumer = consumer
        self.epoch = epoch
        self.position = offset
        """the last message that is done"""
        self.is_stopping = False
        """nothing more is begun, not even of messages that are held"""
        self.problem = ""
        """why it stands still"""
        self.end: Callable[[Context], None] = lambda context: context.cancel()
        """tells what runs that it is to end, and ends it where it can be ended; the executor's"""
        self.counters = LogCounters()
        """the worker's, if it has set its own here"""
        self._advanced = advanced
        self._failures = 0
        """of the messages after the position"""
        self._alone_until = ""
        """up to this message they are read one by one, as a batch has failed for good"""
        self._retry_at = 0.0
        self._fitting = _FIRST_PAGE
        """about how many messages make a page of that size, going by the last one"""
        self._is_committing = False
        """nothing is begun before the last batch is written down"""
        self._deaths = deaths
        self._suspects = consumer.page if deaths.crashes else 0
        """so many messages are tried alone, each written down before the next"""
        self._careful_until = monotonic() + _CAREFUL_S if deaths.crashes else 0.0

    @property
    def holds_until(self) -> float:
        return inf if self.problem or self._is_committing else self._retry_at

    def claim(self, reported: Sequence[Context], limit: int, offer: int) -> Request:
        self.is_stopping = False
        is_trial = self._suspects > 0
        count = 1 if self._alone_until or is_trial else min(self.consumer.page, self._fitting)
        about = self.keys, self.consumer.group, self.epoch, self.position, count
        command = log_members.read_messages(*about, is_trial=is_trial)
        return Request("claim", command, self._read, limit=limit)

    @property
    def commit_s(self) -> float:
        """How long after a commit the next one is due."""
        return 0.0 if self._is_careful else self.consumer.commit_s

    @property
    def group(self) -> str:
        return self.consumer.group

    @property
    def runs(self) -> Consumer:
        return self.consumer

    def contexts(self, found: Iterable[list[Message]], first_process: int) -> list[Context]:
        timeout_s = self.consumer.timeout_s
        contexts = [BatchContext(self, self.epoch, messages, timeout_s) for messages in found]
        if contexts and self._deaths.crashes >= MAX_CRASHES:
            contexts[0].condemn()
        return [*contexts]

    def report_apart(self, outcomes: list[Context]) -> tuple[list[Request], list[Context]]:
        requests: list[Request] = []
        for outcome in outcomes:
            context = cast("BatchContext", outcome)
            self.counters.ran(context.done, context.took_s)
            if context.done:
                self._advance(context.messages[context.done - 1].id)
            if context.outcome == "failed":
                requests += self._failed(context)
        return requests, []

    def told(self, reported: Sequence[Context], refused: Sequence[int]) -> Told:
        # What is refused, another owner reads again, and counts.
        contexts = [cast("BatchContext", c) for c in reported if c.token not in refused]
        failed = sum(context.outcome == "failed" for context in contexts)
        return Told(sum(context.done for context in contexts), failed)

    def give_back(self, contexts: Sequence[Context]) -> None:
        return None

    def pass_on(self, is_busy: bool) -> None:
        # Between two messages, a partition can be let go at no cost.
        self.is_stopping = not is_busy

    def close(self, held: Iterable[Context]) -> None:
        if self.lease.is_lost and self.consumer.in_process:
            # A child process cannot see the lease; another worker may have its messages by now.
            for context in list(held):
                self.end(context)
        super().close(held)

    def hear(self, channel: str, message: bytes) -> Woken:
        if message.startswith(b"@") and message[1:].decode() == self.consumer.group:
            self.resume()  # not about messages, but about the group: it goes on, or elsewhere
        return WOKEN

    def find_cancelled(self) -> None:
        """What was said while nobody listened may have been that the group is to go on."""
        if self.problem:
            self.resume()

    def resume(self) -> None:
        """Try again what it stands still for."""
        self.problem, self._retry_at, self._failures = "", 0.0, 0

    def committed(self) -> None:
        """Everything up to the position is written down."""
        self._is_committing = False

    def _read(self, read: Read) -> Claim[list[Message]]:
        if read.word == "lost":
            return Claim("not_working")
        if read.word == "trimmed":
            return self._found_gap(read.trimmed_to)
        if not read.messages:
            if read.word == "empty":
                self._suspects, self._careful_until = 0, 0.0  # what an owner has died of is behind
            return Claim(read.word)
        self._fitting = _fitting(read.messages)
        group = self.consumer.group
        # What was appended once more for another group, out of its errors, is not for this one.
        messages = [m for m in read.messages if m.only_for in (None, group)]
        if not messages:
            self._advance(read.messages[-1].id)
            return Claim("again", wait_ms=1)
        return Claim("ok", [messages])

    def _found_gap(self, trimmed_to: str) -> Claim[Any]:
        if self.consumer.on_gap == "skip":
            log.error("messages were gone before they were read %s to=%s", self, trimmed_to)
            self._advance(trimmed_to)
            return Claim("again", wait_ms=1)
        self._stand_still(
            f"messages up to {trimmed_to} are gone, and {self.position or 'none'} was the last "
            "that was read; seek behind them to do without, and let the log keep more"
        )
        return Claim("empty")

    def _failed(self, context: BatchContext) -> list[Request]:
        """What becomes of messages that failed: again later, again one by one, or given up."""
        if context.is_condemned:
            return self._condemned(context)
        if isinstance(context.error, JobCrashed) and self.consumer.in_process:
            # No process could be made ready. The messages are not to blame, and need one.
            self._retry_at = monotonic() + max(_UNREADY_S, self.consumer.wait_s(1))
            return []
        self._failures += 1
        rest = context.messages[context.done :]
        attempts = 1 if self._alone_until else self.consumer.attempts
        if self._failures < attempts or not rest:
            self._retry_at = monotonic() + self.consumer.wait_s(self._failures)
            # Of single messages, those behind the one that failed were not tried yet.
            self.counters.retried += len(rest if self.consumer.batch is not None else rest[:1])
            return []
        if self.consumer.batch is not None and len(rest) > 1:
            self.counters.retried += len(rest)
            self._alone_until = rest[-1].id
            self._failures = 0
            return []
        if self.consumer.on_failure == "stop":
            self._stand_still(f"message {rest[0].id} failed {self._failures} times")
            return []
        reason = _reason(context.error)
        tried = self._failures + (self.consumer.attempts if self._alone_until else 0)
        return [self._give_up(context, rest[0], reason, tried)]

    def _condemned(self, context: BatchContext) -> list[Request]:
        """A message that would only take one more worker down."""
        message, (crashes, how) = context.messages[0], self._deaths
        self._deaths = NO_DEATHS
        reason = f"it took its worker down {crashes} times, the last by {how}"[:_REASON_CHARS]
        if self.consumer.on_failure == "stop":
            self._stand_still(f"message {message.id} is not tried again: {reason}")
            return []
        return [self._give_up(context, message, reason, crashes)]

    def _give_up(self, context: BatchContext, message: Message, reason: str, tried: int) -> Request:
        log.error("message given up %s message=%s error=%s", self, message.id, reason)

        def read(is_held: bool) -> Claim[Any]:
            if not is_held:
                self.lease.lose()
                return Claim("idle", refused=[context.token])
            self.counters.failed += 1
            self._advance(message.id)
            return Claim("idle")

        about = self.consumer.group, self.epoch, message, reason, tried

        def note(operation: Operation) -> Command[bool]:
            command = log_groups.note_error(self.keys, operation, *about)
            script, keys, args, decode, _ = command
            return Command(script, keys, args, lambda reply: _is_accepted(decode, reply))

        return Request("report", note, read, [context])

    def _advance(self, offset: str) -> None:
        self.position = offset
        self._failures = 0
        self._deaths = NO_DEATHS
        if offset == self._alone_until:
            self._alone_until = ""
        self._suspects = max(0, self._suspects - 1)
        self._is_committing = self.commit_s == 0
        self._advanced(offset)

    @property
    def _is_careful(self) -> bool:
        return self._suspects > 0 or monotonic() < self._careful_until

    def _stand_still(self, problem: str) -> None:
        self.problem = problem
        log.error("partition stands still %s reason=%s", self, problem)

    def __str__(self) -> str:
        return f"log={self.queue} partition={self.keys.number} group={self.consumer.group}"


def _fitting(messages: Sequence[Message]) -> int:
    """How many messages as large as these on average make a page."""
    size = sum(len(message.body) for message in messages) + _OVERHEAD * len(messages)
    return max(1, _PAGE_BYTES * len(messages) // size)


def _reason(error: BaseException | None) -> str:
    """The same whether it was raised here or in a child process."""
    if error is None:
        return "it failed"
    failure = describe(error)
    return f"{failure.type.rpartition('.')[2]}: {failure.message}"[:_REASON_CHARS]


def _is_accepted(decode: Callable[[list[Any]], object], reply: list[Any]) -> bool:
    try:
        decode(reply)
    except OffsetRefused:
        return False
    return True
