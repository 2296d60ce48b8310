"""Connects to a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.client._async.client import AsyncPenstock
from penstock.client._sync.client import Penstock
from penstock.connection.address import parse_url
from penstock.connection.settings import Settings
from penstock.errors import InvalidName
from penstock.model.names import check_name
from penstock.model.queues import MAX_PAYLOAD
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from pathlib import Path


def connect(
    url: str | None = None,
    *,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
) -> Penstock:
    """A client of the store at `url`, else of `PENSTOCK_URL`, else of a private Redis that is
    started if need be.

    Raises UnsafeStore if the store is set up so that it could lose tasks silently, and
    StoreUnavailable if it does not answer.
    """
    settings = find_settings(url, namespace, data, max_payload, retry_for_s, timeout_s)
    return Penstock(settings).open()


async def aconnect(
    url: str | None = None,
    *,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
) -> AsyncPenstock:
    """The same for an event loop."""
    settings = find_settings(url, namespace, data, max_payload, retry_for_s, timeout_s)
    return await AsyncPenstock(settings).open()


def find_settings(
    url: str | None = None,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
) -> Settings:
    """What was given, else what the environment says, else the private server."""
    namespace = find_namespace(namespace)  # before a server is started for it
    return Settings(parse_url(find_url(url, data)), namespace, max_payload, retry_for_s, timeout_s)


def find_namespace(namespace: str | None = None) -> str:
    """What was given, else what the environment says, else the default."""
    if namespace is None:
        namespace = os.environ.get("PENSTOCK_NAMESPACE", "penstock")
        if not namespace:
            raise InvalidName(
                "the environment variable PENSTOCK_NAMESPACE is empty; give it a name, or unset it "
                "for 'penstock'"
            )
    return check_name("namespace", namespace)


def find_url(url: str | None = None, data: Path | None = None) -> str:
    """The same for the URL alone, as another process is told it; it can have a password."""
    return url or os.environ.get("PENSTOCK_URL") or EmbeddedServer(data).start().url
