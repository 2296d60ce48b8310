"""What people see of the act about a log: a live table on a terminal, rows of text elsewhere."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.demo.narration import Narrator, print_totals
from penstock.demo.view import STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.demo.clicks.outcome import Outcome
    from penstock.demo.clicks.stage import Scene

_EVENTS = 14


class View(Protocol):
    """What shows the act while it runs."""

    def tell(self, event: str) -> None:
        """Something happened."""

    def show(self, scene: Scene) -> None:
        """This is how things are; called many times a second."""

    def __enter__(self) -> View: ...
    def __exit__(self, *_: object) -> None: ...


class Lines:
    """One text line per event, and one every few seconds in between."""

    def __init__(self, console: Console, is_silent: bool = False) -> None:
        self._narrator = Narrator(console, is_silent)

    def tell(self, event: str) -> None:
        self._narrator.say(event)

    def show(self, scene: Scene) -> None:
        if scene.handled:
            lag = sum(share.lag for share in scene.shares)
            owners = " ".join(str(share.owner or "-") for share in scene.shares)
            self._narrator.say_sometimes(
                f"{scene.handled:,} of {scene.appended:,} messages handled, {lag:,} not committed "
                f"yet; owners of the partitions: {owners}"
            )

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Picture:
    """The partitions, the workers, the servers and the latest events, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._narrator = Narrator(console)
        self._events: deque[str] = deque(maxlen=_EVENTS)
        self._scene: Scene | None = None
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw)

    def tell(self, event: str) -> None:
        self._events.append(self._narrator.timed(event))

    def show(self, scene: Scene) -> None:
        self._scene = scene

    def __enter__(self) -> Picture:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _draw(self) -> RenderableType:
        # Drawn by a thread of rich's own, so each is looked at once.
        scene, events = self._scene, list(self._events)
        if scene is None:
            waiting = Text("starting a private Redis, three ZooKeepers and the workers ...", "dim")
            return Group(waiting, *map(Text, events))
        handled = f"{scene.handled:,} of {scene.appended:,} messages handled"
        sides = Table.grid(padding=(0, 4))
        sides.add_row(_partitions(scene), Group(_workers(scene), "", _servers(scene)))
        return Group(handled, "", sides, "", *map(Text, events))


def _partitions(scene: Scene) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("partition", justify="right")
    table.add_column("owner", min_width=8)
    table.add_column("offset", min_width=18)
    table.add_column("lag", justify="right", min_width=6)
    states = {worker.number: worker.state for worker in scene.workers}
    for share in scene.shares:
        style = STYLES.get(states.get(share.owner or 0, ""), "")
        owner = Text(f"worker {share.owner}" if share.owner else "none", style=style)
        table.add_row(str(share.partition), owner, share.offset, f"{share.lag:,}")
    return table


def _workers(scene: Scene) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("worker")
    table.add_column("process", justify="right")
    table.add_column("state", min_width=9)
    for worker in scene.workers:
        state = Text(worker.state, style=STYLES.get(worker.state, ""))
        table.add_row(str(worker), str(worker.pid or ""), state)
    return table


def _servers(scene: Scene) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("ZooKeeper")
    table.add_column("state", min_width=9)
    for number, mode in sorted(scene.modes.items()):
        style = {"killed": "bold red", "leader": "green"}.get(mode, "")
        table.add_row(f"server {number}", Text(mode or "votes", style=style))
    return table


def print_outcome(console: Console, outcome: Outcome) -> None:
    rows = {
        "appended": f"{outcome.appended:,}",
        "handled": f"{outcome.handled:,}",
        "skipped": f"{outcome.skipped:,}",
        "handled more than once": f"{outcome.handled_more_than_once:,}",
        "refused zombie commits": f"{outcome.refused:,}",
        "kill of a worker to new owners": f"{outcome.moved_s:.2f} s",
        "kill of the leader to the next commit of all": f"{outcome.led_s:.2f} s",
        "seconds in all": f"{outcome.seconds:.1f}",
    }
    print_totals(
        console,
        rows,
        outcome.disagreements,
        "no message was skipped, and every count agrees",
        bad=["skipped"] if outcome.skipped else [],
    )
