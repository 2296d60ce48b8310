"""How the driver finds the store, and opens a client for what is not a single command."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.client.client import Penstock
from penstock.client.connect import find_settings
from penstock.spark.store import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator


def find_connection(url: str | None, namespace: str | None) -> Connection:
    """The store at `url`, else at PENSTOCK_URL of this process, else the private server, which is
    started if need be.
    """
    return Connection(find_settings(url, namespace), socket.gethostname())


@contextmanager
def open_client(connection: Connection) -> Iterator[Penstock]:
    """A client of the store, closed in the end."""
    with Penstock(connection.reachable()).open() as client:
        yield client
