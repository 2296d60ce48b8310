"""Tells what scripts have written from what another program has put among it."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

from penstock.errors import InvalidName
from penstock.model.names import check_name
from penstock.model.snapshot import ForeignEntry
from penstock.store.script import fragment_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


META_FIELDS = frozenset(
    re.findall(r"'(\w+)'", fragment_text("settings").partition("}")[0].partition("{")[2])
)
"""Everything in `meta` of a queue but how many jobs there are of each listing."""

_MARK = re.compile(rb"[0-9]+-[0-9]+ [0-9]+")


def _numbers(stored: bytes, count: int) -> list[float]:
    """So many numbers with a space between; none if it is anything else."""
    try:
        found = [float(part) for part in stored.split(b" ")]
    except ValueError:
        return []
    return found if len(found) == count and all(map(isfinite, found)) else []


def _is_limit(stored: bytes) -> bool:
    limit = _numbers(stored, 4)
    return bool(limit) and (limit[1] <= 0 or limit[2] > 0)


def _is_share(stored: bytes) -> bool:
    return any(share > 0 for share in _numbers(stored, 1))


RULES: dict[str, tuple[Callable[[bytes], bool], str, bool]] = {
    "limits": (
        _is_limit,
        "a key with a limit, so nothing limits its jobs; set it with `penstock job limit`",
        False,
    ),
    "shares": (
        _is_share,
        "a tenant with a share, so it has a share of 1; set it with `penstock job share`",
        False,
    ),
    "buckets": (lambda stored: bool(_numbers(stored, 2)), "a key with its tokens", True),
    "marks": (
        lambda stored: _MARK.fullmatch(stored) is not None,
        "a reader of the history with its place",
        True,
    ),
}
"""Kind of key -> what is right in it, what it should be, and whether nothing is lost if it goes."""


class ForeignEntries:
    """Collects what makes no sense while a namespace or a queue is read."""

    def __init__(self, queue: str = "") -> None:
        self.found: list[ForeignEntry] = []
        self._queue = queue

    def add(
        self, key: str, type: str, entry: bytes, wanted: str, *, is_removable: bool = True
    ) -> None:
        self.found.append(ForeignEntry(self._queue, key, type, entry, wanted, is_removable))

    def names(self, key: str, type: str, entries: Iterable[bytes], wanted: str) -> list[str]:
        """The names among some entries: text, as scripts write it. The others are noted."""
        found = []
        for entry in entries:
            name = text_of(entry)
            if name is None:
                self.add(key, type, entry, wanted)
            else:
                found.append(name)
        return found


def text_of(stored: bytes) -> str | None:
    """None for what is no text."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def is_name(kind: str, text: str) -> bool:
    """Whether a queue, worker or the like can have this name."""
    try:
        check_name(kind, text)
    except InvalidName:
        return False
    return True
