"""What is stored for a log, as a value: what the invariants look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.logs import DEFAULT_EXPIRE_MS
from penstock.model.numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.logs import PartitionInfo
    from penstock.model.snapshot import ForeignEntry


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """One log. The default is a log that does not exist, of which partitions were found."""

    name: str
    born: str = ""
    """empty if there is no such log"""
    size: int = 0
    """how many partitions there should be"""
    version: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)
    partitions: tuple[PartitionInfo, ...] = ()
    """of which anything was found"""
    no_offsets: tuple[tuple[int, str], ...] = ()
    """partition and reader whose entry says no offset"""
    segments: Mapping[int, str] = field(default_factory=dict)
    """partition -> the newest entry of its list of segments; empty if there is none"""
    closed: Mapping[int, int] = field(default_factory=dict)
    """partition -> messages ever up to the end of the newest segment"""
    unfinished: tuple[tuple[int, str, str], ...] = ()
    """partition, stage and batch of what should have been moved or dropped long ago; the batch is
    empty if it cannot be read
    """
    lacking: tuple[tuple[int, str], ...] = ()
    """partition and what its state does not say, though it must"""
    is_gone: bool = True
    """whether nothing says that there is such a log; if not, and it is not known when it was born,
    that cannot be read
    """
    foreign: tuple[ForeignEntry, ...] = ()

    def has_left_behind(self, born: str) -> bool:
        """Whether a partition that was opened for the log that was born then can be deleted. What
        cannot be read is no reason to.
        """
        if self.is_gone:
            return True
        own, other = whole_number(self.born), whole_number(born)
        return own is not None and other is not None and other < own

    @property
    def expire_s(self) -> float:
        return self.settings.get("expire_ms", DEFAULT_EXPIRE_MS) / 1000
