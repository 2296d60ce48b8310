"""Connections, and how to wait without blocking an event loop."""

from penstock.connection._async.transport import AsyncArrivals, AsyncListener, AsyncNode
from penstock.connection._async.transport import pause as apause
from penstock.connection._async.transport import run_blocking as arun_blocking
from penstock.connection._sync.transport import Arrivals, Listener, Node, pause, run_blocking

__all__ = [
    "Arrivals",
    "AsyncArrivals",
    "AsyncListener",
    "AsyncNode",
    "Listener",
    "Node",
    "apause",
    "arun_blocking",
    "pause",
    "run_blocking",
]
