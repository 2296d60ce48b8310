"""What keeps a job from running, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from running, or that says that nothing does."""

    code: str
    text: str


def span(seconds: float) -> str:
    """A time for people, in one unit."""
    if seconds < 120:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
