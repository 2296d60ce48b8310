"""`penstock doctor`: whether a store can be trusted with tasks, and what to do if not."""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from penstock.cli import diagnosis
from penstock.cli.diagnosis import Finding
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, print_json, print_table, printable, say
from penstock.client.client import Penstock
from penstock.connection.answers import store_error
from penstock.connection.wire import ConnectionLost, NotSent, ReplyError, pack, parse_info
from penstock.errors import PenstockError, UnknownLayout, UnsafeStore
from penstock.server.project import project_namespace, project_root
from penstock.store.permissions import ROLES
from penstock.store.script import Script, scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connection.transport import Node
    from penstock.store.permissions import Role

_TIMEOUT_S = 3.0
_PINGS = 5


@click.command(epilog=examples("penstock doctor", "penstock doctor --url redis://db:6379 --json"))
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="worker",
    show_default=True,
    help="What the Redis user is for; its permissions are checked for that.",
)
@with_store
def doctor(at: Target, role: Role) -> None:
    """Check whether the store can be trusted with tasks.

    Each finding is ok, a warning or a problem, with what to do about it.

    To see that every step works it puts one task through a queue of its own and deletes it again,
    if the role may do so.
    Exit status 1 if there is a problem; a warning is none.
    """
    findings = list(_examine(at, role))
    levels = Counter(finding.level for finding in findings)
    if at.is_json:
        document = [finding._asdict() for finding in findings]
        print_json({"is_healthy": not levels["problem"], "findings": document})
    else:
        rows = [(finding.level, finding.check, _explained(finding)) for finding in findings]
        print_table(("level", "check", "finding"), rows, empty="")
        problems, warnings = (counted(levels[kind], kind) for kind in ("problem", "warning"))
        click.echo()
        say(f"{problems}, {warnings}")
    if levels["problem"]:
        raise click.exceptions.Exit(1)


def _examine(at: Target, role: Role) -> Iterator[Finding]:
    try:
        with Penstock(at.settings(retry_for_s=0.0, timeout_s=_TIMEOUT_S)) as client:
            if client.settings.server is not None:
                yield _namespace(client)
            findings = list(_servers(client))
            yield from findings
            if all(finding.level == "ok" for finding in findings if finding.check == "reachable"):
                findings = list(_permissions(client, role))
                yield from findings
                if role == "worker" and all(finding.level == "ok" for finding in findings):
                    findings = list(_canary(client))
                    yield from findings
                if all(finding.level == "ok" for finding in findings):
                    yield from _readers(client)
    except ConnectionLost as error:
        yield _unreachable(error)
    except PenstockError as error:
        yield Finding("reachable", "problem", str(error))


def _namespace(client: Penstock) -> Finding:
    """Which part of the private server is looked at, as projects share it."""
    name = client.settings.namespace
    of = f", of the project in '{project_root()}'" if name == project_namespace() else ""
    return Finding("namespace", "ok", f"'{name}'{of}")


def _servers(client: Penstock) -> Iterator[Finding]:
    """The findings of all servers; what is well everywhere is said once."""
    by_check: dict[str, list[tuple[str, Finding]]] = defaultdict(list)
    nodes = list(client.store.router.every_node())
    for node in nodes:
        for finding in _server(client, node):
            by_check[finding.check].append((str(node.endpoint), finding))
    for findings in by_check.values():
        ill = [(place, finding) for place, finding in findings if finding.level != "ok"]
        for place, finding in ill or findings[:1]:
            if len(nodes) == 1:
                yield finding
            elif ill:
                yield finding._replace(message=f"{place}: {finding.message}")
            else:
                yield finding._replace(message=f"{finding.message}; all {len(nodes)} servers ok")


def _server(client: Penstock, node: Node) -> Iterator[Finding]:
    address = client.settings.address
    try:
        _ask(client, node, "PING")
        info = parse_info(_ask(client, node, "INFO"))
        round_trip_s, ahead_s = _measure(client, node)
    except ConnectionLost as error:
        yield _unreachable(error)
        return
    except PenstockError as error:
        yield Finding("reachable", "problem", str(error))
        return
    yield Finding("reachable", "ok", f"{node.endpoint} answers")
    yield diagnosis.judge_round_trip(round_trip_s)
    yield diagnosis.judge_version(info)
    yield diagnosis.judge_role(info)
    yield diagnosis.judge_persistence(info, _appendfsync(client, node))
    yield diagnosis.judge_eviction(info)
    yield diagnosis.judge_memory(info)
    yield diagnosis.judge_clock(ahead_s)
    yield diagnosis.judge_access(node.endpoint, *_user(client, node))
    is_cluster_url = address.topology == "cluster"
    if is_cluster_url:
        info |= parse_info(_ask(client, node, "CLUSTER", "INFO"))
    yield diagnosis.judge_cluster(info, is_cluster_url)


