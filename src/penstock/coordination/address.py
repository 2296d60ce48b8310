"""Where ZooKeeper is, and how to show who we are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.errors import InvalidUrl

_FORMS = (
    "use host:2181, host:2181,host:2182/folder, or zookeeper://user:password@host:2181/folder with "
    "?auth=sasl, ?tls=on, ?ca=FILE, ?cert=FILE, ?key=FILE, ?session=SECONDS"
)
_OPTIONS = {"auth", "tls", "ca", "cert", "key", "session"}
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@?#]+)(?::(\d{1,5}))?")
_PORT = 2181
SESSION_S = 10.0


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """The servers of an ensemble. Printing it never shows the password."""

    servers: str
    """`host:port` of each, with commas between them"""
    folder: str = ""
    """the node below which everything lies (a chroot); empty, or with a leading slash"""
    username: str = ""
    password: str = field(default="", repr=False)
    uses_sasl: bool = False
    """else user and password are ZooKeeper's own `digest`"""
    uses_tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    session_s: float = SESSION_S
    """after which a member that is not heard of is gone; ZooKeeper has bounds of its own"""

    def __str__(self) -> str:
        return f"{self.servers}{self.folder}"


def parse_zookeeper_address(text: str) -> ZooKeeperAddress:
    """Read `host:port[,host:port…][/folder]`, or the same as a URL with user and options.

    Raises InvalidUrl.
    """
    has_scheme = text.startswith("zookeeper://")
    parts = urlsplit(text if has_scheme else f"zookeeper://{text}")
    identity, _, servers = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(options) - _OPTIONS):
        raise _invalid(f"option {unknown[0]!r} of the ZooKeeper address is unknown")
    if options.get("auth", "digest") not in ("digest", "sasl"):
        raise _invalid(f"auth is {options['auth']!r}, which is neither digest nor sasl")
    if options.get("tls", "off") not in ("on", "off"):
        raise _invalid(f"tls is {options['tls']!r}, which is neither on nor off")
    username, _, password = identity.partition(":")
    return ZooKeeperAddress(
        servers=",".join(_server(server) for server in servers.split(",")),
        folder=parts.path.rstrip("/"),
        username=unquote(username),
        password=unquote(password),
        uses_sasl=options.get("auth") == "sasl",
        uses_tls=options.get("tls") == "on",
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        session_s=_seconds(options.get("session", f"{SESSION_S:g}")),
    )


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text.strip())
    if found is None or not 0 < int(found[2] or _PORT) < 65536:
        raise _invalid(f"{text!r} is not a server of ZooKeeper")
    return f"{found[1]}:{found[2] or _PORT}"


def _seconds(text: str) -> float:
    try:
        session_s = float(text)
    except ValueError:
        session_s = 0.0
    if not 1 <= session_s <= 3600:
        raise _invalid(f"session is {text!r}, and must be a number of seconds from 1 to 3600")
    return session_s


def _invalid(problem: str) -> InvalidUrl:
    return InvalidUrl(f"{problem}; {_FORMS}")
