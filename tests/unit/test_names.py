"""Names: what is accepted, and that no two of them ever meet in a key."""

from __future__ import annotations

import platform
import unicodedata

import pytest
import redis.crc
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.connection.wire import slot_of
from penstock.errors import InvalidName
from penstock.model.names import check_name, check_worker_name, key_part
from penstock.model.workers import new_worker_id
from penstock.store.keys import SIMULATED_CLOCK, NamespaceKeys, QueueKeys

# Names that have caused trouble elsewhere, and everything that keys are made of.
AWKWARD = [
    *(":", "{", "}", "{}", "}{", "*", "?", "[", "[a]", " ", "  ", "..", "/", "%", "%3A", "%3a"),
    *("a:b", "{a}", "a}:ready", "a:ready", "ready", "queues", "memory", "\\", "'", '"', "%25"),
    *("\u202e", "\U0001f4a7", "\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a"),
]
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
NAMES = st.sampled_from(AWKWARD) | TEXT | st.text("a:{}%3", min_size=1, max_size=6)
WORKERS = st.text("ab.~_-", min_size=1, max_size=5)


def keys_of(namespace: str, queue: str, worker: str) -> list[str]:
    """Every key and channel that a queue and a namespace can have."""
    shared, own = NamespaceKeys(namespace), QueueKeys(namespace, queue)
    return [
        *(shared.queues, shared.workers, shared.condemned, shared.info),
        *(shared.work(worker), shared.memory(worker)),
        *queue_keys(own, worker),
        *(own.wake + worker, own.work, own.done, own.cancel, own.delete),
    ]


def queue_keys(keys: QueueKeys, worker: str) -> list[str]:
    return [
        *(keys.ready, keys.dead, keys.meta, keys.members, keys.idle, keys.failures),
        *(keys.unique, keys.unique_tasks, keys.running(worker), keys.memory(worker)),
    ]


@given(first=NAMES, second=NAMES)
@example(first="\u00e9", second="e\u0301")
@example(first="a", second="A")
@example(first=":", second="%3A")
def test_distinct_names_are_distinct_parts_of_keys(first: str, second: str) -> None:
    assume(first != second)

    assert key_part(first) != key_part(second)
    assert not set(key_part(first)) & set(":{}*?[]\\ ")


@given(first=st.tuples(NAMES, NAMES), second=st.tuples(NAMES, NAMES), worker=WORKERS)
@example(first=("a", "b:c"), second=("a:b", "c"), worker="w")
@example(first=("a", "b"), second=("a:b", "b"), worker="w")
@example(first=("a", "b}:ready"), second=("a", "b"), worker="w")
def test_queues_of_distinct_names_share_no_key(
    first: tuple[str, str], second: tuple[str, str], worker: str
) -> None:
    assume(first != second)
    mine, theirs = (queue_keys(QueueKeys(*names), worker) for names in (first, second))

    assert not set(mine) & set(theirs)


@given(namespace=NAMES, queue=NAMES, worker=WORKERS)
def test_no_key_of_a_namespace_stands_for_two_things(
    namespace: str, queue: str, worker: str
) -> None:
    keys = keys_of(namespace, queue, worker)

    assert len(set(keys)) == len(keys)
    assert SIMULATED_CLOCK not in keys


@given(first=NAMES, second=NAMES, queue=NAMES, worker=WORKERS)
def test_namespaces_share_no_key(first: str, second: str, queue: str, worker: str) -> None:
    assume(first != second)

    assert not set(keys_of(first, queue, worker)) & set(keys_of(second, queue, worker))


@given(queue=st.tuples(NAMES, NAMES), mine=WORKERS, other=WORKERS)
def test_workers_of_one_queue_share_no_key(queue: tuple[str, str], mine: str, other: str) -> None:
    assume(mine != other)
    keys = QueueKeys(*queue)

    assert keys.running(mine) not in queue_keys(keys, other)
    assert keys.memory(mine) not in queue_keys(keys, other)


