"""How a client reaches its store, and how it behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.queues import MAX_PAYLOAD

if TYPE_CHECKING:
    from penstock.client.address import Address
    from penstock.store.script import Dialect


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a client needs to know. Passed on to the threads that work for it, which have
    connections of their own.
    """

    address: Address
    namespace: str = "penstock"
    max_payload: int = MAX_PAYLOAD
    retry_for_s: float | None = 30.0
    """how long a request is repeated when no reply comes; None: for ever"""
    timeout_s: float = 5.0
    """how long one try may take"""
    dialect: Dialect | None = None
    """which scripts the server needs; found out by looking if None"""
