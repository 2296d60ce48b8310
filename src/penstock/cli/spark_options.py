"""The options that commands for Spark share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FC = TypeVar("FC", bound=Callable[..., Any])

SESSION_CONFIG = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",  # what is asked of a lake gives few rows
}
"""For sessions that a command starts."""

queues_option = click.option(
    "-q", "--queue", "queues", metavar="QUEUE", multiple=True, help="Default: all there are."
)
master_option = click.option(
    "--master",
    metavar="MASTER",
    help="Where Spark runs, as local[4] or spark://host:7077. Default: all cores of this machine.",
)


def pairs_option(*names: str, help: str) -> Callable[[FC], FC]:
    """An option that is given as NAME=VALUE, any number of times, and is a dict."""
    return click.option(
        *names,
        metavar="NAME=VALUE",
        multiple=True,
        callback=lambda _, __, given: _pairs(given),
        help=help,
    )


storage_option = pairs_option(
    "--storage", help="How a lake such as s3://bucket/history is reached, as AWS_REGION=eu-west-1."
)


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, sign, value in pairs:
        if not name or not sign:
            raise click.BadParameter(f"{name + sign + value!r} is not of the form NAME=VALUE.")
    return {name: value for name, _, value in pairs}
