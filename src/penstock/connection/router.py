"""Which server a key lives on."""

from penstock.connection._async.router import AsyncRouter
from penstock.connection._sync.router import Router

__all__ = ["AsyncRouter", "Router"]
