"""What goes over a connection: packed commands and replies.

Everything is RESP2 through hiredis; see docs/decisions/0001-redis-client-library.md for why.
"""

from __future__ import annotations

import binascii
from itertools import chain
from typing import TYPE_CHECKING, Any

import hiredis

from penstock.errors import UnsafeStore
from penstock.store.command import Prepacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.address import Address
    from penstock.store.command import Argument

    Meanwhile = Callable[[], None] | None
    """what to do while a request is under way"""

ReplyError = hiredis.ReplyError
SLOTS = 16384


class ConnectionLost(Exception):
    """The connection ended before the reply came: the request may or may not have taken effect."""


class NotSent(ConnectionLost):
    """The request did not get to a server that could do it, so it has had no effect."""


def pack(*parts: Argument) -> bytes:
    """A command as it goes over the wire."""
    # Numbers are written here: a signal that comes while hiredis does it, and whose handler raises,
    # would end the process with a segmentation fault (hiredis 3.5, CPython 3.11).
    texts = tuple([str(part) if type(part) is int else part for part in parts])
    packed: bytes = hiredis.pack_command(texts)  # type: ignore[arg-type]
    return packed


OTHERS_FIRST = pack("PING")
"""Sent before a request that publishes messages, so that others get these before the sender gets
its reply. Redis flushes clients in reverse order of when they first had something to get; the reply
to this PING makes the sender the first, so it is flushed last.
"""


def pack_ahead(arguments: list[Argument]) -> Prepacked:
    """The last arguments of a command that is put together later."""
    _, _, data = pack(*arguments).partition(b"\r\n")
    return Prepacked(arguments, data)


def join_packed(parts: list[Prepacked]) -> Prepacked:
    """Several of them, one after the other."""
    arguments = list(chain.from_iterable([part.arguments for part in parts]))
    return Prepacked(arguments, b"".join([part.data for part in parts]))


def pack_with(parts: tuple[Argument, ...], more: Prepacked | None) -> bytes:
    """A command whose last arguments may have been packed ahead."""
    packed = pack(*parts)
    if more is None:
        return packed
    _, _, data = packed.partition(b"\r\n")
    return b"*%d\r\n%b%b" % (len(parts) + len(more.arguments), data, more.data)


def new_reader() -> Any:
    return hiredis.Reader(protocolError=ConnectionLost)


def greeting(address: Address) -> list[bytes]:
    """What a new connection says before anything else."""
    commands: list[tuple[Argument, ...]] = []
    if address.password is not None:
        user = (address.username,) if address.username else ()
        commands.append(("AUTH", *user, address.password))
    if address.db:
        commands.append(("SELECT", address.db))
    return [pack(*command) for command in commands]


def sentinel_greeting(address: Address) -> list[bytes]:
    if address.sentinel_password is None:
        return []
    user = (address.sentinel_username,) if address.sentinel_username else ()
    return [pack("AUTH", *user, address.sentinel_password)]


def slot_of(key: str) -> int:
    """The cluster slot of a key of ours, which always begins with its hash tag."""
    tag = key[1 : key.index("}")]
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


def parse_info(text: bytes) -> dict[str, str]:
    """The reply to INFO."""
    lines = text.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def check_store(info: dict[str, str], address: Address) -> None:
    """Refuse a store that could lose tasks silently, before anything is put there."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsafeStore(
            f"the Redis at {address} evicts keys (maxmemory-policy is {policy!r}), which would "
            "lose tasks silently; "
            "set it to 'noeviction'"
        )
    if version_of(info) < (6, 2):
        raise UnsafeStore(
            f"the Redis at {address} is version {info.get('redis_version')}; penstock needs 6.2 "
            "or newer"
        )
    if info.get("arch_bits", "64") == "32":
        raise UnsafeStore(
            f"the Redis at {address} is a 32-bit build, whose scripts cannot count as far as "
            "penstock does; use a 64-bit one"
        )


def version_of(info: dict[str, str]) -> tuple[int, int]:
    """The level of the protocol; Valkey says which Redis it is like."""
    major, minor, *_ = (*info.get("redis_version", "0.0").split("."), "0")
    return int(major), int(minor)


def redirection(error: Exception) -> tuple[str, str, int] | None:
    """(MOVED or ASK, host, port) if the error is a cluster redirection."""
    kind, _, rest = str(error).partition(" ")
    if kind not in ("MOVED", "ASK"):
        return None
    host, _, port = rest.split(" ")[1].rpartition(":")
    return kind, host, int(port)
