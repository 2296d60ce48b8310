"""The stamp in a data folder: which server the data is of, so that none is launched that cannot
read it.

A server that meets data of a newer one ends, or starts empty and says nothing.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import ServerFailed
from penstock.server.binary import Build, build_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STAMP = "server.stamp"
_AOF_FOLDER_OF_REDIS_7 = "appendonlydir"


def check_readable(data: Path, binary: Path) -> None:
    """Raises ServerFailed if `binary` could not read what is in `data`.

    A folder without a stamp is from before there were stamps, and is taken over.
    """
    writer, reader = read_stamp(data), build_of(binary)
    if reader is None:
        return  # it does not run, which the launch will tell
    if writer is not None and not can_read(reader, writer):
        written = f"by {writer}"
    elif (data / _AOF_FOLDER_OF_REDIS_7).exists() and reader.version < (7, 0):
        written = "by Redis 7 or later"
    else:
        return
    raise ServerFailed(
        f"the data in '{data}' was written {written}, and '{binary}' ({reader}) cannot read it; "
        "set PENSTOCK_REDIS_SERVER to a server of the same kind that is no older, or choose "
        "another data folder (PENSTOCK_DATA)"
    )


def can_read(reader: Build, writer: Build) -> bool:
    """Whether one server takes over the data of another. Each reads what its own older versions
    wrote; Valkey began as Redis 7.2, and its files are its own since version 9.
    """
    if reader.name == writer.name:
        return reader.version[:2] >= writer.version[:2]
    if (reader.name, writer.name) == ("Valkey", "Redis"):
        return writer.version < (7, 3)
    if (reader.name, writer.name) == ("Redis", "Valkey"):
        return writer.version < (9,) and reader.version >= (7, 2)
    return False


def stamp(data: Path, info: Mapping[str, str]) -> None:
    """Note the server that has read the data and writes it from now on, as INFO tells it."""
    build = told_by(info)
    if build is None or read_stamp(data) == build:
        return
    # Renamed into place, so that nobody reads half of it; several may do it, and write the same.
    fresh = data / f"{_STAMP}.{os.getpid()}"
    fresh.write_text(f"{build}\n")
    fresh.replace(data / _STAMP)


def read_stamp(data: Path) -> Build | None:
    """None where there is no stamp, or none that can be read."""
    with suppress(OSError):
        return _parse((data / _STAMP).read_text(errors="replace"))
    return None


def told_by(info: Mapping[str, str]) -> Build | None:
    """Which server it is that answers INFO."""
    if "valkey_version" in info:
        return _parse(f"Valkey {info['valkey_version']}")
    return _parse(f"Redis {info.get('redis_version', '')}")


def _parse(text: str) -> Build | None:
    told = re.match(r"(\w+) (\d+)\.(\d+)\.(\d+)", text)
    return Build(told[1], (int(told[2]), int(told[3]), int(told[4]))) if told else None
