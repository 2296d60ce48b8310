"""What `penstock fsck` reads and mends, script by script."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.store.commands import checks
from tests.samples import LANE, sample_world

if TYPE_CHECKING:
    import penstock
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored


def test_a_key_is_described(ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys) -> None:
    sample_world(ps.store, names)

    assert ps.store.run(checks.describe_key(keys.ready)) == ("list", -1)
    assert ps.store.run(checks.describe_key(keys.running("nobody"))) == ("none", -2)
    assert 0 < ps.store.run(checks.describe_key(keys.memory(LANE))).ttl_ms <= 3_600_000


def test_a_small_queue_is_read_whole(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys
) -> None:
    process = sample_world(ps.store, names)

    snapshot = ps.store.run(checks.read_queue(keys, ["w1", "w2"], 1000))

    assert snapshot.waiting is not None
    assert [element.task for element in snapshot.waiting] == [b"b", b"once"]
    assert list(snapshot.running["w1"]) == [process, process + 1]
    assert snapshot.members == {"w1", "w2"}


def test_a_large_queue_is_only_counted(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys
) -> None:
    sample_world(ps.store, names)

    snapshot = ps.store.run(checks.read_queue(keys, ["w1", "w2"], 0))

    assert snapshot.waiting is None
    assert (snapshot.ready, snapshot.dead, snapshot.held) == (2, 1, 2)


def test_a_unique_key_in_use_is_left_alone(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    sample_world(ps.store, names)
    before = stored.everything()

    assert ps.store.run(checks.mend_unique_key(keys, ["w1", "w2"], b"=key", b"")) is False

    assert stored.everything() == before


def test_a_unique_key_whose_task_is_gone_is_freed(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    sample_world(ps.store, names)
    ps.store.call(keys.ready, "DEL", keys.ready)

    assert ps.store.run(checks.mend_unique_key(keys, ["w1", "w2"], b"=key", b"")) is True

    assert keys.unique not in stored and keys.unique_tasks not in stored


def test_mending_with_other_members_answers_who_they_are(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys
) -> None:
    sample_world(ps.store, names)

    answer = ps.store.run(checks.mend_unique_key(keys, ["w1"], b"=key", b""))

    assert isinstance(answer, list) and sorted(answer) == ["w1", "w2"]


def test_failures_are_forgotten_unless_the_task_has_failed_again(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    sample_world(ps.store, names)
    digest = hashlib.sha1(b"flaky").hexdigest()

    assert ps.store.run(checks.forget_failures(keys, digest, 2)) is False
    assert stored[keys.failures] == {digest.encode(): b"1"}

    assert ps.store.run(checks.forget_failures(keys, digest, 1)) is True
    assert keys.failures not in stored
