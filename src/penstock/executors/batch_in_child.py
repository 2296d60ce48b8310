"""Messages of a partition, in the child process that runs their consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.errors import NoResources
from penstock.executors.batch_context import BatchContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.executors.child import ChildContext
    from penstock.executors.context import Origin
    from penstock.model.logs import Message


class BatchInChild(BatchContext):
    """As the consumer sees it without a process of its own. How far it is, the worker is told."""

    __slots__ = ("_child",)

    def __init__(self, child: ChildContext, messages: Sequence[Message]) -> None:
        # Nothing of its origin is here: all that is asked of it is answered below.
        super().__init__(cast("Origin", None), child.token, messages, child.timeout_s)
        self._child = child

    @property
    def worker(self) -> str:
        return self._child.worker

    @property
    def queue(self) -> str:
        return self._child.queue

    @property
    def resources(self) -> Any:
        raise NoResources(
            "what the lifespan hook of a worker yields stays in the worker's process, and this "
            "consumer has one of its own (process=True); make what it needs at the top of its "
            "module"
        )

    @property
    def cancelled(self) -> bool:
        return self._child.cancelled

    @property
    def holds_lease(self) -> bool:
        """As far as the worker has told."""
        return not self._child.cancelled

    @property
    def must_stop(self) -> bool:
        return self._child.is_stopping or self._child.cancelled

    def handled(self, count: int) -> None:
        super().handled(count)
        # Said before the next one begins: what is done is not run again when that ends the process.
        self._child.report("handled", count)
