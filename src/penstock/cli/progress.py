"""A bar for what takes long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.render import printable, terminal

if TYPE_CHECKING:
    from types import TracebackType

_SHOWN_AFTER_S = 1.0


class ProgressBar:
    """A bar on stderr: only if that is a terminal, and only after a second."""

    def __init__(self, total: int | None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=terminal(is_error=True), transient=True)
        self._bar = self._progress.add_task("", total=total)
        self._began_at = time.monotonic()

    def show(self, completed: int, description: str, total: int | None = None) -> None:
        """`total` is another one than was known before."""
        if not self._progress.console.is_terminal:
            return
        text = printable(description)
        self._progress.update(self._bar, completed=completed, description=text, total=total)
        if time.monotonic() - self._began_at > _SHOWN_AFTER_S:
            self._progress.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress.live.is_started:
            self._progress.stop()
