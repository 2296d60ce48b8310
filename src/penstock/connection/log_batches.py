"""Writes batches to a log: staged in its partitions by many, decided once, moved by any client."""

from penstock.connection._async.log_batches import decided_attempt as adecided_attempt
from penstock.connection._async.log_batches import finish_batches as afinish_batches
from penstock.connection._async.log_batches import list_prepared as alist_prepared
from penstock.connection._sync.log_batches import (
    append_batch,
    decided_attempt,
    drop_stages,
    finish_batches,
    list_prepared,
    open_log,
)

__all__ = [
    "adecided_attempt",
    "afinish_batches",
    "alist_prepared",
    "append_batch",
    "decided_attempt",
    "drop_stages",
    "finish_batches",
    "list_prepared",
    "open_log",
]
