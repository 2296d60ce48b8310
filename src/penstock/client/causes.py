"""What jobs are sent for: the message that a consumer handles. The same job sent for the same
message again, after a crash, has the same id.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from penstock.connection.job_ids import derived_id
from penstock.errors import InvalidArgument
from penstock.model.logs import id_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.model.job_options import JobOptions
    from penstock.model.logs import Message

_DIGEST_BYTES = 16


class Delivery:
    """Messages that a consumer is given at once. As a context manager: what is sent meanwhile is
    sent for all of them together, unless one is named.
    """

    __slots__ = ("_before", "_counts", "_ids", "_lock", "group", "log", "messages")

    def __init__(self, log: str, group: str, messages: Sequence[Message]) -> None:
        self.log = log
        self.group = group
        self.messages = messages
        self._ids: frozenset[str] | None = None
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, bytes], _Count] = {}
        """how often which messages have sent what"""
        self._before: _Cause | None = None

    def __enter__(self) -> Delivery:
        self._before = _current.get()
        _current.set(self.whole)
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(self._before)

    def begin(self, message: Message) -> None:
        """From now on, what is sent is sent for this message."""
        _current.set(_Cause(self, message, message))

    @property
    def whole(self) -> _Cause:
        """All messages. The last one counts too: what is sent for more messages than before may say
        the same, and must not be taken for what was sent then.
        """
        return _Cause(self, self.messages[0], self.messages[-1])

    def has(self, message: Message) -> bool:
        if self._ids is None:
            self._ids = frozenset(one.id for one in self.messages)
        return message.partition == self.messages[0].partition and message.id in self._ids

    def take(self, cause: _Cause, content: bytes) -> int:
        """How often this content was sent for the same messages before."""
        with self._lock:
            return self._counts.setdefault((*cause.ids, content), _Count()).take()

    def give_back(self, cause: _Cause, content: bytes, number: int) -> None:
        """It was not sent after all, or nobody knows whether it was."""
        with self._lock:
            self._counts[(*cause.ids, content)].give_back(number)


class _Cause(NamedTuple):
    delivery: Delivery
    first: Message
    last: Message

    @property
    def ids(self) -> tuple[str, str]:
        return self.first.id, self.last.id


_current: ContextVar[_Cause | None] = ContextVar("penstock_cause", default=None)


@contextmanager
def sending_for(message: Message) -> Iterator[None]:
    """In a consumer of batches: the jobs that are sent here are sent for this message of the batch.

    If the message comes again, after a crash or a failure, those of its jobs that were sent
    before are not sent again, as long as their records are kept. Outside of a consumer it has no
    effect.
    """
    before = _current.get()
    if before is None:
        yield
        return
    if not before.delivery.has(message):
        raise InvalidArgument(
            f"message {message.id!r} of partition {message.partition} is not one that this "
            "consumer was given now; name one of those"
        )
    before.delivery.begin(message)
    try:
        yield
    finally:
        # Not by a token, as a generator that names messages may be closed in another context.
        _current.set(before)


class CausedJob(NamedTuple):
    """A job whose id follows from what it is sent for."""

    data: bytes
    words: tuple[str, ...]
    number: int
    digest: bytes


class CausedJobs:
    """Jobs that are sent together by a consumer."""

    def __init__(self, delivery: Delivery, queue: str, options: JobOptions) -> None:
        self._delivery = delivery
        self._queue = queue
        self._options = options
        self._taken: list[tuple[_Cause, bytes, int]] = []

    def make(self, data: bytes, words: tuple[str, ...]) -> CausedJob:
        """Jobs are told apart by what is sent, not by when: a consumer may send in another order
        the next time. Only equal ones are counted. When and how often a job is to be tried does
        not count, as a time is often reckoned from now.
        """
        delivery, options = self._delivery, self._options
        now = _current.get()
        cause = now if now is not None and now.delivery is delivery else delivery.whole
        told = [self._queue, options.type, options.priority, options.tenant, options.key]
        about = json.dumps([*told, sorted(options.tags)]).encode()
        content = blake2b(about + b"\0" + data, digest_size=_DIGEST_BYTES).digest()
        number = delivery.take(cause, content)
        self._taken.append((cause, content, number))
        origin = [delivery.log, delivery.group, cause.first.partition, *cause.ids, number]
        digest = blake2b(
            json.dumps(origin).encode() + b"\0" + content, digest_size=_DIGEST_BYTES
        ).digest()
        return CausedJob(data, words, derived_id(id_key(cause.first.id)[0], digest), digest)

    def give_back(self, sent: int) -> None:
        """Only the first so many were sent: the others have not been sent yet."""
        for taken in self._taken[sent:]:
            self._delivery.give_back(*taken)


def caused_jobs(queue: str, options: JobOptions) -> CausedJobs | None:
    """For jobs that are sent here by a consumer; None for others, and for those of which the user
    says in another way which are the same.
    """
    now = _current.get()
    if now is None or options.id or options.unique:
        return None
    return CausedJobs(now.delivery, queue, options)


class _Count:
    """The smallest number that is not taken."""

    __slots__ = ("_free", "_next")

    def __init__(self) -> None:
        self._next = 0
        self._free: list[int] = []

    def take(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        heappush(self._free, number)
