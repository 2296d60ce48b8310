"""Install every peer outside the repository, each in an environment of its own.

One environment per peer, because they disagree about their libraries (arq needs redis-py below 6).
An environment that is already there is used again, so that figures can be repeated with the same
versions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import platformdirs

INSTALL_TIMEOUT_S = 300.0


class InstallFailed(Exception):
    """The peer's environment could not be made; the text says what the installer said."""


@dataclass(frozen=True)
class Peer:
    """One library to install; the first package is the one whose version is the peer's."""

    name: str
    packages: tuple[str, ...]
    is_node: bool = False


# hiredis and uvloop go to every peer that can use them: each runs as its makers would advise.
PEERS = {
    peer.name: peer
    for peer in (
        Peer("rq", ("rq", "redis", "hiredis")),
        Peer("celery", ("celery[redis]", "kombu", "redis", "hiredis")),
        Peer("dramatiq", ("dramatiq[redis]", "redis", "hiredis")),
        Peer("huey", ("huey", "redis", "hiredis")),
        Peer("arq", ("arq", "redis", "hiredis", "uvloop")),
        # saq imports typing_extensions without asking for it.
        Peer("saq", ("saq[redis]", "redis", "hiredis", "uvloop", "typing_extensions")),
        Peer("taskiq", ("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop")),
        Peer("streaq", ("streaq", "coredis", "uvloop")),
        Peer("bullmq-py", ("bullmq", "redis", "hiredis", "uvloop")),
        Peer("bullmq", ("bullmq", "ioredis"), is_node=True),
        Peer("bee-queue", ("bee-queue",), is_node=True),
        Peer("kue", ("kue",), is_node=True),
    )
}


@dataclass(frozen=True)
class Environment:
    """Where a peer lives: what runs its adapter, and the versions that were installed."""

    command: tuple[str, ...]
    folder: Path
    versions: dict[str, str]


def default_folder() -> Path:
    chosen = os.environ.get("PENSTOCK_BENCH_DIR")
    return Path(chosen) if chosen else platformdirs.user_cache_path("penstock-bench-peers")


def install(peer: Peer, folder: Path, *, is_fresh: bool = False) -> Environment:
    """The environment of `peer` under `folder`, made now unless it is there already.

    Raises InstallFailed with the installer's last words.
    """
    home = folder / peer.name
    manifest = home / "installed.json"
    if is_fresh and home.exists():
        shutil.rmtree(home)
    command = _command_of(peer, home)
    if manifest.exists():
        known = json.loads(manifest.read_text())
        if known["packages"] == list(peer.packages):
            return Environment(command, home, known["versions"])
        shutil.rmtree(home)
    home.mkdir(parents=True, exist_ok=True)
    versions = _install_node(peer, home) if peer.is_node else _install_python(peer, home)
    # Written last, so that an install that was cut short is begun again.
    manifest.write_text(json.dumps({"packages": list(peer.packages), "versions": versions}))
    return Environment(command, home, versions)


def _command_of(peer: Peer, home: Path) -> tuple[str, ...]:
    if peer.is_node:
        return (shutil.which("node") or "node",)
    return (str(home / "venv" / "bin" / "python"),)


def _install_python(peer: Peer, home: Path) -> dict[str, str]:
    folder = home / "venv"
    venv.create(folder, clear=True, with_pip=True)
    python = str(folder / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", *peer.packages], home)
    listed = _run([python, "-m", "pip", "list", "--format", "json"], home)
    found = {entry["name"].lower(): entry["version"] for entry in json.loads(listed)}
    names = [package.partition("[")[0] for package in peer.packages]
    return {name: found[name] for name in names}


def _install_node(peer: Peer, home: Path) -> dict[str, str]:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise InstallFailed("node and npm are not on the PATH; install Node 18 or newer")
    (home / "package.json").write_text(json.dumps({"name": "peer", "private": True}))
    _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *peer.packages], home)
    return {
        name: json.loads((home / "node_modules" / name / "package.json").read_text())["version"]
        for name in peer.packages
    }


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(f"{command[0]} took longer than {INSTALL_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        last_words = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise InstallFailed(f"{Path(command[0]).name} ended with {done.returncode}: {last_words}")
    return done.stdout


if __name__ == "__main__":
    for one in PEERS.values():
        try:
            print(one.name, install(one, default_folder()).versions, file=sys.stderr)
        except InstallFailed as failure:
            print(one.name, failure, file=sys.stderr)
