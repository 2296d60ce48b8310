"""A queue, as its producers and operators see it."""

from penstock.client._async.queue import AsyncQueue
from penstock.client._sync.queue import Queue

__all__ = ["AsyncQueue", "Queue"]
