"""`penstock job`: jobs, their queues, and what happens there."""

from __future__ import annotations

import click

from penstock.cli.job_list import list_jobs, search
from penstock.cli.job_moves import cancel, priority, promote, remove, retry
from penstock.cli.job_rules import configure, limit, pause_type, purge, resume_type, share
from penstock.cli.job_send import send
from penstock.cli.job_show import explain, log, show
from penstock.cli.job_tail import tail


@click.group()
def job() -> None:
    """Send jobs, look at them and change them."""


for command in (send, list_jobs, search, show, explain, log, tail):
    job.add_command(command)
for command in (retry, cancel, remove, promote, priority):
    job.add_command(command)
for command in (pause_type, resume_type, limit, share, configure, purge):
    job.add_command(command)
