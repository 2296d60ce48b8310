"""How `penstock queue` shows a queue of each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.render import counted, print_facts, print_table
from penstock.model.holders import holders_of
from penstock.model.jobs import WAITING_STATES, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.render import Cell
    from penstock.client.client import Penstock
    from penstock.model.queues import QueueKind, QueueState
    from penstock.model.workers import WorkerInfo


class QueueView(ABC):
    """A queue, as people see it."""

    noun: str
    """one of what it holds"""
    columns: tuple[str, ...]
    """of the list of such queues"""
    waiting: int
    removable: int
    """how many a delete removes"""
    end = ""
    """what `configure` adds about when one is given up"""

    def __init__(self, client: Penstock, state: QueueState) -> None:
        """Raises UnknownLayout if this version cannot read the queue."""
        self.state = state
        self.holders = holders_of(state.held, ())

    @abstractmethod
    def row(self) -> tuple[Cell, ...]:
        """Its line in the list of such queues."""

    @abstractmethod
    def show(self) -> None:
        """Print everything that is counted about it."""

    def document(self) -> dict[str, object]:
        """For programs: `running` is what has a slot, `prefetched` what workers hold beside it."""
        holders = self.holders
        own = {"running": holders.running, "prefetched": holders.prefetched}
        return {
            **asdict(self.state),
            **own,
            **{"workers": holders.living, "lapsed_workers": holders.lapsed},
        }

    @property
    def word(self) -> str:
        return "paused" if self.state.is_paused else "open"

    @property
    def most(self) -> Cell:
        return "any number" if self.state.max_length is None else self.state.max_length

    @property
    def workers(self) -> str:
        living, lapsed = self.holders.living, self.holders.lapsed
        more = f"; the leases of {len(lapsed)} more have lapsed" if lapsed else ""
        return f"{living}, {min(self.state.idle, living)} of them idle{more}"

    @property
    def running(self) -> Cell:
        """In a list: what has a slot, and what is held beside it."""
        running, prefetched = self.holders.running, self.holders.prefetched
        return f"{running} (+{prefetched:,} prefetched)" if prefetched else running

    @property
    def begun(self) -> list[tuple[str, Cell]]:
        """The same as facts."""
        facts: list[tuple[str, Cell]] = [("running", self.holders.running)]
        if self.holders.prefetched:
            facts.append(("prefetched", f"{self.holders.prefetched:,}, held and not begun"))
        return facts

    def show_holders(self) -> None:
        lapsed = self.holders.lapsed
        held = {
            f"{worker} (its lease has lapsed)" if worker in lapsed else worker: count
            for worker, count in sorted(self.state.held.items())
        }
        if held:
            print_facts(f"{self.noun}s held by", held.items())


class TaskView(QueueView):
    """A queue of tasks, or one that nothing has come into yet."""

    noun = "task"
    columns = ("queue", "state", "ready", "running", "dead", "finished", "workers")

    def __init__(self, client: Penstock, state: QueueState) -> None:
        super().__init__(client, state)
        self.waiting = state.ready
        self.removable = state.ready + state.dead
        self.end = f"; a task is dead after {counted(state.max_failures, 'failure')}"

    def row(self) -> tuple[Cell, ...]:
        state = self.state
        return (
            *(state.name, self.word, state.ready, self.running, state.dead),
            *(state.counters.finished, self.holders.living),
        )

    def show(self) -> None:
        state = self.state
        facts: list[tuple[str, Cell]] = [
            ("kind", state.kind),
            ("state", self.word),
            ("ready", state.ready),
            *self.begun,
            ("dead", state.dead),
            ("most that may wait", self.most),
            ("dead after", counted(state.max_failures, "failure")),
            ("unique keys taken", state.unique),
            ("tasks with failures", state.failures),
            ("workers", self.workers),
        ]
        print_facts(state.name, facts)
        print_facts("so far", asdict(state.counters).items())
        self.show_holders()


class JobView(QueueView):
    """A queue of jobs."""

    noun = "job"
    # `show` has all of them; these leave room for names on a narrow terminal.
    shown: tuple[JobState, ...] = ("scheduled", "ready", "running", "done", "dead")
    columns = ("jobs in", "state", *shown, "workers")

    def __init__(self, client: Penstock, state: QueueState) -> None:
        super().__init__(client, state)
        self._counts = counts = client.jobs(state.name).counts()
        self.waiting = sum(counts[waiting] for waiting in WAITING_STATES)
        self.removable = sum(counts.values()) - counts["running"]

    def row(self) -> tuple[Cell, ...]:
        counts = self._counts
        shown = (self.running if state == "running" else counts[state] for state in self.shown)
        return (self.state.name, self.word, *shown, self.holders.living)

    def document(self) -> dict[str, object]:
        counts = self._counts
        own = {"ready": counts["ready"], "dead": counts["dead"], "jobs": counts}
        return super().document() | own | {"counters": self._attempts()}

    def show(self) -> None:
        facts: list[tuple[str, Cell]] = [
            ("kind", self.state.kind),
            ("state", self.word),
            *(
                fact
                for state, count in self._counts.items()
                for fact in (self.begun if state == "running" else [(state, count)])
            ),
            ("most that may wait", self.most),
            ("workers", self.workers),
        ]
        print_facts(self.state.name, facts)
        print_facts("attempts so far", self._attempts().items())
        self.show_holders()

    def _attempts(self) -> dict[str, int]:
        """How the attempts at jobs have ended; what else is counted is only about tasks."""
        names = ("started", "finished", "failed", "lost", "stopped", "refused")
        return {name: getattr(self.state.counters, name) for name in names}


class LogView(QueueView):
    """A log; `penstock log show` has the rest."""

    noun = "message"
    columns = ("log", "partitions", "messages", "bytes", "groups")

    def __init__(self, client: Penstock, state: QueueState) -> None:
        super().__init__(client, state)
        self._info = client.log(state.name).info()
        self.waiting = self.removable = self._info.messages

    def row(self) -> tuple[Cell, ...]:
        info = self._info
        counts = (len(info.partitions), info.messages, info.bytes, len(info.groups))
        return (self.state.name, *counts)

    def document(self) -> dict[str, object]:
        return {"name": self.state.name, "kind": "logs"} | {
            "partitions": len(self._info.partitions),
            "messages": self._info.messages,
            "bytes": self._info.bytes,
            "groups": list(self._info.groups),
        }

    def show(self) -> None:
        facts: list[tuple[str, Cell]] = [
            ("kind", self.state.kind),
            ("partitions", len(self._info.partitions)),
            ("messages", self._info.messages),
            ("more", f"penstock log show {self.state.name}"),
        ]
        print_facts(self.state.name, facts)


VIEWS: dict[QueueKind, type[QueueView]] = {
    "tasks": TaskView,
    "undecided": TaskView,
    "jobs": JobView,
    "logs": LogView,
}


def view_of(
    client: Penstock, state: QueueState, workers: Sequence[WorkerInfo] | None = None
) -> QueueView:
    """A queue as its kind is shown; `workers` are all that are registered, if they were asked for
    already. Raises UnknownLayout if this version cannot read it.
    """
    view = VIEWS[state.kind](client, state)
    view.holders = holders_of(state.held, client.workers() if workers is None else workers)
    return view


def print_views(views: Sequence[QueueView]) -> None:
    """A table for each kind of which there are queues."""
    found = [
        (kind, rows)
        for kind in dict.fromkeys(VIEWS.values())
        if (rows := [view.row() for view in views if type(view) is kind])
    ]
    for index, (kind, rows) in enumerate(found):
        if index > 0:
            click.echo()
        print_table(kind.columns, rows, empty="")
