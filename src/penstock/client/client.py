"""The connection to a store: where everything begins."""

from penstock.client._async.client import AsyncPenstock
from penstock.client._sync.client import Penstock

__all__ = ["AsyncPenstock", "Penstock"]