def _measure(client: Penstock, node: Node) -> tuple[float, float]:
    """The quickest of a few round trips, and how far the server's clock was ahead in it."""
    trips = []
    for _ in range(_PINGS):
        began_at, sent_at = time.time(), time.perf_counter()
        seconds, microseconds = _ask(client, node, "TIME")
        took_s = time.perf_counter() - sent_at
        ahead_s = int(seconds) + int(microseconds) / 1e6 - (began_at + took_s / 2)
        trips.append((took_s, ahead_s))
    return min(trips)


def _appendfsync(client: Penstock, node: Node) -> str | None:
    with suppress(PenstockError):
        reply = _ask(client, node, "CONFIG", "GET", "appendfsync")
        if len(reply) == 2:
            return str(reply[1].decode())
    return None


def _user(client: Penstock, node: Node) -> tuple[str | None, bool]:
    """The user that we are logged in as, and whether it needs no password; best effort."""
    user: str | None = None
    with suppress(PenstockError):
        user = _ask(client, node, "ACL", "WHOAMI").decode()
        about = _ask(client, node, "ACL", "GETUSER", user)
        return user, b"nopass" in about[about.index(b"flags") + 1]
    return user, client.settings.address.password is None


def _permissions(client: Penstock, role: Role) -> Iterator[Finding]:
    """Whether the user may do everything that the role does. Opens the client."""
    try:
        client.open()
    except UnsafeStore:
        message = "no task was put through, because the store is not safe"
        yield Finding("canary", "warning", message, "mend the problems above first")
        return
    except PenstockError as error:
        yield Finding("permissions", "problem", str(error))
        return
    found = client.store.permissions
    lacking = found.lacks(role) if found is not None else frozenset()
    yield diagnosis.judge_permissions(role, lacking, found.rules_for(lacking) if found else "")


def _canary(client: Penstock) -> Iterator[Finding]:
    """Load every script on every server, then let one task live and end."""
    try:
        for node in client.store.router.every_node():
            for script in scripts():
                _load(client, node, script)
        yield Finding("scripts", "ok", f"the server accepts all {len(scripts())} scripts")
        began_at = time.perf_counter()
        _run_canary(client)
        took_ms = (time.perf_counter() - began_at) * 1000
        yield Finding("canary", "ok", f"a task was added, started and finished in {took_ms:.0f} ms")
    except PenstockError as error:
        yield Finding("canary", "problem", str(error))


def _readers(client: Penstock) -> Iterator[Finding]:
    """Whether the readers for whom histories are kept still read them."""
    readers, behind = 0, []
    for queue in client.inspect():
        if queue.kind == "jobs":
            with suppress(UnknownLayout):
                bounds = client.jobs(queue.name).history_bounds()
                readers += len(bounds.marks)
                behind += diagnosis.judge_readers(queue.name, bounds)
    yield from behind
    if not behind:
        yield Finding("readers", "ok", f"{counted(readers, 'named reader')} of histories")


def _load(client: Penstock, node: Node, script: Script) -> None:
    dialect = client.store.dialect
    text, digest = script.text(dialect), script.digest(dialect)
    reply = _ask(client, node, "SCRIPT", "LOAD", text)
    if reply != digest.encode():
        raise PenstockError(
            f"the server gives script {script.name!r} the digest {reply!r}, not {digest}"
        )


def _run_canary(client: Penstock) -> None:
    queue = client.queue(f"penstock-doctor-{secrets.token_hex(4)}")
    try:
        with client.worker("doctor") as worker:
            worker.start_work(queue.name)
            queue.enqueue(b"canary")
            process = worker.start_task(queue.name)
            if process is None or process.task != b"canary":
                raise PenstockError("the task that was put into the queue did not come out of it")
            process.finish()
    finally:
        with suppress(PenstockError):
            queue.delete()


def _ask(client: Penstock, node: Node, *parts: str) -> Any:
    reply = node.exchange(pack(*parts))
    if isinstance(reply, ReplyError):
        raise store_error(reply, client.settings.address)
    return reply


def _unreachable(error: ConnectionLost) -> Finding:
    advice = "check that the server runs, the URL, and what lies between"
    message = str(error) if isinstance(error, NotSent) else f"no answer: {error}"
    return Finding("reachable", "problem", message, advice)


def _explained(finding: Finding) -> Text:
    text = Text(printable(finding.message))
    if finding.advice:
        text.append(f"\n→ {finding.advice}", style="bold")
    return text
