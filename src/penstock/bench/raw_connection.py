"""A socket and a parser: the least that a Python client of Redis can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connection.address import parse_url
from penstock.connection.answers import store_error
from penstock.connection.transport import Node
from penstock.connection.wire import ReplyError, greeting, pack
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from penstock.connection.address import Address
    from penstock.store.command import Argument

_TIMEOUT_S = 30.0


class Connection:
    """Sends packed commands and reads replies; nothing is repeated or pooled."""

    def __init__(self, address: Address) -> None:
        self._address = address
        node = Node(address.endpoints[0], address, greeting(address), _TIMEOUT_S)
        self._connection = node.connect()
        self.send = self._connection.send
        self.receive = self._connection.receive
        self.close = self._connection.close

    def request(self, *command: Argument) -> Any:
        self.send(pack(*command))
        return self.expect(1)

    def expect(self, replies: int) -> Any:
        """The last of so many replies. Raises StoreError at the first that is an error."""
        for _ in range(replies):
            reply = self.receive()
            if isinstance(reply, ReplyError):
                raise store_error(reply, self._address)
        return reply


def open_connection(url: str) -> Connection:
    address = parse_url(url)
    if address.topology != "single":
        raise InvalidArgument(
            f"the benchmark measures one server, and {address} is a {address.topology}; give the "
            "URL of one server, or none for a private one"
        )
    return Connection(address)
