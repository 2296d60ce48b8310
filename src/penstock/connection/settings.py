"""How a client reaches its store, and how it behaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.errors import InvalidArgument
from penstock.model.queues import MAX_PAYLOAD

if TYPE_CHECKING:
    from penstock.connection.address import Address
    from penstock.store.script import Dialect


class PrivateServer(Protocol):
    """The server of a store that penstock runs itself, for those who find it gone."""

    def revive(self) -> None:
        """Launch it again if it has died."""

    @property
    def start_command(self) -> str:
        """What a person types to start it."""


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
    """which scripts the server needs; None: found out from the server"""
    server: PrivateServer | None = field(default=None, compare=False, repr=False)
    """the private server; None: the store is somebody else's to keep running"""
    zookeeper: str = field(default="", repr=False)
    """the address of the ZooKeeper that coordinates readers of logs, which may have a password in
    it; empty: the store does it
    """

    def __post_init__(self) -> None:
        if type(self.max_payload) is not int or self.max_payload < 1:
            raise InvalidArgument(
                f"max_payload is {self.max_payload!r}; give a whole number of bytes from 1 up"
            )
        if not _is_number(self.timeout_s) or self.timeout_s <= 0:
            raise InvalidArgument(f"timeout_s is {self.timeout_s!r}; give seconds above 0")
        if self.retry_for_s is not None and (
            not _is_number(self.retry_for_s) or self.retry_for_s < 0
        ):
            raise InvalidArgument(
                f"retry_for_s is {self.retry_for_s!r}; give seconds from 0 up, or None"
            )


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
