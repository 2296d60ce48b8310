"""`penstock worker check`: whether a worker is well, for supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import duration, print_json, say
from penstock.errors import WorkerNotFound

if TYPE_CHECKING:
    from penstock.model.workers import WorkerInfo


@click.command(
    epilog=examples(
        "penstock worker check host.4711.5f3a9c01",
        "penstock worker check --name nightly --json",
    )
)
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--name", metavar="NAME", help="Any worker that was started with this --name.")
@with_store
def check(at: Target, id_: str | None, name: str | None) -> None:
    """Whether a worker is well: exit status 0, else 1.

    It is if its lease is valid, so that the store hears from it, and not all of its slots are taken
    by work past its timeout that cannot be ended. Of several of one NAME, one that is well is
    enough. A paused worker is well.
    """
    if (id_ is None) == (name is None):
        raise click.UsageError("Give the ID of a worker, or --name.")
    with at.connected() as client:
        found = [info for info in client.workers() if id_ in (None, info.id)]
        found = [info for info in found if name in (None, info.name)]
        if not found:
            who = f"worker {id_!r}" if name is None else f"worker of name {name!r}"
            raise WorkerNotFound(
                f"no {who} is registered in namespace {client.keys.namespace!r}; it has ended, was "
                "failed or was never started: start it again"
            )
    problems = {info.id: _problem(info) for info in found}
    is_well = "" in problems.values()
    if at.is_json:
        print_json({"is_well": is_well, "workers": problems})
    else:
        for worker, problem in sorted(problems.items()):
            say(f"'{worker}' {problem or 'is well'}")
    if not is_well:
        raise click.exceptions.Exit(1)


def _problem(info: WorkerInfo) -> str:
    """What is wrong with it; empty if nothing is."""
    if info.lease_left_ms is None:
        return "was failed: its work goes back; start it again"
    if not info.is_alive:
        over = duration(-info.lease_left_ms / 1000)
        return f"has not been heard of since its lease ended {over} ago: restart it"
    if info.is_stuck:
        return f"is stuck: all its {info.slots} slots hold work past its timeout: restart it"
    return ""
