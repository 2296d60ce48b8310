"""What people see of the demo: a live picture on a terminal, rows of text elsewhere."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.demo.narration import Narrator, print_totals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.demo.outcome import Outcome
    from penstock.demo.stage import Scene

STYLES = {"alive": "green", "recovered": "green", "killed": "bold red", "frozen": "bold cyan"}
_EVENTS = 12


class View(Protocol):
    """What shows the demo while it runs."""

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
        if scene.finished:
            self._narrator.say_sometimes(
                f"{scene.finished:,} of {scene.tasks:,} finished, {scene.tasks_per_s:,.0f}/s"
            )

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Picture:
    """A progress bar, the workers and the latest events, redrawn in place."""

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
            return Text("starting a private Redis and the workers ...", style="dim")
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=scene.tasks, completed=scene.finished, width=40),
            f"{scene.finished:,} of {scene.tasks:,} finished",
            f"{scene.tasks_per_s:,.0f} tasks/s",
            f"{scene.waiting:,} wait",
        )
        return Group(bar, "", _workers(scene), "", *map(Text, events))


def _workers(scene: Scene) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("worker")
    table.add_column("process", justify="right")
    table.add_column("state", min_width=9)
    table.add_column("holds", justify="right", min_width=5)
    table.add_column("tasks run", justify="right", min_width=9)
    for worker in scene.workers:
        table.add_row(
            str(worker),
            str(worker.pid or ""),
            Text(worker.state, style=STYLES.get(worker.state, "")),
            f"{scene.held[worker.number]:,}",
            f"{scene.ended.get(worker.number, 0):,}",
        )
    return table


def print_outcome(console: Console, outcome: Outcome) -> None:
    rows = {
        "accepted": f"{outcome.accepted:,}",
        "finished": f"{outcome.finished:,}",
        "lost": f"{outcome.lost:,}",
        "refused zombie finishes": f"{outcome.refused:,}",
        "run more than once": f"{outcome.run_more_than_once:,}",
        "recovery time (kill to tasks back)": f"{outcome.recovery_s:.2f} s",
        "tasks/s, kill and freeze included": f"{outcome.tasks_per_s:,.0f}",
        "seconds in all": f"{outcome.seconds:.1f}",
    }
    print_totals(
        console,
        rows,
        outcome.disagreements,
        "every accepted task ran, and every count agrees",
        bad=["lost"] if outcome.lost else [],
    )
