"""`penstock`: the group of all commands."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import click

import penstock
from penstock.bench.command import bench
from penstock.cli.acl import acl
from penstock.cli.doctor import doctor
from penstock.cli.enqueue import enqueue
from penstock.cli.fsck import fsck
from penstock.cli.group import group
from penstock.cli.job import job
from penstock.cli.log import log
from penstock.cli.options import OWN_PROCESS, examples
from penstock.cli.queue import queue
from penstock.cli.render import say_error
from penstock.cli.schedule import schedule
from penstock.cli.server import server
from penstock.cli.spark import spark
from penstock.cli.worker import worker
from penstock.demo.command import demo

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@click.group(
    epilog=examples(
        "penstock demo",
        "penstock enqueue mail hello",
        "penstock queue list",
        """penstock job send mail email '{"to": "alice"}'""",
        "penstock worker run app.tasks -q mail -c 8",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(penstock.__version__, message="%(prog)s %(version)s")
def program() -> None:
    """A reliable, atomic work queue on Redis."""


for command in (
    demo,
    bench,
    enqueue,
    queue,
    job,
    log,
    group,
    schedule,
    worker,
    spark,
    server,
    doctor,
    fsck,
    acl,
):
    program.add_command(command)


def main() -> None:
    """The entry point. Exit status: 0 done, 1 not done, 2 not understood, 130 interrupted."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows its code.
            stream.reconfigure(errors="backslashreplace")
    try:
        program(prog_name="penstock", obj=OWN_PROCESS)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # What could not be written is still in the buffer, and would be tried again on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say_error(f"the answer could not be written: {error.strerror}")
        sys.exit(1)


def _open_closed_streams() -> None:
    """A shell can close them (`>&-`). Nothing that is opened later may be taken for one of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115
