"""How a server of ZooKeeper is run: from the jars that the pyspark package carries."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import ServerNotFound
from penstock.server.java import find_any_java

_JARS = (
    # The server.
    *("zookeeper", "zookeeper-jute", "snappy-java", "metrics-core", "commons-io", "slf4j-api"),
    # So that it says why it ended.
    *("log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TICK_MS = 500
"""sessions may last from 2 to 20 of these"""
_ANSWER_S = 2.0
CONFIG = "zoo.cfg"


def zookeeper_command() -> list[str | Path]:
    """What runs a server of ZooKeeper; the path of its configuration goes behind it.

    Raises ServerNotFound or JavaNotFound.
    """
    return [find_any_java(), *_JAVA_OPTIONS, "-cp", _class_path(), _MAIN]


def write_config(folder: Path, port: int, *lines: str) -> Path:
    """The configuration of a server that keeps its data in `folder`; `lines` are added to it."""
    config = folder / CONFIG
    settings = [
        f"dataDir={folder / 'data'}",
        f"clientPort={port}",
        "clientPortAddress=127.0.0.1",
        f"tickTime={_TICK_MS}",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr",
        "autopurge.purgeInterval=1",
        *lines,
    ]
    config.write_text("\n".join(settings) + "\n")
    return config


def configured_port(folder: Path) -> int:
    """The port in the configuration that was written there last; 0 if there is none."""
    with suppress(FileNotFoundError):
        found = re.search(r"^clientPort=(\d+)$", (folder / CONFIG).read_text(), re.M)
        return int(found[1]) if found else 0
    return 0


def ask(server: str, word: bytes) -> bytes:
    """What a server answers to a word of four letters; nothing if none listens."""
    host, _, port = server.rpartition(":")
    answer = b""
    with suppress(OSError), socket.create_connection((host, int(port)), _ANSWER_S) as connection:
        connection.sendall(word)
        while received := connection.recv(4096):
            answer += received
    return answer


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of this machine."""
    with socket.socket() as probe:
        # As Java does: connections of before that are not quite over do no harm.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _class_path() -> str:
    package = find_spec("pyspark")
    for folder in (package and package.submodule_search_locations) or ():
        jars = Path(folder, "jars")
        found = [sorted(jars.glob(f"{name}-[0-9]*.jar")) for name in _JARS]
        if all(found):
            return os.pathsep.join(str(names[-1]) for names in found)
    raise ServerNotFound(
        "the private ZooKeeper runs from jars of the pyspark package, which is not installed; "
        "run pip install 'penstock-queue[spark]', or name a ZooKeeper that runs "
        "(PENSTOCK_ZOOKEEPER)"
    )
