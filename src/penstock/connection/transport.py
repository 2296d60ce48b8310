"""Connections, and how to wait without keeping others from going on."""

from penstock.connection._async.transport import AsyncArrivals, AsyncChannel, AsyncListener
from penstock.connection._async.transport import pause as apause
from penstock.connection._async.transport import run_blocking as arun_blocking
from penstock.connection._sync.transport import Arrivals, Channel, Listener, pause, run_blocking

__all__ = [
    "Arrivals",
    "AsyncArrivals",
    "AsyncChannel",
    "AsyncListener",
    "Channel",
    "Listener",
    "apause",
    "arun_blocking",
    "pause",
    "run_blocking",
]
