# Generated from _async/job_scan.py by tools/generate_sync.py. Edit that file instead.

"""Reads everything that is stored about a queue of jobs, in steps that stall nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from penstock.client._sync.key_scan import scan_all
from penstock.codec.ids import id_text, stored_id
from penstock.errors import ProtocolError
from penstock.model.job_snapshot import JobSnapshot, StoredJob, Stranger
from penstock.model.numbers import whole_number
from penstock.model.schedules import decode_schedule
from penstock.store.commands import checks, job_checks
from penstock.store.foreign_entries import RULES, ForeignEntries, text_of
from penstock.store.keys import JOB_KEY_TYPES, QUEUE_KEY_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.connection.store import Store
    from penstock.model.job_snapshot import DamagedJob, Entry, QueueTotals
    from penstock.model.schedules import Schedule
    from penstock.store.keys import KeyName, QueueKeys

_WAITING = ("rA:", "sA:", "bA:")
"""What `meta` counts all ready, scheduled and blocked jobs under."""

_PAGE = 1_000
_TYPES = QUEUE_KEY_TYPES | JOB_KEY_TYPES
_JOBS = 100
"""How many are looked at in one step, as their data, which stays on the server, may be large."""


def read_job_queue(store: Store, keys: QueueKeys, names: Collection[KeyName]) -> JobSnapshot:
    """Everything that is stored about the queue; `names` are the keys of it that were found.

    Figures that must agree at one instant are read at one. The rest is read bit by bit, so on a
    busy queue a job may be seen on its way from one place to another. Takes about a kilobyte of
    memory for each job.
    """
    reader = _Reader(store, keys, names)
    before = reader.totals()
    snapshot = reader.read(before)
    after = reader.totals()
    is_exact = (before.meta, before.states) == (after.meta, after.states)
    return replace(snapshot, totals=after, is_exact=is_exact)


def last_turn(store: Store, keys: QueueKeys) -> int:
    """The greatest number or turn that a job has. While the queue does not know which was the last,
    no job is given another.
    """
    found = _Reader(store, keys, ())._jobs()
    return max((max(job.number, job.turn) for job in found.values()), default=0)


def count_waiting(store: Store, keys: QueueKeys) -> int:
    """How many jobs a maximum length counts."""
    counts = store.call(keys.meta, "HMGET", keys.meta, *_WAITING)
    return sum(whole_number(count) or 0 for count in counts if count)


class _Reader:
    def __init__(self, store: Store, keys: QueueKeys, names: Collection[KeyName]) -> None:
        self._store = store
        self._keys = keys
        self._owners: dict[str, list[str]] = {}
        self._strangers: list[Stranger] = []
        self._foreign = ForeignEntries(keys.queue)
        self._damaged: dict[str, DamagedJob] = {}
        for name in names:
            self._owners.setdefault(name.kind, []).append(name.owner)

    def totals(self) -> QueueTotals:
        holders = self._owners.get("running", [])
        return self._store.run(job_checks.read_totals(self._keys, holders))

    def read(self, totals: QueueTotals) -> JobSnapshot:
        meta = self._texts("meta")
        # Jobs move towards the end of this list, so one that moves meanwhile is rather seen twice.
        snapshot = JobSnapshot(
            queue=self._keys.queue,
            jobs=self._jobs(),
            damaged=self._damaged_jobs(),
            due=self._times("due"),
            lines=self._lines(),
            parked=self._aside("parked"),
            unhandled=self._aside("unhandled"),
            rings=self._rings(),
            levels=dict(self._scores("levels")),
            unhandled_types=self._members("unhandled_types"),
            unparks=dict(self._scores("unparks")),
            running=self._running(totals),
            finished=self._times("finished"),
            buried=self._times("buried"),
            counts=job_checks.counts_in(meta),
            directories=self._directories(),
            pages=self._pages(),
            unique=self._ids("unique_jobs", self._all("unique_jobs")),
            windows={key: int(at) for key, at in self._all("windows")},
            busy={key: whole_number(count) or 0 for key, count in self._texts("busy")},
            types=self._types(),
            suspects=self._suspects(),
            alarms=frozenset(worker for worker, _ in self._scores("alarms")),
            progress=self._known("progress", [id for id, _ in self._all("progress")]),
            logs=frozenset(id_text(int(id)) for id in self._owners.get("log", [])),
            attempts=frozenset(id_text(int(id)) for id in self._owners.get("attempts", [])),
            schedules=self._schedules(),
            marks=self._rules(),
            slots=frozenset(name for name, _ in self._scores("slots")),
        )
        return replace(
            snapshot, strangers=tuple(self._strangers), foreign=tuple(self._foreign.found)
        )

    def _id(self, kind: str, entry: bytes, owner: str = "", field: bytes = b"") -> str | None:
        """The id that is stored somewhere; None if it is none, which is noted."""
        id = stored_id(entry)
        if id is None:
            self._strangers.append(Stranger(kind, owner, field, entry))
        return id

    def _ids(
        self, kind: str, pairs: Iterable[tuple[bytes, bytes]], owner: str = ""
    ) -> dict[bytes, str]:
        """Of a hash, which field has which id."""
        found = {field: self._id(kind, entry, owner, field) for field, entry in pairs}
        return {field: id for field, id in found.items() if id is not None}

    def _known(self, kind: str, entries: Iterable[bytes], owner: str = "") -> frozenset[str]:
        """The ids among some entries."""
        found = (self._id(kind, entry, owner) for entry in entries)
        return frozenset(id for id in found if id is not None)

    def _suspects(self) -> dict[str, str]:
        found = self._ids("suspects", self._all("suspects"))
        return {worker.decode(errors="backslashreplace"): id for worker, id in found.items()}

    def _jobs(self) -> dict[str, StoredJob]:
        found: dict[str, StoredJob] = {}
        tables: tuple[Literal["jobs", "facts"], ...] = ("jobs", "facts")
        for table in tables:
            cursor = "0"
            while True:
                scan = job_checks.scan_jobs(self._keys, cursor, table, _JOBS)
                page = self._store.run(scan)
                cursor = page.cursor
                found |= {job.id: job for job in page.jobs}
                self._damaged |= {job.id: job for job in page.damaged}
                self._strangers += page.strangers
                if cursor == "0":
                    break
        return found

    def _schedules(self) -> dict[str, Schedule | None]:
        """None for one that cannot be read."""
        found: dict[str, Schedule | None] = {}
        for name, definition in self._texts("schedules"):
            try:
                found[name] = decode_schedule(definition)
            except ProtocolError:
                found[name] = None
        return found

    def _rules(self) -> bool:
        """Notes limits, shares and the like that make no sense; whether readers of the history
        have left marks.
        """
        is_marked = False
        self._members("paused_types")
        for kind, (is_right, wanted, is_removable) in RULES.items():
            for name, value in self._texts(kind):
                is_marked |= kind == "marks"
                if not is_right(value):
                    key = self._keys.named(kind)
                    self._foreign.add(key, "hash", name.encode(), wanted, is_removable=is_removable)
        return is_marked

    def _types(self) -> frozenset[str]:
        """The workers of which it is known what they handle."""
        found = self._texts("types")
        known = [name for name, types in found if types == b"*" or types[:1] == types[-1:] == b"\0"]
        for name in {name for name, _ in found}.difference(known):
            wanted = "a worker with what it handles"
            key = self._keys.types
            self._foreign.add(key, "hash", name.encode(), wanted, is_removable=False)
        return frozenset(known)

    def _damaged_jobs(self) -> tuple[DamagedJob, ...]:
        aside = self._all("damaged")
        found = [job_checks.open_set_aside(id, stored) for id, stored in aside]
        return (*self._damaged.values(), *found)

    def _running(self, totals: QueueTotals) -> dict[str, dict[int, str]]:
        found = {}
        for worker in totals.members.union(self._owners.get("running", [])):
            key = self._keys.running(worker)
            flat = self._store.call(key, "HGETALL", key)
            if flat:
                held = self._ids("running", checks.pairs(flat), worker)
                # The queue itself tells of what is no number.
                found[worker] = {
                    number: id
                    for process, id in held.items()
                    if (number := whole_number(process)) is not None
                }
        return found

    def _lines(self) -> dict[str, tuple[Entry, ...]]:
        found = {}
        for name in self._owners.get("line", []):
            entries = self._entries("line", name, self._list("line", name))
            if entries:
                found[name] = entries
        return found

    def _aside(self, kind: str) -> dict[str, tuple[Entry, ...]]:
        found = {}
        for name in self._owners.get(kind, []):
            members = [member for member, _ in self._all(kind, name)]
            entries = self._entries(kind, name, members)
            if entries:
                found[name] = entries
        return found

    def _entries(self, kind: str, owner: str, stored: Iterable[bytes]) -> tuple[Entry, ...]:
        found = []
        for text in stored:
            entry = job_checks.open_entry(text) if kind == "line" else job_checks.open_aside(text)
            if entry is None:
                self._strangers.append(Stranger(kind, owner, b"", text))
            else:
                found.append(entry)
        return tuple(found)

    def _rings(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for level in self._owners.get("ring", []):
            members = [tenant for tenant, _ in self._all("ring", level)]
            key = self._keys.named("ring", level)
            tenants = self._foreign.names(key, "zset", members, "the name of a tenant")
            if tenants:
                found[level] = tuple(tenants)
        return found

    def _directories(self) -> dict[str, frozenset[int]]:
        found = {}
        for listing in self._owners.get("pages", []):
            stored = [page for page, _ in self._all("pages", listing)]
            pages = {page: whole_number(page) for page in stored}
            self._strangers += [
                Stranger("pages", listing, b"", page) for page in stored if pages[page] is None
            ]
            numbers = frozenset(number for number in pages.values() if number is not None)
            if numbers:
                found[listing] = numbers
        return found

    def _pages(self) -> dict[tuple[str, int], frozenset[str]]:
        found = {}
        for owner in self._owners.get("page", []):
            number, _, listing = owner.partition(":")
            key = self._keys.page(owner)
            ids = self._store.call(key, "SMEMBERS", key)
            if ids:
                found[listing, int(number)] = self._known("page", ids, owner)
        return found

    def _times(self, kind: str) -> dict[str, int]:
        found = [(self._id(kind, entry), at) for entry, at in self._all(kind)]
        return {id: int(at) for id, at in found if id is not None}

    def _scores(self, kind: str) -> list[tuple[str, float]]:
        found = self._all(kind)
        key = self._keys.named(kind)
        known = set(self._foreign.names(key, "zset", (name for name, _ in found), "a name"))
        return [
            (text, float(score))
            for name, score in found
            if (text := text_of(name)) is not None and text in known
        ]

    def _texts(self, kind: str) -> list[tuple[str, bytes]]:
        found = self._all(kind)
        key = self._keys.named(kind)
        known = set(self._foreign.names(key, "hash", (name for name, _ in found), "a name"))
        return [
            (text, value)
            for name, value in found
            if (text := text_of(name)) is not None and text in known
        ]

    def _members(self, kind: str) -> frozenset[str]:
        key = self._keys.named(kind)
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, page = self._store.call(key, "SSCAN", key, cursor, "COUNT", _PAGE)
            found.update(self._foreign.names(key, "set", page, "a name"))
            if cursor == b"0":
                return frozenset(found)

    def _all(self, kind: str, owner: str = "") -> list[tuple[bytes, bytes]]:
        """A hash or sorted set, read in pages."""
        key = self._keys.named(kind, owner)
        command = "HSCAN" if _TYPES[kind] == "hash" else "ZSCAN"
        return scan_all(self._store, command, key)

    def _list(self, kind: str, owner: str) -> list[bytes]:
        """A list, read in pages from the back: while jobs come in there and leave at the front,
        some are seen twice but none is passed over.
        """
        key = self._keys.named(kind, owner)
        found: list[bytes] = []
        while True:
            last = -len(found) - 1
            page = self._store.call(key, "LRANGE", key, last - _PAGE + 1, last)
            if not page:
                return found[::-1]
            found += reversed(page)
