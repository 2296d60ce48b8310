"""How executors, and planners, reach Redis: with a connection and commands, without a client."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.connection.store import Store
from penstock.connection.wire import ConnectionLost, pack
from penstock.errors import InvalidArgument
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.connection.settings import Settings
    from penstock.store.keys import QueueKeys


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the store is, as a reader or writer carries it from its planner to the executors.

    It is pickled with them, so no password needs to stand in an option; it shows none when printed.
    """

    settings: Settings
    host: str
    """the machine on which it was planned"""

    def keys(self, queue: str) -> QueueKeys:
        return NamespaceKeys(self.settings.namespace).queue(queue)

    @contextmanager
    def open(self) -> Iterator[Store]:
        """The store, checked, with connections that are closed in the end."""
        settings = self.reachable()
        store = Store(
            settings.address,
            settings.retry_for_s,
            settings.timeout_s,
            settings.dialect,
            settings.server,
        )
        try:
            store.open(NamespaceKeys(settings.namespace))
            yield store
        finally:
            store.close()

    def reachable(self) -> Settings:
        """The settings, for use on this machine.

        Raises InvalidArgument if the store cannot be reached from here.
        """
        address = self.settings.address
        path = address.endpoints[0].path
        here = socket.gethostname()
        if path and here != self.host:
            raise InvalidArgument(refuse_socket(path, self.host, here))
        # An address keeps its TLS settings once they were used, and these cannot be pickled.
        return replace(self.settings, address=replace(address))


def call_meanwhile(
    store: Store, key: str, parts: tuple[str | int, ...], meanwhile: Callable[[], None]
) -> Any:
    """Run one command of Redis that only reads, and call `meanwhile` while it is under way, if it
    gets so far.
    """
    try:
        reply = store.router.exchange(key, pack(*parts), meanwhile)
    except ConnectionLost:
        reply = None
    if isinstance(reply, list):
        return reply
    return store.call(key, *parts)  # which knows what to do about errors


def refuse_socket(path: str, host: str, here: str) -> str:
    """What is wrong with a Unix socket on `host` for an executor that runs `here`."""
    return (
        f"the store is the Unix socket {path} on {host!r}, which an executor on {here!r} cannot "
        "reach; use a store with a host and a port (option 'url', or PENSTOCK_URL where Spark is "
        "started)"
    )
