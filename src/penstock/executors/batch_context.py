"""Messages of a partition on their way through an executor, and what came of them."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING

from penstock.codec.failures import describe
from penstock.executors.context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.executors.context import Origin
    from penstock.model.logs import Message

log = logging.getLogger("penstock.worker")


class BatchContext(Context):
    """What a consumer is told about its messages. The token is the epoch of the partition: it grows
    with every owner.
    """

    __slots__ = ("done", "error", "messages", "timeout_s")

    def __init__(
        self, origin: Origin, epoch: int, messages: Sequence[Message], timeout_s: float
    ) -> None:
        super().__init__(origin, epoch, b"")
        self.messages = messages
        self.timeout_s = timeout_s
        self.done = 0
        """how many of them are handled, from the first on"""
        self.error: BaseException | None = None

    def returned(self, value: object, began_at: float) -> None:
        """The consumer returned; what it returned is of no use to anybody."""
        self.took_s = perf_counter() - began_at
        self.origin.done(self)

    def raised(self, error: BaseException, began_at: float) -> None:
        self.took_s = perf_counter() - began_at
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

    def skipped(self) -> None:
        """Nothing was run: the partition is to be released, or is another worker's."""
        self.outcome = "stopped"
        self.origin.done(self)
