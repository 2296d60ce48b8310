"""`penstock worker dump`: what a worker does with logs, as it told with its last heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import print_facts, print_json, print_table, say
from penstock.errors import WorkerNotFound

if TYPE_CHECKING:
    from penstock.cli.render import Cell
    from penstock.client.client import Penstock
    from penstock.model.workers import WorkerInfo

LOG_NEWS = ("logs", "partitions", "partitions_owned")
"""what a worker that reads logs tells about itself; see `Worker._tell_of_logs`"""
_COLUMNS = ("log", "group", "partition", "epoch", "position", "committed", "state")


@click.command(epilog=examples("penstock worker dump host.4711.5f3a9c01"))
@click.argument("id_", metavar="ID")
@with_store
def dump(at: Target, id_: str) -> None:
    """What a worker does with logs: counters, partitions, offsets, epochs and state.

    It is what the worker told with its last heartbeat, by default a second ago at most, of its
    first 50 partitions; `penstock group show` has all. `position` is how far it has come,
    `committed` how much of that is written down.
    """
    with at.connected() as client:
        info = registered(client, id_)
    told = {name: info.about.get(name) for name in LOG_NEWS}
    if at.is_json:
        print_json({"id": info.id, "is_alive": info.is_alive, **told})
        return
    if not isinstance(told["logs"], dict):
        say(f"'{info.id}' has told nothing of logs; it has no consumers, or has just begun")
        return
    print_facts(info.id, [("lease", _lease(info)), *map(_fact, told["logs"].items())])
    owned: Any = told["partitions"]
    rows = [tuple(_cell(name, one.get(name)) for name in _COLUMNS) for one in owned]
    print_table(_COLUMNS, rows, empty="it owns no partition")
    for one in owned:
        if one.get("problem"):
            where = f"{one['log']} {one['group']} partition {one['partition']}"
            say(f"{where} stands still: {one['problem']}")


def registered(client: Penstock, id_: str) -> WorkerInfo:
    """Raises WorkerNotFound."""
    for info in client.workers():
        if info.id == id_:
            return info
    raise WorkerNotFound(
        f"no worker {id_!r} is registered in namespace {client.keys.namespace!r}; "
        "`penstock worker list` shows those that are"
    )


def _lease(info: WorkerInfo) -> str:
    return "valid" if info.is_alive else "over, so that this may not be true any more"


def _fact(named: tuple[str, Any]) -> tuple[str, Cell]:
    name, value = named
    if not isinstance(value, dict):
        return name, value
    mean_ms, longest_ms = 1000 * value["mean_s"], 1000 * value["longest_s"]
    return name, f"{value['times']:,} times, {mean_ms:,.1f} ms each, {longest_ms:,.1f} ms at most"


def _cell(name: str, value: Any) -> Cell:
    # Epochs are names rather than amounts.
    return value if name == "partition" else str(value)
