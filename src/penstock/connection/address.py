"""Where the store is: URLs to addresses."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import InvalidUrl

Topology = Literal["single", "sentinel", "cluster"]

_FORMS = (
    "use redis://host:6379/0, rediss://host:6379/0, unix:///path/to/socket, "
    "redis+sentinel://host:26379/master/0 or redis+cluster://host:6379"
)
_ESCAPES = "write special characters of a user or password as %XX (@ is %40, / is %2F, # is %23)"
_DEFAULT_PORTS: dict[Topology, int] = {"single": 6379, "sentinel": 26379, "cluster": 6379}
SEEN_PASSWORD = (
    "every user of this machine can see the password in --url (`ps`); give the URL in a file "
    "(--url-file) or in PENSTOCK_URL"
)
_NETLOC = re.compile(r"[^/?#]*")
_OPTIONS = {"db", "ca", "cert", "key", "sentinel_username", "sentinel_password"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server to connect to: a host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"


@dataclass(frozen=True)
class Address:
    """A parsed URL. Printing it never shows a password."""

    topology: Topology
    endpoints: tuple[Endpoint, ...]
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    master: str = ""
    is_tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings; certificate and host name are always checked."""
        if not self.is_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidUrl(
                f"the certificates named in the store URL cannot be used ({error}); check the "
                "options ca, cert and key"
            ) from error
        return context

    def __str__(self) -> str:
        places = ",".join(map(str, self.endpoints))
        tls = " (TLS)" if self.is_tls else ""
        return places + tls if self.topology == "single" else f"{self.topology} {places}{tls}"


def parse_url(url: str) -> Address:
    """Understand a store URL, or say what is wrong with it without repeating its password."""
    if not isinstance(url, str):
        raise InvalidUrl(f"the store URL is text, not {type(url).__name__}; {_FORMS}")
    before, slashes, rest = url.partition("//")
    netloc = _NETLOC.match(rest)[0] if slashes else ""  # type: ignore[index]
    userinfo, at, places = netloc.rpartition("@")
    try:
        # One by one, as newer versions of Python do not take brackets behind a comma for a host.
        for place in places.split(","):
            parts = urlsplit(before + slashes + userinfo + at + place + rest[len(netloc) :])
        scheme, _, form = parts.scheme.partition("+")
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    except ValueError:
        # The reason is left out: it can repeat the password.
        raise InvalidUrl(f"the store URL cannot be understood; {_ESCAPES}; {_FORMS}") from None
    is_unix = scheme == "unix" and not form
    if "@" in parts.query + parts.fragment or ("@" in parts.path and not is_unix):
        # What follows could be the rest of a password, so it is not repeated.
        raise InvalidUrl(f"the store URL has an '@' behind its host; {_ESCAPES}")
    if unknown := options.keys() - _OPTIONS:
        raise InvalidUrl(
            f"the store URL has an unknown option {min(unknown)!r}; known are {_known()}"
        )
    username, has_password, password = userinfo.partition(":")
    login = (unquote(username) or None, unquote(password) if has_password else None)
    if is_unix:
        return _unix_address(places, parts.path, options, *login)
    if scheme not in ("redis", "rediss", "valkey", "valkeys") or form not in (
        "",
        "sentinel",
        "cluster",
    ):
        raise InvalidUrl(f"the store URL begins with {parts.scheme!r}; {_FORMS}")
    topology: Topology = form or "single"  # type: ignore[assignment]
    if topology == "single" and "," in places:
        raise InvalidUrl(
            "the store URL names several servers; use redis+sentinel:// or redis+cluster:// for "
            "servers that belong together"
        )
    path = [unquote(part) for part in parts.path.split("/") if part]
    master = ""
    if topology == "sentinel":
        if not path:
            raise InvalidUrl(
                "a sentinel URL needs the name of the master: redis+sentinel://host:26379/mymaster"
            )
        master = path.pop(0)
    return Address(
        topology=topology,
        endpoints=tuple(_endpoint(place, _DEFAULT_PORTS[topology]) for place in places.split(",")),
        db=_database(path[0] if path else options.get("db", "0"), topology),
        username=login[0],
        password=login[1],
        master=master,
        is_tls=scheme in ("rediss", "valkeys"),
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
    )


def shows_password(url: str) -> bool:
    """Whether a password can be read in the URL."""
    try:
        address = parse_url(url)
    except InvalidUrl:
        return False  # which is told by those who need it
    return address.password is not None or address.sentinel_password is not None


def _unix_address(
    host: str, path: str, options: dict[str, str], username: str | None, password: str | None
) -> Address:
    if host or not path:
        raise InvalidUrl(
            "a unix URL needs the absolute path of a socket behind three slashes; " + _FORMS
        )
    database = _database(options.get("db", "0"), "single")
    return Address("single", (Endpoint(path=unquote(path)),), database, username, password)


def _endpoint(place: str, default_port: int) -> Endpoint:
    host, colon, port = place.rpartition(":")
    if not colon or "]" in port:
        host, port = place, str(default_port)
    if not port.isdecimal():
        raise InvalidUrl(
            f"the store URL has a port that is not a number; a port is 1 to 65535, and {_ESCAPES}"
        )
    if not 0 < int(port) < 65536:
        raise InvalidUrl(f"the store URL has the port {port}; a port is a number from 1 to 65535")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise InvalidUrl(
            "the store URL has a host with a colon; write an IPv6 address in brackets, as in "
            "redis://[::1]:6379"
        )
    host = host.strip("[]") or "localhost"
    try:
        host.encode("idna")
    except UnicodeError:
        raise InvalidUrl(
            f"the store URL has the host {host!r}, which cannot be a host name"
        ) from None
    return Endpoint(host, int(port))


def _database(text: str, topology: Topology) -> int:
    if not text.isdecimal():
        raise InvalidUrl(f"the store URL names database {text!r}; a database is a number such as 0")
    if topology == "cluster" and int(text):
        raise InvalidUrl(
            f"a cluster has only database 0, not {text}; leave it out and use a namespace"
        )
    return int(text)


def _known() -> str:
    return ", ".join(sorted(_OPTIONS))
