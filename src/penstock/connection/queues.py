"""Steps on a queue that are more than one request."""

from penstock.connection._async.queues import in_queue as ain_queue
from penstock.connection._async.queues import inspect_queue as ainspect_queue
from penstock.connection._sync.queues import in_queue, inspect_queue

__all__ = [
    "ain_queue",
    "ainspect_queue",
    "in_queue",
    "inspect_queue",
]
