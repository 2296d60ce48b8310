"""Messages of a partition on their way through an executor, and what came of them."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.codec.failures import Failure, RaisedInChild, crash_of, describe
from penstock.codec.messages import pack_messages
from penstock.executors.context import Context, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.executors.death import Death
    from penstock.executors.mixed import Runnable
    from penstock.model.logs import Message

log = logging.getLogger("penstock.worker")


class BatchOrigin(Origin, Protocol):
    """The partition of a batch, as its worker serves it."""

    is_stopping: bool

    @property
    def group(self) -> str: ...
    @property
    def runs(self) -> Runnable:
        """What is given the messages."""


class BatchContext(Context):
    """What a consumer is told about its messages. The token is the epoch of the partition: it grows
    with every owner.
    """

    __slots__ = ("_is_told", "done", "error", "is_condemned", "messages", "moved_at", "timeout_s")

    job = ""
    attempt = 1

    def __init__(
        self, origin: Origin, epoch: int, messages: Sequence[Message], timeout_s: float
    ) -> None:
        super().__init__(origin, epoch, b"")
        self.messages = messages
        self.timeout_s = timeout_s
        self.moved_at = 0.0
        self._is_told = False
        self.is_condemned = False
        """it is given up without being tried once more"""
        self.done = 0
        """how many of them are handled, from the first on"""
        self.error: BaseException | None = None

    @property
    def must_stop(self) -> bool:
        """Between two messages, the partition can be let go at no cost."""
        return self._is_told or self._batch_origin.is_stopping or not self.may_begin

    def condemn(self) -> None:
        self.is_condemned = True
        self.cancel()

    def handled(self, count: int) -> None:
        """So many of the messages are done. Said by a thread past its timeout, it has no effect."""
        if self._is_told:
            return
        self.done = count
        self.moved_at = perf_counter()

    # What follows is for executors.

    @property
    def path(self) -> str:
        return self._batch_origin.runs.path

    @property
    def type(self) -> str:
        """With the log, it says which of the consumers that a function can be."""
        return self._batch_origin.group

    @property
    def for_child(self) -> bytes:
        return pack_messages(self.messages)

    def report(self, kind: str, payload: Any) -> None:
        """What a child process says."""
        self.handled(payload)

    def returned(self, value: object, began_at: float) -> None:
        """The consumer returned; what it returned is of no use to anybody."""
        self.took_s = perf_counter() - began_at
        self.origin.done(self)

    def raised(self, error: BaseException, began_at: float) -> None:
        self.took_s = perf_counter() - began_at
        self._is_told = True
        self.outcome = "failed"
        self.error = error
        at = self.messages[self.done].id if self.done < len(self.messages) else ""
        failure = describe(error)
        log.warning(
            "consumer failed log=%s message=%s error=%s: %s",
            *(self.queue, at, failure.type, failure.message),
            exc_info=error,
        )
        self.origin.done(self)

    def crashed(self, death: Death, began_at: float) -> None:
        """The process of the consumer has died under it."""
        error = crash_of("process of the consumer", str(death))
        self.raised(RaisedInChild(Failure(error.type, error.message, "")), began_at)

    def skipped(self) -> None:
        """Nothing was run: the partition is to be released, or is another worker's."""
        self.outcome = "failed" if self.is_condemned else "stopped"
        self.origin.done(self)

    @property
    def _batch_origin(self) -> BatchOrigin:
        return cast("BatchOrigin", self.origin)
