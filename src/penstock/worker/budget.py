"""How much a worker may do before it is to be started again."""

from __future__ import annotations

import sys


class Budget:
    """Counts what its feeds start together, so that it is exactly as much as was allowed."""

    def __init__(self, most: int | None = None) -> None:
        self.left = sys.maxsize if most is None else most

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def take(self, count: int) -> None:
        """As much is asked for, and may come."""
        self.left -= count

    def put_back(self, count: int) -> None:
        """As much did not come, or was given back before it began."""
        self.left += count
