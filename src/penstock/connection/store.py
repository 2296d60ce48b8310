"""Runs commands: the one place where scripts are sent, and sent again."""

from penstock.connection._async.store import AsyncStore
from penstock.connection._sync.store import Store

__all__ = ["AsyncStore", "Store"]
