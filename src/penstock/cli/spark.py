"""`penstock spark`: queues and Spark."""

from __future__ import annotations

import click

from penstock.cli.spark_run import run


@click.group()
def spark() -> None:
    """Run work on Spark."""


spark.add_command(run)
