# Generated from _async/log_reading.py by tools/generate_sync.py. Edit that file instead.

"""Reads a log: by time or by id, forwards or backwards, one partition or all."""

from __future__ import annotations

import time
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, NamedTuple

from penstock.connection.subscription import Subscription
from penstock.errors import InvalidArgument, LogTrimmed
from penstock.model.instants import instant_ms
from penstock.model.logs import START, LogInfo, Message, check_id, id_key
from penstock.model.names import shown
from penstock.store.commands import logs
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from penstock.client._sync.client import Penstock
    from penstock.connection.store import Store
    from penstock.model.instants import Instant
    from penstock.model.logs import LogFacts, PartitionInfo
    from penstock.store.keys import PartitionKeys

_PAGE = 1000
_SMALL_PAGE = 100
MAX_PAGE = 10_000
_SILENCE_S = 15.0
_LOOK_S = 0.25


class Span(NamedTuple):
    """A part of a partition."""

    start: str = "-"
    """as XRANGE takes it"""
    end: str = "+"
    wanted_after: tuple[int, int] | None = None
    """it is an error if anything after this id was trimmed; None: what is gone is not asked for"""

    def rest(self, last: Message, is_reverse: bool) -> Span:
        """What is left after a page."""
        if is_reverse:
            return self._replace(end=f"({last.id}")
        ms, _, number = last.place
        return Span(f"({last.id}", self.end, (ms, number))


