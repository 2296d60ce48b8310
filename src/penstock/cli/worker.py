"""`penstock worker`: run one, and look at those that run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from rich.text import Text

from penstock.cli.options import Target, examples, has_own_process, report_error, with_store
from penstock.cli.render import counted, duration, print_facts, print_json, print_table, say
from penstock.cli.worker_check import check
from penstock.cli.worker_dump import LOG_NEWS, dump, registered
from penstock.cli.worker_log import WorkerLog, log_options
from penstock.cli.worker_options import (
    check_lease,
    concurrency_option,
    grace_option,
    heartbeat_option,
    lease_option,
    max_payload_option,
    renewal_options,
    served_option,
    strict_option,
)
from penstock.client.connect import find_zookeeper
from penstock.client.environment import limits_of_environment
from penstock.errors import QueueNotFound, WrongKind
from penstock.model.workers import WorkerInfo, pausable_name
from penstock.worker.run import run_worker
from penstock.worker.shared_memory import SharedMemory
from penstock.worker.stacks import write_stacks_on_request
from penstock.worker.supervisor import CAN_SUPERVISE, RENEWED, supervise

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.cli.render import Cell
    from penstock.client.client import Penstock
    from penstock.connection.settings import Settings

_SHOWN = ("host", "pid", "started_at", "queues", "stuck_slots", *LOG_NEWS)


@click.group()
def worker() -> None:
    """Run workers and look at them."""


for command in (check, dump):
    worker.add_command(command)


@worker.command(epilog=examples("penstock worker run app.tasks -q mail -q images -c 8"))
@click.argument("module")
@served_option("Default: all that MODULE handles. With weights, queues share what is started.")
@strict_option
@concurrency_option("Tasks at a time.")
@grace_option
@lease_option("Its tasks return this long after it died.")
@heartbeat_option
@click.option("--name", help="How its id begins. Default: host and process id.")
@click.option(
    "--until-empty",
    is_flag=True,
    help="End when nothing waits or runs, and no job is to be tried again.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep a file of JSON with how much it has done.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="Without a second process that watches it and tells what killed it.",
)
@max_payload_option
@renewal_options
@log_options
@click.option(
    "--zookeeper",
    metavar="ADDRESS",
    help="Share logs through this ZooKeeper (host:2181/folder, PENSTOCK_ZOOKEEPER, or private for "
    "one beside the private Redis), not Redis.",
)
@with_store
def run(
    at: Target,
    module: str,
    queues: tuple[str, ...],
    strict: bool,
    concurrency: int,
    grace_s: float,
    lease_ms: int,
    heartbeat_ms: int,
    name: str | None,
    until_empty: bool,
    report: Path | None,
    alone: bool,
    max_payload: int | None,
    max_jobs: int | None,
    max_memory: int | None,
    log_level: str | None,
    log_format: Literal["text", "json"] | None,
    zookeeper: str | None,
) -> None:
    """Import MODULE and run the handlers it registers, until told to stop.

    SIGTERM, SIGINT (Ctrl-C) and SIGHUP stop it: what runs may end within --grace, and what is left
    then is given back. A second one takes the grace time away. SIGUSR1 writes to stderr where each
    thread and each task of the event loop is.

    If the worker is killed, its work goes back at once, and the jobs that it held say by which
    signal and how much memory it had.

    If MODULE sets up logging, its log goes where that says, and else to stderr.
    """
    check_lease(lease_ms, heartbeat_ms)
    log = WorkerLog(log_level, log_format or ("json" if at.is_json else "text"))
    names, weights = weighted(queues)
    settings = replace(at.settings(), zookeeper=find_zookeeper(zookeeper, at.data))
    if most := max_payload or limits_of_environment().get("max_payload"):
        settings = replace(settings, max_payload=most)

    def work(shared: SharedMemory | None) -> int:
        try:
            return run_worker(
                settings,
                module,
                names,
                concurrency,
                grace_s,
                name,
                lease_ms,
                heartbeat_ms,
                strict,
                weights,
                until_empty,
                report,
                shared,
                on_loaded=log.settle,
                max_jobs=max_jobs,
                max_memory=max_memory,
            )
        except WrongKind as error:
            # What was asked for cannot be, so that to start it again would not help.
            report_error(error, at.is_json)
            return 2

    log.begin()
    try:
        status = _run(settings, grace_s, work, is_alone=alone)
    finally:
        log.end()
    raise click.exceptions.Exit(status)


def _run(
    settings: Settings,
    grace_s: float,
    work: Callable[[SharedMemory | None], int],
    is_alone: bool,
) -> int:
    is_process = has_own_process()
    if is_process:
        write_stacks_on_request()
    if is_process and CAN_SUPERVISE and not is_alone:
        return supervise(settings, grace_s, work)
    status = work(SharedMemory() if is_process else None)
    # Without a parent, the program that started this one has to start it again.
    return 0 if status == RENEWED else status


@worker.command("list", epilog=examples("penstock worker list"))
@with_store
def list_workers(at: Target) -> None:
    """All registered workers, and names that are paused though no worker has them."""
    with at.connected() as client:
        found = [(info, client.work_of(info.id)) for info in client.workers()]
        absent = _absent(client.paused_workers(), [info for info, _ in found])
    if at.is_json:
        documents = [_document(info, queues) for info, queues in found]
        print_json([*documents, *map(_absent_document, absent)])
        return
    columns = ("worker", "state", "lease", "host", "pid", "up", "queues")
    rows = [
        (
            info.id,
            _state(info),
            _lease(info),
            str(info.about.get("host", "")),
            str(info.about.get("pid", "")),
            _up(info),
            ", ".join(queues),
        )
        for info, queues in found
    ]
    print_table(columns, rows, empty="no workers; `penstock worker run` starts one")
    if absent:
        say(f"paused, though no worker has the name now: {', '.join(absent)}")


@worker.command(epilog=examples("penstock worker show host.4711.5f3a9c01"))
@click.argument("id_", metavar="ID")
@with_store
def show(at: Target, id_: str) -> None:
    """One worker, and how many tasks it holds of each queue."""
    with at.connected() as client:
        info = registered(client, id_)
        held = {queue: _held(client, queue, id_) for queue in client.work_of(id_)}
    if at.is_json:
        print_json({**_document(info, list(held)), "held": held})
        return
    facts: list[tuple[str, Cell]] = [("state", _state(info)), ("lease", _lease(info))]
    facts += [("host", str(info.about.get("host", ""))), ("pid", str(info.about.get("pid", "")))]
    facts += [("up", _up(info))]
    facts += [(name, str(value)) for name, value in info.about.items() if name not in _SHOWN]
    print_facts(info.id, facts)
    if held:
        print_facts("tasks held of", held.items())


@worker.command(epilog=examples("penstock worker fail host.4711.5f3a9c01"))
@click.argument("id_", metavar="ID")
@with_store
def fail(at: Target, id_: str) -> None:
    """Declare a worker dead: its tasks go back to the front of their queues.

    If it is alive after all, it finds out with its next heartbeat, drops what it was doing and
    starts again under a new id.
    """
    with at.connected() as client:
        registered(client, id_)
        returned = client.fail_worker(id_)
    if at.is_json:
        print_json({"worker": id_, **returned._asdict()})
    else:
        dead = f", {counted(returned.dead, 'task')} failed too often" if returned.dead else ""
        say(f"failed '{id_}'; {counted(returned.returned, 'task')} went back{dead}")


@worker.command(epilog=examples("penstock worker pause nightly"))
@click.argument("name")
@with_store
def pause(at: Target, name: str) -> None:
    """Let workers of a name start nothing more, also those started later under it.

    NAME is what they were started with (--name), or the id of one. What runs goes on.
    """
    with at.connected() as client:
        client.pause_worker(name)
        paused, found = client.paused_workers(), client.workers()
    if at.is_json:
        print_json({"paused": paused})
        return
    name = pausable_name(name)
    having = sum(info.name == name for info in found)
    if having:
        start = "starts" if having == 1 else "start"
        who = f"{counted(having, 'worker')} of this name"
        say(f"paused '{name}': {who} {start} nothing more, what runs goes on")
    else:
        say(
            f"paused '{name}': no worker has this name now; one that starts under it will be paused"
        )
    _say_others(paused, name)


@worker.command(epilog=examples("penstock worker resume nightly"))
@click.argument("name")
@with_store
def resume(at: Target, name: str) -> None:
    """Let workers of a name go on."""
    with at.connected() as client:
        was_paused = pausable_name(name) in client.paused_workers()
        client.resume_worker(name)
        paused = client.paused_workers()
    if at.is_json:
        print_json({"paused": paused})
        return
    name = pausable_name(name)
    say(f"resumed '{name}'" if was_paused else f"'{name}' was not paused; nothing to resume")
    _say_others(paused, name)


def _say_others(paused: list[str], name: str) -> None:
    others = [other for other in paused if other != name]
    if others:
        say(f"also paused: {', '.join(others)}")


def _absent(paused: list[str], found: list[WorkerInfo]) -> list[str]:
    """Paused names that no worker has: misspelt, or of one that will start again."""
    names = {info.name for info in found}
    return [name for name in paused if name not in names]


def weighted(queues: tuple[str, ...]) -> tuple[list[str], dict[str, int]]:
    """`mail=3` is queue `mail` with weight 3."""
    names: list[str] = []
    weights: dict[str, int] = {}
    for given in queues:
        name, sign, weight = given.rpartition("=")
        if sign and weight.isdigit():
            weights[name] = int(weight)
        else:
            name = given
        names.append(name)
    return names, weights


def _held(client: Penstock, queue: str, worker_id: str) -> int:
    try:
        return client.queue(queue).inspect().held.get(worker_id, 0)
    except QueueNotFound:
        return 0


def _document(info: WorkerInfo, queues: list[str]) -> dict[str, object]:
    return {
        "id": info.id,
        "name": info.name,
        "state": _word(info),
        "is_alive": info.is_alive,
        "is_paused": info.is_paused,
        "stuck_slots": info.stuck_slots,
        "lease_left_ms": info.lease_left_ms,
        "about": info.about,
        "queues": queues,
    }


def _absent_document(name: str) -> dict[str, object]:
    """The same for a paused name that no worker has."""
    nobody = _document(WorkerInfo("", None, is_paused=True), [])
    return {**nobody, "id": None, "name": name, "state": "absent"}


def _state(info: WorkerInfo) -> Cell:
    """The state of a worker, and what keeps one that is alive from starting more."""
    marks = ["paused"] if info.is_paused else []
    if info.stuck_slots:
        slots = info.about.get("concurrency", "?")
        marks.append(f"{info.stuck_slots} of {slots} slots stuck")
    word = _word(info)
    return Text(", ".join((word, *marks)), style="yellow") if marks else word


def _word(info: WorkerInfo) -> str:
    """alive; lapsed: its lease has run out; failed: its tasks are on their way back."""
    if info.lease_left_ms is None:
        return "failed"
    return "alive" if info.is_alive else "lapsed"


def _lease(info: WorkerInfo) -> str:
    if info.lease_left_ms is None:
        return "ended"
    seconds = duration(abs(info.lease_left_ms) / 1000)
    return f"{seconds} left" if info.is_alive else f"{seconds} over"


def _up(info: WorkerInfo) -> str:
    started_at = info.about.get("started_at")
    if not isinstance(started_at, int | float):
        return ""
    return duration(max(0.0, time.time() - started_at))
