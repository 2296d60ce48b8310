"""`penstock server`: the private Redis of this user."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.options import data_option, errors_reported, examples, json_option
from penstock.cli.render import duration, print_facts, print_json, say, size
from penstock.server.embedded import EmbeddedServer, ServerStatus

if TYPE_CHECKING:
    from penstock.cli.render import Cell


@click.group()
def server() -> None:
    """The private Redis that is used when no URL is given."""


@server.command(epilog=examples("penstock server start", "penstock server start --data ./redis"))
@data_option
@json_option
def start(data: Path | None, is_json: bool) -> None:
    """Start it, unless it runs already."""
    with errors_reported(is_json):
        _show(EmbeddedServer(data).start(), is_json)


@server.command(epilog=examples("penstock server status --json"))
@data_option
@json_option
def status(data: Path | None, is_json: bool) -> None:
    """Say how it is; starts nothing. Exit status 1 if it does not run."""
    with errors_reported(is_json):
        found = EmbeddedServer(data).status()
        _show(found, is_json)
        if not found.is_running:
            raise click.exceptions.Exit(1)


@server.command(epilog=examples("penstock server stop"))
@data_option
@json_option
def stop(data: Path | None, is_json: bool) -> None:
    """Stop it, with everything written to disk."""
    with errors_reported(is_json):
        private = EmbeddedServer(data)
        was_running = private.stop()
        if is_json:
            print_json({"data": str(private.data), "was_running": was_running})
        else:
            action = "stopped the private Redis" if was_running else "no private Redis was running"
            say(f"{action} in '{private.data}'")


def _show(found: ServerStatus, is_json: bool) -> None:
    if is_json:
        print_json({k: str(v) if isinstance(v, Path) else v for k, v in asdict(found).items()})
        return
    facts: list[tuple[str, Cell]] = [("state", "running" if found.is_running else "stopped")]
    facts += [("url", found.url), ("data", str(found.data))]
    if found.is_running:
        facts += [
            ("version", f"{found.version}"),
            ("binary", f"{found.binary}"),
            ("pid", f"{found.pid}"),
            ("up", duration(found.uptime_s or 0)),
            ("memory", size(found.memory_bytes or 0)),
            ("keys", found.keys or 0),
            ("AOF", "on" if found.aof_enabled else "off"),
        ]
    print_facts("private Redis", facts)