class LogReading:
    """Reads one log."""

    def __init__(self, client: Penstock, name: str) -> None:
        self._client = client
        self._store = client.store
        self._keys = client.keys.queue(name)
        self.name = name

    def read(
        self,
        since: Instant | None = None,
        until: Instant | None = None,
        *,
        partition: int | Sequence[int] | None = None,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        skip_trimmed: bool = False,
    ) -> Generator[Message, None, None]:
        """Messages that were appended from `since` on and before `until`, by the server's clock;
        those of several partitions merged by that time. The newest come first with `reverse`.

        `after` is the id of the last message that was read, instead of `since`. Without either it
        begins with the oldest message that is there. What is appended while it reads may come or
        not.

        Raises LogNotFound, and LogTrimmed if messages are gone that `since` or `after` ask for,
        unless `skip_trimmed`.
        """
        span = _span(since, until, after)
        most = _check_limit(limit)
        facts = self.facts()
        numbers = check_numbers(partition, facts)
        size = max(_SMALL_PAGE, _PAGE // max(1, len(numbers)))
        if most is not None:
            size = min(size, most)
        shares = [
            _Share(self._store, self._keys.partition(number), span, size, reverse, skip_trimmed)
            for number in numbers
        ]
        return self._merged(shares, most)

    def follow(
        self,
        since: Instant | None = None,
        *,
        partition: int | Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> Generator[Message, None, None]:
        """Messages as they are appended, those of each partition in order, from `since` on; only
        new ones without it. Ends when nothing comes for `timeout_s`.

        Raises LogNotFound, and LogTrimmed as `read` does.
        """
        facts = self.facts()
        numbers = check_numbers(partition, facts)
        spans = {number: _span(since, None, None) for number in numbers}
        if since is None:
            for number in numbers:
                last = (self.partition_info(number)).last or START
                spans[number] = _span(None, None, last)
        return self._followed(spans, timeout_s)

    def _followed(
        self, spans: dict[int, Span], timeout_s: float | None
    ) -> Generator[Message, None, None]:
        keys = [self._keys.partition(number) for number in spans]
        channels, wait_s = [part.appended for part in keys], _SILENCE_S
        if self._store.dialect.channels == CLUSTER.channels:
            # A subscription of a cluster is for one slot; the other partitions are looked at often.
            channels, wait_s = channels[:1], _LOOK_S
        subscription = Subscription(self._store, channels[0], channels)
        heard_at = time.monotonic()
        try:
            subscription.receive()
            while True:
                for part in keys:
                    while found := _read(
                        self._store, part, spans[part.number], _PAGE, False, False
                    ):
                        spans[part.number] = spans[part.number].rest(found[-1], is_reverse=False)
                        for message in found:
                            yield message
                            heard_at = time.monotonic()
                left_s = wait_s
                if timeout_s is not None:
                    left_s = min(wait_s, heard_at + timeout_s - time.monotonic())
                if left_s <= 0:
                    return
                subscription.receive(left_s)
        finally:
            subscription.close()

    def page(
        self,
        partition: int,
        after: str | None = None,
        limit: int = _PAGE,
        *,
        before: str | None = None,
        reverse: bool = False,
        skip_trimmed: bool = False,
    ) -> list[Message]:
        """Up to `limit` messages of a partition after the id `after` and before the id `before`.
        Raises LogTrimmed if messages after `after` are gone, unless `skip_trimmed`.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise InvalidArgument(f"limit is {shown(limit)}; a page has 1 to {MAX_PAGE} messages")
        span = Span() if after is None else Span(f"({check_id(after)}", "+", id_key(after))
        if before is not None:
            span = span._replace(end=f"({check_id(before)}")
        keys = self._keys.partition(partition)
        found = _read(self._store, keys, span, limit, reverse, skip_trimmed)
        if not found:
            self._check_partition(partition)
        return found

    def facts(self) -> LogFacts:
        """What the log says of itself. Raises LogNotFound or WrongKind."""
        return self._store.run(logs.describe_log(self._keys))

    def info(self) -> LogInfo:
        """Everything that is counted about the log. Raises LogNotFound."""
        facts = self.facts()
        found = [self.partition_info(number) for number in range(facts.partitions)]
        return LogInfo(self.name, facts.settings, tuple(sorted(facts.groups)), tuple(found))

    def partition_info(self, partition: int) -> PartitionInfo:
        """Everything that is counted about a partition."""
        info = self._store.run(logs.describe_partition(self._keys.partition(partition)))
        if not info.is_open:
            self._check_partition(partition)
        return info

    def _check_partition(self, partition: int) -> None:
        """Where nothing was found: raises LogNotFound, or InvalidArgument if the log has no such
        partition.
        """
        check_numbers(partition, self.facts())

    def _merged(self, shares: list[_Share], most: int | None) -> Generator[Message, None, None]:
        heap = [(share.place, share) for share in shares if share.has_more()]
        heapify(heap)
        left = most
        while heap and left != 0:
            share = heap[0][1]
            yield share.take()
            left = None if left is None else left - 1
            if share.is_loaded or share.has_more():
                heapreplace(heap, (share.place, share))
            else:
                heappop(heap)


class _Share:
    """What one partition has to give to a reader."""

    def __init__(
        self,
        store: Store,
        keys: PartitionKeys,
        span: Span,
        size: int,
        is_reverse: bool,
        skip_trimmed: bool,
    ) -> None:
        self._store = store
        self._keys = keys
        self._span = span
        self._size = size
        self._is_reverse = is_reverse
        self._skip_trimmed = skip_trimmed
        self._page: list[Message] = []
        self._places: list[tuple[int, ...]] = []
        self._at = 0
        self._is_over = False

    @property
    def place(self) -> tuple[int, ...]:
        """The one that comes next has the least; no two partitions have the same."""
        return self._places[self._at]

    @property
    def is_loaded(self) -> bool:
        return self._at < len(self._page)

    def take(self) -> Message:
        message = self._page[self._at]
        self._at += 1
        return message

    def has_more(self) -> bool:
        """Whether there is a next message; reads a page if need be."""
        if self.is_loaded:
            return True
        if self._is_over:
            return False
        self._page = _read(
            self._store,
            self._keys,
            self._span,
            self._size,
            self._is_reverse,
            self._skip_trimmed,
        )
        self._at = 0
        self._places = [message.place for message in self._page]
        if self._is_reverse:
            self._places = [(-ms, -partition, -number) for ms, partition, number in self._places]
        self._is_over = len(self._page) < self._size
        if self._page:
            self._span = self._span.rest(self._page[-1], self._is_reverse)
        return bool(self._page)


def _read(
    store: Store,
    keys: PartitionKeys,
    span: Span,
    limit: int,
    is_reverse: bool,
    skip_trimmed: bool,
) -> list[Message]:
    """A page of a partition. What was trimmed is asked for afterwards: it only grows, so what is
    not trimmed then was not when the page was read.
    """
    command, bounds = "XRANGE", (span.start, span.end)
    if is_reverse:
        command, bounds = "XREVRANGE", (span.end, span.start)
    key = keys.messages
    entries = store.call(key, command, key, *bounds, "COUNT", limit)
    if span.wanted_after is not None and not skip_trimmed:
        trimmed_to = store.call(keys.state, "HGET", keys.state, "trimmed_to")
        is_gone = trimmed_to is not None and id_key(trimmed_to.decode()) > span.wanted_after
        # Backwards, what is gone is asked for only when all that is left was read.
        if is_gone and (not is_reverse or len(entries) < limit):
            raise trimmed(keys, trimmed_to.decode())
    return logs.open_entries(keys.number, entries)


def trimmed(keys: PartitionKeys, trimmed_to: str) -> LogTrimmed:
    """The error for a reader whose messages are gone."""
    error = LogTrimmed(
        f"partition {keys.number} of log {keys.log!r} has nothing left up to message {trimmed_to}, "
        "and what was asked for begins before it; read on after that message to do without what is "
        "gone, and let the log keep more"
    )
    error.partition = keys.number
    error.trimmed_to = trimmed_to
    return error


def _span(since: Instant | None, until: Instant | None, after: str | None) -> Span:
    if since is not None and after is not None:
        raise InvalidArgument("since and after both say where to begin; give one of them")
    span, since_ms = Span(), 0
    if since is not None:
        since_ms = instant_ms("since", since)
        span = Span(f"{since_ms}-0", "+", (since_ms, -1))
    elif after is not None:
        span = Span(f"({check_id(after)}", "+", id_key(after))
    if until is not None:
        # Nothing was ever appended in the first millisecond of 1970.
        until_ms = instant_ms("until", until)
        if since is not None and until_ms < since_ms:
            raise InvalidArgument(
                f"until ({until}) is before since ({since}), so nothing lies in between; exchange "
                "them"
            )
        span = span._replace(end=f"({max(1, until_ms)}-0")
    return span


def _check_limit(limit: int | None) -> int | None:
    if limit is None or (type(limit) is int and limit >= 1):
        return limit
    raise InvalidArgument(f"limit is {shown(limit)}; give a whole number from 1 up, or None")


def check_numbers(partition: int | Sequence[int] | None, facts: LogFacts) -> list[int]:
    """The numbers of the partitions that are meant (None: all), if the log has them."""
    if partition is None:
        return list(range(facts.partitions))
    numbers = [partition] if isinstance(partition, int) else list(partition)
    for number in numbers:
        if type(number) is not int or not 0 <= number < facts.partitions:
            raise InvalidArgument(
                f"partition is {shown(number)}; log {facts.name!r} has partitions 0 to "
                f"{facts.partitions - 1}"
            )
    return list(dict.fromkeys(numbers))
