"""Every kind of queue has all that a kind needs, and what one lacks is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from penstock.cli.queue_views import VIEWS
from penstock.client.fsck import ASYNC_KIND_CHECKS, KIND_CHECKS
from penstock.errors import UnknownLayout
from penstock.model.queues import KindName, QueueKind
from penstock.store.keys import (
    Key,
    NamespaceKeys,
    PartitionKeys,
    QueueKeys,
    declared_keys,
    key_types,
)
from penstock.store.kinds import KINDS, Kind, stored_kind
from penstock.store.script import Script
from tests.kinds import SAMPLES, Samples

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPES = {"string", "list", "set", "zset", "hash", "stream"}
"""What Redis calls them."""


def lacks(kind: Kind, samples: Samples | None, checked: Iterable[str] = KIND_CHECKS) -> list[str]:
    """What a kind still needs before it can be used and tested as the others are."""
    found = []
    if kind.name not in get_args(KindName):
        found.append("a place among the names of kinds")
    if kind.name not in checked:
        found.append("a way to be checked")
    own = declared_keys(kind.keys)
    if not own or not issubclass(QueueKeys, kind.keys):
        found.append("keys that a queue has")
    found += [f"a type of key {name!r}" for name, key in own.items() if key.type not in TYPES]
    others = [QueueKeys, *(other.keys for other in KINDS.values() if other.name != kind.name)]
    found += [f"key {name!r} for itself" for name in sorted(own.keys() & declared_keys(*others))]
    if not kind.scripts:
        found.append("scripts")
    sampled: set[str] = set()
    if samples is not None:
        sampled |= samples.of_scripts(NamespaceKeys("ns"), samples.no_processes, 1).keys()
    found += [f"a sample of script {it.name!r}" for it in kind.scripts if it.name not in sampled]
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_kind_has_all_that_it_needs(kind: Kind) -> None:
    assert lacks(kind, SAMPLES.get(kind.name)) == []
    assert lacks(kind, SAMPLES.get(kind.name), ASYNC_KIND_CHECKS) == []


class NoKeys:
    """Declares none."""


class OddKeys:
    """Declares one without a type, and one that all queues have."""

    odd = Key("")
    meta = Key("hash")


TASKS = KINDS["tasks"]
NEW_SCRIPT = Script("sort_tasks", "-- Sort tasks.\n", "tasks", ())
DEFECTS = {
    "no keys": (replace(TASKS, keys=NoKeys), "keys that a queue has"),
    "keys that no queue has": (replace(TASKS, keys=OddKeys), "keys that a queue has"),
    "a key without a type": (replace(TASKS, keys=OddKeys), "a type of key 'odd'"),
    "a key that others have": (replace(TASKS, keys=OddKeys), "key 'meta' for itself"),
    "the keys of another kind": (
        replace(TASKS, keys=KINDS["jobs"].keys),
        "key 'history' for itself",
    ),
    "no scripts": (replace(TASKS, scripts=()), "scripts"),
    "a script without a sample": (
        replace(TASKS, scripts=(*TASKS.scripts, NEW_SCRIPT)),
        "a sample of script 'sort_tasks'",
    ),
}


@pytest.mark.parametrize(("kind", "lack"), DEFECTS.values(), ids=list(DEFECTS))
def test_what_a_kind_lacks_is_found(kind: Kind, lack: str) -> None:
    assert lack in lacks(kind, SAMPLES["tasks"])


def test_a_kind_without_samples_is_found() -> None:
    missing = lacks(TASKS, None)

    assert missing == [f"a sample of script {script.name!r}" for script in TASKS.scripts]


def test_a_kind_that_is_nowhere_listed_is_found() -> None:
    tables = replace(TASKS, name="tables")  # type: ignore[arg-type]

    missing = lacks(tables, SAMPLES["tasks"])

    assert missing[:2] == ["a place among the names of kinds", "a way to be checked"]


def test_all_tables_have_the_same_kinds() -> None:
    assert list(KINDS) == list(get_args(KindName)) == list(SAMPLES)
    assert KINDS.keys() == KIND_CHECKS.keys() == ASYNC_KIND_CHECKS.keys()
    assert set(get_args(QueueKind)) == {*KINDS, "undecided"} == set(VIEWS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_key_that_is_found_is_one_that_its_kind_declares(kind: Kind) -> None:
    names = NamespaceKeys("ns")
    owners = {"line": "0:acme", "page": "7:rA:", "ring": "-3", "log": "7", "attempts": "7"}
    of_queue = declared_keys(QueueKeys, kind.keys)
    for name, key in of_queue.items():
        if name not in kind.key_types:
            continue
        owner = "" if isinstance(key, Key) else owners.get(name, "w1")

        found = names.identify(names.queue("mail").named(name, owner))

        assert found is not None
        assert found[:3] == ("mail", name, owner)
        assert found.type == kind.key_types[name]


def test_a_key_of_a_partition_is_one_that_its_kind_declares() -> None:
    names = NamespaceKeys("ns")
    for number in (0, 12):
        part = names.queue("a/b").partition(number)
        for name, key in declared_keys(PartitionKeys).items():
            owner = "" if isinstance(key, Key) else "w1"
            text = getattr(part, name)

            found = names.identify(text(owner) if owner else text)

            assert found is not None
            assert (found.queue, found.kind, found.owner) == ("a/b", name, owner)
            assert found.partition == number
            assert found.type == KINDS["logs"].key_types[name]
    assert names.identify("{ns:mail/01}:messages") is None
    assert names.identify("{ns:mail/1}:ready") is None


@pytest.mark.parametrize(("name", "owner"), [("ready", "w1"), ("running", ""), ("line", "acme")])
def test_a_key_with_an_owner_that_it_cannot_have_is_unknown(name: str, owner: str) -> None:
    names = NamespaceKeys("ns")

    assert names.identify(names.queue("mail").named(name, owner)) is None


def test_kinds_share_what_every_queue_has_and_no_more() -> None:
    shared = KINDS["tasks"].key_types.keys() & KINDS["jobs"].key_types.keys()

    assert shared == key_types(QueueKeys).keys()


def test_what_is_stored_names_a_kind() -> None:
    assert [stored_kind(name).name for name in KINDS] == list(KINDS)
    assert stored_kind("") is KINDS["tasks"]
    with pytest.raises(UnknownLayout, match=r"a queue holds 'tables'.*upgrade this program"):
        stored_kind("tables")
