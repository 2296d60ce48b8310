"""The options of commands that run workers, here and on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli.options import Seconds
from penstock.client.environment import parse_size
from penstock.model.workers import HEARTBEAT_MS, LEASE_MS

FC = TypeVar("FC", bound=Callable[..., Any])

strict_option = click.option(
    "--strict", is_flag=True, help="Serve a queue only while those before it are empty."
)
grace_option = click.option(
    "--grace",
    "grace_s",
    metavar="S",
    type=Seconds(0),
    default=30.0,
    show_default=True,
    help="Seconds that running tasks have to end when stopped.",
)
heartbeat_option = click.option(
    "--heartbeat-ms",
    metavar="MS",
    type=click.IntRange(1),
    default=HEARTBEAT_MS,
    show_default=True,
    help="How often the lease is renewed.",
)


def served_option(help: str, required: bool = False) -> Callable[[FC], FC]:
    """`-q`: which queues the workers serve."""
    return click.option(
        "-q",
        "--queue",
        "queues",
        metavar="QUEUE[=WEIGHT]",
        multiple=True,
        required=required,
        help=help,
    )


def concurrency_option(help: str) -> Callable[[FC], FC]:
    return click.option(
        "-c",
        "--concurrency",
        metavar="N",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help=help,
    )


def lease_option(help: str) -> Callable[[FC], FC]:
    return click.option(
        "--lease-ms",
        metavar="MS",
        type=click.IntRange(1),
        default=LEASE_MS,
        show_default=True,
        help=help,
    )


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """A size, as 500M."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        size = parse_size(str(value))
        if size is None:
            self.fail(f"{value!r} is no size; write it as 500M or 2G.", param, ctx)
        return size


def renewal_options(command: FC) -> FC:
    """`--max-jobs` and `--max-memory`."""
    jobs = click.option(
        "--max-jobs",
        metavar="N",
        type=click.IntRange(1),
        help="Go on in a new process after so many tasks and jobs.",
    )
    memory = click.option(
        "--max-memory",
        metavar="SIZE",
        type=Bytes(),
        help="Go on in a new process when this one has more, as 500M.",
    )
    return jobs(memory(command))


max_payload_option = click.option(
    "--max-payload",
    metavar="SIZE",
    type=Bytes(),
    help="The largest result, as 4M. Default: PENSTOCK_MAX_PAYLOAD, else 1M.",
)


def check_lease(lease_ms: int, heartbeat_ms: int) -> None:
    """Raises click.UsageError for a lease that would end before it is renewed."""
    if heartbeat_ms >= lease_ms:
        raise click.UsageError("--heartbeat-ms must be less than --lease-ms.")
