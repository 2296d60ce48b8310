"""What a check says when something is wrong with the store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that should not be."""

    invariant: str
    """I1, I2, ..."""
    queue: str
    """empty for what belongs to no queue"""
    message: str
    is_repairable: bool = False
    """whether `penstock fsck --repair` can mend it without risk"""
    kind: str = ""
    """which check found it"""
    subject: str = ""
    """the worker, job, key (behind its holder) or digest concerned; bytes as latin-1"""
    excess: int = 0
    """by how much a count is too high"""

    @property
    def identity(self) -> tuple[str, str, str]:
        """The same for the same trouble seen twice, however the counts in the message change."""
        return self.kind, self.queue, self.subject
