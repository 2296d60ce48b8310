"""Connects to a store."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client._async.client import AsyncPenstock
from penstock.client._sync.client import Penstock
from penstock.connection.address import parse_url
from penstock.connection.settings import Settings
from penstock.coordination.address import parse_zookeeper_address
from penstock.errors import InvalidArgument, InvalidName, InvalidUrl
from penstock.model.names import check_name
from penstock.model.queues import MAX_PAYLOAD
from penstock.server.embedded import EmbeddedServer
from penstock.server.project import project_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

PRIVATE = "private"
"""instead of an address: the ZooKeeper that `penstock server start --zookeeper` starts"""


def connect(
    url: str | None = None,
    *,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
    zookeeper: str | None = None,
) -> Penstock:
    """A client of the store at `url`, else of `PENSTOCK_URL` (or what is in the file
    `PENSTOCK_URL_FILE`), else of a private Redis that is started if need be.

    The namespace is by default `PENSTOCK_NAMESPACE`, else `penstock`; on the private Redis, else
    the project that the program belongs to. Workers of this client that read logs share them
    through `zookeeper` (`host:2181/folder`, or `private` for one that is started beside the private
    Redis), else `PENSTOCK_ZOOKEEPER`, else through the store.

    Raises UnsafeStore if the store is set up so that it could lose tasks silently, and
    StoreUnavailable if it does not answer.
    """
    settings = find_settings(url, namespace, data, max_payload, retry_for_s, timeout_s, zookeeper)
    return Penstock(settings).open()


async def aconnect(
    url: str | None = None,
    *,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
    zookeeper: str | None = None,
) -> AsyncPenstock:
    """The same for an event loop."""
    settings = find_settings(url, namespace, data, max_payload, retry_for_s, timeout_s, zookeeper)
    return await AsyncPenstock(settings).open()


def find_settings(
    url: str | None = None,
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
    zookeeper: str | None = None,
) -> Settings:
    """What was given, else what the environment says, else the private server."""
    url = url or named_url()
    if not url:
        return private_settings(namespace, data, max_payload, retry_for_s, timeout_s, zookeeper)
    chosen = find_namespace(namespace)
    waits = retry_for_s, timeout_s
    return Settings(
        parse_url(url), chosen, max_payload, *waits, zookeeper=find_zookeeper(zookeeper)
    )


def private_settings(
    namespace: str | None = None,
    data: Path | None = None,
    max_payload: int = MAX_PAYLOAD,
    retry_for_s: float | None = 30.0,
    timeout_s: float = 5.0,
    zookeeper: str | None = None,
) -> Settings:
    """The same for the private server of the folder `data`, whatever PENSTOCK_URL says."""
    chosen = find_namespace(namespace, project_namespace)  # before a server is started for it
    server = EmbeddedServer(data)
    coordinator = find_zookeeper(zookeeper, data)
    address = parse_url(server.start().url)
    about = max_payload, retry_for_s, timeout_s
    return Settings(address, chosen, *about, server=server, zookeeper=coordinator)


def find_zookeeper(given: str | None, data: Path | None = None) -> str:
    """The address of the ZooKeeper, else what the environment says; empty if there is none.
    `private` is that of the data folder, which is started if need be.

    Raises InvalidUrl, and what the start of a private ZooKeeper raises.
    """
    address = given or os.environ.get("PENSTOCK_ZOOKEEPER", "")
    if address == PRIVATE:
        return _private_zookeeper(data)
    if address:
        parse_zookeeper_address(address)  # now, not in a worker much later
    return address


def _private_zookeeper(data: Path | None) -> str:
    try:
        # Here, as its client is an extra that only those need who have a ZooKeeper.
        module = import_module("penstock.server.zookeeper")
    except ModuleNotFoundError:
        raise InvalidArgument(
            "the private ZooKeeper is named, and the client of ZooKeeper is not installed; run "
            "pip install 'penstock-queue[spark,zookeeper]'"
        ) from None
    address: str = module.EmbeddedZooKeeper(data).start().address
    return address


def find_namespace(given: str | None, default: Callable[[], str] = lambda: "penstock") -> str:
    """What was given, else what the environment says, else the default."""
    if given is not None:
        return check_name("namespace", given)
    named = os.environ.get("PENSTOCK_NAMESPACE")
    if named == "":
        raise InvalidName(
            "the environment variable PENSTOCK_NAMESPACE is empty; give it a name, or unset it "
            f"for '{default()}'"
        )
    return check_name("namespace", named or default())


def find_url(url: str | None = None, data: Path | None = None) -> str:
    """The same for the URL alone, as another process is told it; it can have a password."""
    return url or named_url() or EmbeddedServer(data).start().url


def named_url() -> str | None:
    """The URL that the environment names: PENSTOCK_URL, else what is in the file
    PENSTOCK_URL_FILE.
    """
    url = os.environ.get("PENSTOCK_URL")
    file = os.environ.get("PENSTOCK_URL_FILE")
    return url or (read_url(Path(file), "PENSTOCK_URL_FILE") if file else None)


def read_url(file: Path, source: str) -> str:
    """The URL in a file, where it can have a password; `source` says who named the file."""
    try:
        url = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidUrl(
            f"the file '{file}' that {source} names cannot be read ({reason}); put the URL of the "
            "store into it, or name another"
        ) from error
    if not url:
        raise InvalidUrl(f"the file '{file}' that {source} names is empty; put the URL into it")
    return url
