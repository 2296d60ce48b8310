"""`penstock spark`: the data pipeline.

PySpark is imported by the commands when they run, so that all others work without it and start
fast.
"""

from __future__ import annotations

import click

from penstock.cli.spark_archive import archive
from penstock.cli.spark_ingest import ingest
from penstock.cli.spark_report import report
from penstock.cli.spark_run import run
from penstock.cli.spark_verify import verify


@click.group()
def spark() -> None:
    """Fill queues, run work on Spark, keep history in a lake, and ask it."""


for command in (ingest, run, archive, verify, report):
    spark.add_command(command)
