"""`penstock server`: the private Redis of this user."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.options import data_option, errors_reported, examples, json_option
from penstock.cli.render import duration, print_facts, print_json, say, size
from penstock.server.embedded import EmbeddedServer, ServerStatus
from penstock.server.folder import data_folder

if TYPE_CHECKING:
    from penstock.cli.render import Cell
    from penstock.server.zookeeper import EmbeddedZooKeeper, ZooKeeperStatus


@click.group()
def server() -> None:
    """The private Redis that is used when no URL is given."""


@server.command(
    epilog=examples(
        "penstock server start",
        "penstock server start --data ./redis",
        "penstock server start --zookeeper",
    )
)
@click.option(
    "--zookeeper",
    "has_zookeeper",
    is_flag=True,
    help="Start a private ZooKeeper beside it, for consumers of logs.",
)
@data_option
@json_option
def start(data: Path | None, is_json: bool, has_zookeeper: bool) -> None:
    """Start it, unless it runs already."""
    with errors_reported(is_json):
        found = EmbeddedServer(data).start()
        _show(found, _zookeeper(data).start() if has_zookeeper else None, is_json)


@server.command(epilog=examples("penstock server status --json"))
@data_option
@json_option
def status(data: Path | None, is_json: bool) -> None:
    """Say how it is; starts nothing. Exit status 1 if it does not run."""
    with errors_reported(is_json):
        found = EmbeddedServer(data).status()
        _show(found, _zookeeper_status(data), is_json)
        if not found.is_running:
            raise click.exceptions.Exit(1)


@server.command(epilog=examples("penstock server stop"))
@data_option
@json_option
def stop(data: Path | None, is_json: bool) -> None:
    """Stop it, with everything written to disk, and the private ZooKeeper if it runs."""
    with errors_reported(is_json):
        private = EmbeddedServer(data)
        was_coordinated = _zookeeper_status(data) is not None
        zookeeper_was_running = was_coordinated and _zookeeper(data).stop()
        was_running = private.stop()
        if is_json:
            told = {"data": str(private.data), "was_running": was_running}
            if was_coordinated:
                told["zookeeper_was_running"] = zookeeper_was_running
            print_json(told)
        else:
            action = "stopped the private Redis" if was_running else "no private Redis was running"
            say(f"{action} in '{private.data}'")
            if zookeeper_was_running:
                say("stopped the private ZooKeeper")


def _zookeeper(data: Path | None) -> EmbeddedZooKeeper:
    # Imported here, because ZooKeeper is an extra of the package.
    from penstock.server.zookeeper import EmbeddedZooKeeper  # noqa: PLC0415

    return EmbeddedZooKeeper(data)


def _zookeeper_status(data: Path | None) -> ZooKeeperStatus | None:
    """How the private ZooKeeper is, where one was ever started."""
    if not (data_folder(data) / "zookeeper").exists():
        return None
    return _zookeeper(data).status()


def _show(found: ServerStatus, zookeeper: ZooKeeperStatus | None, is_json: bool) -> None:
    if is_json:
        told = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(found).items()}
        if zookeeper is not None:
            told["zookeeper"] = {
                "is_running": zookeeper.is_running,
                "server": zookeeper.server,
                "pid": zookeeper.pid,
                "version": zookeeper.version,
            }
        print_json(told)
        return
    facts: list[tuple[str, Cell]] = [("state", "running" if found.is_running else "stopped")]
    facts += [("url", found.url), ("data", str(found.data))]
    if found.is_running:
        facts += [
            ("version", f"{found.server} {found.version}"),
            ("binary", f"{found.binary}"),
            ("pid", f"{found.pid}"),
            ("up", duration(found.uptime_s or 0)),
            ("memory", size(found.memory_bytes or 0)),
            ("keys", found.keys or 0),
            ("AOF", "on" if found.aof_enabled else "off"),
        ]
    print_facts("private Redis", facts)
    if zookeeper is not None:
        running = [("state", "running"), ("server", zookeeper.server)]
        running += [("version", f"{zookeeper.version}"), ("pid", f"{zookeeper.pid}")]
        running += [("to use it", "penstock worker run MODULE --zookeeper private")]
        print_facts(
            "private ZooKeeper", running if zookeeper.is_running else [("state", "stopped")]
        )
