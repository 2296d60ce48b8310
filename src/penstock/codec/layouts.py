"""The version of all records of a queue: what another version has written is refused."""

from __future__ import annotations

from penstock.errors import UnknownLayout
from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number


def check_layout(stored: bytes, oldest: int = LAYOUT) -> None:
    """Raises UnknownLayout unless what is stored begins with a layout from `oldest` up to ours."""
    if not oldest <= stored[0] <= LAYOUT:
        raise unknown_layout(stored[0])


def unknown_layout(stored: int | bytes) -> UnknownLayout:
    layout = stored if isinstance(stored, int) else whole_number(stored)
    if layout is None:
        return UnknownLayout(
            f"the layout of these jobs is {stored!r}, which is no number, so nobody can tell what "
            f"they mean; write to `meta` of the queue what it was (this version writes {LAYOUT})"
        )
    if layout < LAYOUT:
        return UnknownLayout(
            f"these jobs were written by an older penstock (layout {layout}; this version knows "
            f"{LAYOUT}); let workers of that version empty it, or delete it with that version"
        )
    return UnknownLayout(
        f"these jobs were written by a newer penstock (layout {layout}; this version knows "
        f"{LAYOUT}); upgrade this program before it touches them"
    )
