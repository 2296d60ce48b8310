"""How planners and executors reach Redis: the one place of penstock.spark that connects."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.client._sync.client import Penstock
from penstock.client._sync.store import Store
from penstock.client.connect import find_settings
from penstock.client.wire import ConnectionLost, pack
from penstock.errors import InvalidArgument
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.client.settings import Settings
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
        settings = self._reachable()
        store = Store(settings.address, settings.retry_for_s, settings.timeout_s, settings.dialect)
        try:
            store.open()
            yield store
        finally:
            store.close()

    @contextmanager
    def client(self) -> Iterator[Penstock]:
        """The same as a client, for what is not a single command."""
        with Penstock(self._reachable()).open() as client:
            yield client

    def _reachable(self) -> Settings:
        address = self.settings.address
        path = address.endpoints[0].path
        here = socket.gethostname()
        if path and here != self.host:
            raise InvalidArgument(refuse_socket(path, self.host, here))
        # An address keeps its TLS settings once they were used, and these cannot be pickled.
        return replace(self.settings, address=replace(address))


def find_connection(url: str | None, namespace: str | None) -> Connection:
    """The store at `url`, else at PENSTOCK_URL of this process, else the private server, which is
    started if need be.
    """
    return Connection(find_settings(url, namespace), socket.gethostname())


def call_meanwhile(
    store: Store, key: str, parts: tuple[str | int, ...], meanwhile: Callable[[], None]
) -> Any:
    """Run a plain command that only reads, and `meanwhile` while it is under way, if it gets so
    far.
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
