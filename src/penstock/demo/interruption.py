"""Ctrl-C and its like, put off while something must not be left half done."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Within `with`, a signal that asks to end raises KeyboardInterrupt, once; later ones change
    nothing, so that a second Ctrl-C cannot stop the cleaning up.
    """

    def __init__(self) -> None:
        self._has_come = False
        self._is_raised = False
        self._shields = 0

    def __enter__(self) -> Interruption:
        self._former = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def take_back(self) -> None:
        """Take the signals again, after a library has taken them: PySpark does."""
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """What happens in here is not interrupted; what came meanwhile is raised at the end."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self._raise_if_due()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._has_come = True
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._has_come and not self._is_raised and not self._shields:
            self._is_raised = True
            raise KeyboardInterrupt
