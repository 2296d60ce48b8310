"""`penstock fsck` against every key that there is: each is deleted, and given what no script writes
there. Whatever it is, fsck neither fails nor is silent, unless the table below gives a reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client import fsck
from penstock.store.keys import KEY_TYPES, NamespaceKeys
from penstock.store.kinds import KINDS
from tests.contract.every_damage import Saved, damages
from tests.kinds import QUEUE, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisServer

ANY = r".*"
LOST = r"(.* )?deleted"
"""The key, or a field of it."""

NO_TRACE: dict[str, tuple[str, str]] = {
    "alarms": (LOST, "a worker that looks sets another"),
    "attempts": ("phantom.*", "any bytes may be an attempt as its worker told it"),
    "buckets": (LOST, "a bucket that is not there is full"),
    "damaged": (ANY, "it has what was set aside; nothing else tells of it"),
    "facts": (
        r"\d+ deleted",
        "a job that was never tried has none: its record says the same, and some have both",
    ),
    "failures": (LOST, "a task of which no failure is known counts as one that has not failed"),
    "errors": (LOST, "which messages a group has given up is only known here"),
    "group_owners": (LOST, "a member that owns nothing takes its partitions again"),
    "groups": (LOST, "a worker that reads for a group puts it on the list again"),
    "history": (ANY, "what has ended, for readers, who tell of a gap by the places of entries"),
    "idle": ("deleted", "a worker that waits comes again by itself; none is woken until then"),
    "info": (LOST, "a worker that lives says it again with its next heartbeat"),
    "keeps": (LOST, "the jobs of a batch are then kept as long as any others"),
    "limits": (LOST, "a limit is only known here; `penstock job rules` shows which there are"),
    "log": ("phantom.*", "any bytes may be a line that a job wrote"),
    "marks": (LOST, "a reader of the history marks its place again when it reads on"),
    "memory": (ANY, "it tells a request that is sent twice from another, for an hour"),
    "meta": ("newest deleted", "where the newest id is not known, every id is looked for"),
    "offsets": (
        LOST,
        "how far a reader has come is only known here, unless it is the one that retention waits "
        "for",
    ),
    "paused": (LOST, "a pause is only known here"),
    "paused_types": (LOST, "a pause is only known here"),
    "paused_workers": (LOST, "a pause is only known here"),
    "progress": (".* (emptied|garbage)", "any bytes may be what a job said last"),
    "running": (r"\d+ (emptied|garbage)", "any bytes may be a task"),
    "shares": (LOST, "a tenant without a share has a share of 1"),
    "stage": (
        ANY,
        "what is not decided expires, and its writer finds that it is gone; what is decided and "
        "cannot be moved is found when it has not been for a minute",
    ),
    "suspects": (LOST, "a job that may be what kills workers then runs beside others once more"),
    "unique_jobs": (
        ".*later deleted",
        "a job that is unique until it is started or due may have freed its key before",
    ),
    "staging": (ANY, "it limits how much one writer stages, and expires"),
}
"""Key -> what may happen to it without a trace, and why."""


def of_every_key() -> Iterator[tuple[str, str]]:
    """The kind of samples and the name of every key that is declared."""
    for name in KEY_TYPES:
        yield "tasks", name
    for kind in SAMPLES:
        for name in KINDS[kind].key_types:
            yield kind, name


@pytest.mark.parametrize(("kind", "name"), list(dict.fromkeys(of_every_key())))
def test_fsck_notices_whatever_happens_to_a_key(
    server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.setattr("penstock.client._sync.fsck._SETTLE_S", 0.0)
    with penstock.connect(server.url, namespace=namespace) as ps:
        fill(ps, kind)
        saved = Saved(server.client, ps.keys.pattern)
        known = {violation.identity for violation in fsck.check(ps).violations}
        pattern, reason = NO_TRACE.get(name, ("", ""))
        silent, tried = [], 0

        for key in _keys_of(server, ps.keys, name):
            for what, damage in list(damages(server.client, key)):
                tried += 1
                damage()
                found = fsck.check(ps)
                fsck.repair(ps, found)
                new = {violation.identity for violation in found.violations} - known
                if not new and not re.fullmatch(pattern, what, re.DOTALL):
                    silent.append(f"{key.decode()} {what}")
                saved.restore()

    assert tried > 0, "the samples have no such key"
    assert silent == []
    assert not pattern or reason


def fill(ps: penstock.Penstock, kind: str) -> None:
    """Everything that the samples have, but with a schedule that means something."""
    SAMPLES[kind].fill(ps.store, ps.keys)
    if kind == "jobs":
        for name in ("nightly", "hourly"):
            ps.schedules(QUEUE).remove(name)
        ps.schedules(QUEUE).add("daily", "email", every=86_400)
        idle = ps.keys.queue(QUEUE).idle
        ps.store.call(idle, "SADD", idle, "w2")  # it was woken for the schedule


def _keys_of(server: RedisServer, keys: NamespaceKeys, name: str) -> list[bytes]:
    """The keys of this name, the first few of those that there are many of."""
    found = []
    client: Any = server.client
    for key in sorted(client.keys(keys.pattern)):
        named = keys.identify(key.decode(errors="replace"))
        if named is not None and named.kind == name:
            found.append(key)
    return found[:2]


def test_the_table_names_only_keys_that_there_are() -> None:
    names = {name for _, name in of_every_key()}

    assert NO_TRACE.keys() <= names
