"""Tells once of a queue to which something was sent, and which no worker serves.

Projects that share the private server have namespaces of their own, so a producer and a worker that
do not agree on the project would never meet, and nobody would say so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.queues import QueueState

log = logging.getLogger("penstock.client")


class _Queues:
    """Those that this process has asked about, by a key of theirs."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def is_first(self, key: str) -> bool:
        is_first = key not in self._asked
        self._asked.add(key)
        return is_first


is_first = _Queues().is_first


def tell_if_unserved(state: QueueState, namespace: str) -> None:
    if state.held or state.counters.started:
        return
    log.warning(
        "sent to a queue that no worker serves, or has taken anything from queue=%s namespace=%s; "
        "start a worker in the same project, or give both the same PENSTOCK_NAMESPACE",
        state.name,
        namespace,
    )
