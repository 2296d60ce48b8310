"""`penstock fsck`: whether everything stored makes sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, print_json, print_table, say
from penstock.client.fsck import Report, check, repair

if TYPE_CHECKING:
    from penstock.model.violations import Violation


@click.command("fsck", epilog=examples("penstock fsck", "penstock fsck --repair"))
@click.option("--repair", "is_repair", is_flag=True, help="Mend what can be mended without risk.")
@with_store
def fsck(at: Target, is_repair: bool) -> None:
    """Check everything in the namespace, while it is in use.

    Exit status 1 if anything is wrong, or still wrong after a repair.
    """
    with at.connected() as client:
        report = check(client)
        if is_repair and report.violations:
            report = repair(client, report)
    if at.is_json:
        print_json(_document(report))
    else:
        _show(report)
    if report.violations:
        raise click.exceptions.Exit(1)


def _show(report: Report) -> None:
    rows = [
        *(("repaired", v.invariant, v.queue, v.message) for v in report.repaired),
        *((_word(v), v.invariant, v.queue, v.message) for v in report.violations),
    ]
    if rows:
        print_table(("state", "invariant", "queue", "what is wrong"), rows, empty="")
        click.echo()
    seen = [(report.queues, "queue"), (report.tasks, "task"), (report.workers, "worker")]
    if report.messages:
        seen.insert(2, (report.messages, "message"))
    if report.jobs:
        seen.insert(2, (report.jobs, "job"))
    wrong = counted(len(report.violations), "violation")
    mended = f", {len(report.repaired):,} repaired" if report.repaired else ""
    say(f"{', '.join(counted(*pair) for pair in seen)}: {wrong}{mended}")
    if any(violation.is_repairable for violation in report.violations):
        say("`penstock fsck --repair` mends those that are repairable")


def _word(violation: Violation) -> str:
    return "repairable" if violation.is_repairable else "left"


def _document(report: Report) -> dict[str, object]:
    def described(violations: list[Violation]) -> list[dict[str, object]]:
        names = ("invariant", "queue", "message", "is_repairable")
        return [{name: getattr(violation, name) for name in names} for violation in violations]

    return {
        "is_clean": not report.violations,
        "queues": report.queues,
        "tasks": report.tasks,
        "jobs": report.jobs,
        "messages": report.messages,
        "workers": report.workers,
        "violations": described(report.violations),
        "repaired": described(report.repaired),
    }
