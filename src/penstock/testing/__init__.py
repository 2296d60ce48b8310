"""For the tests of applications: a client on a clock of its own, the same scripts on a real Redis.

The fixtures `penstock` and `apenstock` are there wherever penstock is installed beside pytest; see
docs/testing.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.async_client import AsyncTestPenstock, Call
    from penstock.testing.client import TestPenstock
    from penstock.testing.run import RunSummary

__all__ = ["AsyncTestPenstock", "Call", "RunSummary", "TestPenstock"]

_HOMES = {
    "TestPenstock": "client",
    "RunSummary": "run",
    "AsyncTestPenstock": "async_client",
    "Call": "async_client",
}


def __getattr__(name: str) -> Any:
    # pytest imports this package whenever it starts; the rest is for those who use it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
