"""What job functions did, in a file, and how it fits what the store says about them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.jobs import EndedAttempt

    Key = tuple[str, int]
    """a job, and which of its attempts"""


class JobRecord(NamedTuple):
    """One function began or ended one attempt of a job."""

    kind: str
    """start, end or fail"""
    name: str
    job: str
    attempt: int
    token: int
    at: float

    @property
    def key(self) -> Key:
        return self.job, self.attempt


class JobJournal(Journal):
    def records(self) -> list[JobRecord]:
        found = []
        for line in self.path.read_text().splitlines():
            kind, name, job, attempt, token, at = line.split()
            found.append(JobRecord(kind, name, job, int(attempt), int(token), float(at)))
        return found

    def of(self, *kinds: str) -> dict[Key, JobRecord]:
        """The records of these kinds, of which each attempt has one at most."""
        records = [record for record in self.records() if record.kind in kinds]
        by_key = {record.key: record for record in records}
        twice = [record for record in records if by_key[record.key] is not record]
        assert not twice, f"{len(twice)} attempts ran twice, such as {twice[:3]}"
        return by_key


def most_at_once(
    journal: JobJournal,
    history: Mapping[Key, EndedAttempt],
    group: Callable[[str], str | None],
) -> dict[str, int]:
    """How many executions of each group there were at once at most. `group` says to which one a
    job belongs, if any.

    An execution whose worker was taken for dead may go on for a while, and nobody can prevent it;
    it counts until its job was given back.
    """
    ends = journal.of("end", "fail")
    changes: list[tuple[float, int, str]] = []
    for key, start in journal.of("start").items():
        name = group(start.job)
        ended_at = min(history[key].ended_at, ends[key].at if key in ends else float("inf"))
        if name is not None and start.at < ended_at:
            changes += [(start.at, 1, name), (ended_at, -1, name)]
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for _, change, name in sorted(changes):
        running[name] += change
        most[name] = max(most[name], running[name])
    return dict(most)


def by_key(history: Iterable[EndedAttempt]) -> dict[Key, EndedAttempt]:
    """The end of each attempt. Each has ended once."""
    entries = [entry for entry in history if entry.attempt]
    found = {(entry.job, entry.attempt): entry for entry in entries}
    twice = [entry for entry in entries if found[entry.job, entry.attempt] is not entry]
    assert not twice, f"{len(twice)} attempts ended twice, such as {twice[:3]}"
    return found