@given(namespace=NAMES, queue=NAMES, worker=WORKERS)
def test_all_keys_of_a_queue_are_in_one_slot_of_a_cluster(
    namespace: str, queue: str, worker: str
) -> None:
    keys = QueueKeys(namespace, queue)
    everything = [*queue_keys(keys, worker), keys.wake + worker, keys.work, keys.done]
    slots = {redis.crc.key_slot(key.encode()) for key in everything}

    assert slots == {slot_of(keys.ready)}


@given(namespace=NAMES, worker=WORKERS)
def test_what_crosses_queues_is_in_one_slot_of_a_cluster(namespace: str, worker: str) -> None:
    keys = NamespaceKeys(namespace)
    everything = [keys.queues, keys.workers, keys.condemned, keys.info, keys.work(worker)]

    assert {redis.crc.key_slot(key.encode()) for key in everything} == {slot_of(keys.queues)}


@given(name=NAMES)
def test_a_good_name_is_left_as_it_is(name: str) -> None:
    assert check_name("queue", name) == name


def test_names_that_only_look_alike_are_two_names() -> None:
    composed, decomposed = "\u00e9", unicodedata.normalize("NFD", "\u00e9")

    assert QueueKeys("n", composed).ready != QueueKeys("n", decomposed).ready


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a queue name is empty; give it at least one character"),
        ("a\x00b", r"queue name 'a\\x00b' holds a control character; leave it out"),
        ("a\nb", r"queue name 'a\\nb' holds a control character"),
        ("a\rb", "holds a control character"),
        ("\x1b[31m", "holds a control character"),
        ("\x7f", "holds a control character"),
        ("\x85", "holds a control character"),
        ("a\ud800", "is not valid Unicode text .it holds a lone surrogate.; choose another name"),
        ("x" * 1000, r"queue name 'xxxxxxxxxxxxxxxxxxxx'... is 1000 bytes long; 255 is the limit"),
        ("x" * 256, "is 256 bytes long"),
        ("\u00e9" * 128, "is 256 bytes long"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(InvalidName, match=message):
        QueueKeys("namespace", name)
    with pytest.raises(InvalidName, match=message.replace("queue", "namespace")):
        NamespaceKeys(name)


@pytest.mark.parametrize("name", ["x" * 255, "\u00e9" * 127])
def test_a_name_may_have_255_bytes(name: str) -> None:
    assert check_name("queue", name) == name


@given(name=st.text())
def test_any_text_is_either_accepted_as_it_is_or_refused(name: str) -> None:
    try:
        accepted = check_name("queue", name)
    except InvalidName:
        assert not name or len(name.encode(errors="replace")) > 255 or not is_printable_text(name)
    else:
        assert accepted == name
        assert is_printable_text(name)


def is_printable_text(name: str) -> bool:
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in name)


@pytest.mark.parametrize("name", [b"mail", None, 7])
def test_what_is_not_text_is_no_name(name: object) -> None:
    with pytest.raises(InvalidName, match=r"a queue name is text, not .*; pass a str"):
        QueueKeys("namespace", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["w", "a.b_c~d-e", "7", "x" * 255])
def test_a_worker_name_of_plain_characters_is_accepted(name: str) -> None:
    assert check_worker_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a:b", "{}", "\u00e9", "x" * 256, "a\n", "\ud800"])
def test_another_worker_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="use 1 to 255 letters, digits and the characters"):
        check_worker_name(name)


def test_no_two_workers_have_the_same_id() -> None:
    assert new_worker_id("w") != new_worker_id("w")
    assert len(new_worker_id("x" * 255)) <= 255


@pytest.mark.parametrize("host", ["", "caf\u00e9", "my host_1", "x" * 300])
def test_a_worker_on_any_host_gets_an_id_that_can_be_used(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: host)

    worker = new_worker_id()

    assert check_worker_name(worker) == worker
