"""What a caller can give wrongly is refused before anything is written; all else survives."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import penstock
from penstock.codec.elements import TAG, plain_element
from penstock.connection.address import parse_url
from penstock.connection.settings import Settings
from penstock.errors import InvalidArgument, InvalidName, PayloadTooLarge
from tests.servers import RedisServer, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.client.session import WorkerSession

ALL_BYTES = bytes(range(256))
LIKE_A_TAG = [
    TAG,
    TAG + b"\x00",
    TAG + b"\x00\x00",
    TAG + b"\x00\x00task",
    TAG + b"\x00\x03=ab12345678task",
    TAG + b"\xff\xff",
    plain_element(TAG),
    TAG[:-1],
]

on_real_redis = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(server.url, namespace=namespace, max_payload=1000) as client:
        yield client


@pytest.fixture
def queue(ps: penstock.Penstock) -> penstock.Queue:
    return ps.queue("mail")


@pytest.fixture
def worker(ps: penstock.Penstock) -> Iterator[WorkerSession]:
    with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        worker.start_work("mail")
        yield worker


def start(worker: WorkerSession) -> penstock.Process:
    process = worker.start_task("mail")
    assert process is not None
    return process


def is_untouched(ps: penstock.Penstock, server: RedisServer) -> bool:
    """Nothing of this namespace has been written."""
    return not list(server.client.scan_iter(f"{{{ps.settings.namespace}*", count=1000))


# Tasks


@pytest.mark.parametrize("task", [b"", b"\x00", ALL_BYTES, b"\r\n$5\r\n", b"x" * 1000])
def test_any_bytes_up_to_the_limit_come_back_as_they_went_in(
    queue: penstock.Queue, worker: WorkerSession, task: bytes
) -> None:
    queue.enqueue(task)
    assert queue.peek() == task
    process = start(worker)
    assert process.task == task
    process.finish(task)
    assert queue.inspect().counters.finished == 1


def test_a_task_above_the_limit_is_refused_before_anything_is_sent(
    ps: penstock.Penstock, queue: penstock.Queue, server: RedisServer
) -> None:
    message = "the task is 1001 bytes long and 1000 is the limit; store it elsewhere"
    with pytest.raises(PayloadTooLarge, match=message):
        queue.enqueue(b"x" * 1001)
    with pytest.raises(PayloadTooLarge, match=message):
        queue.enqueue_unique(b"x" * 1001)
    with pytest.raises(PayloadTooLarge, match=message) as caught:
        queue.enqueue_many([b"fine", b"x" * 1001, b"fine"])

    assert caught.value.accepted == 0  # type: ignore[attr-defined]
    assert is_untouched(ps, server)


def test_a_task_above_the_limit_is_refused_on_an_event_loop_too(
    ps: penstock.Penstock, server: RedisServer
) -> None:
    async def enqueue() -> None:
        async with await penstock.AsyncPenstock(ps.settings).open() as client:
            queue = client.queue("mail")
            with pytest.raises(PayloadTooLarge):
                await queue.enqueue(b"x" * 1001)
            with pytest.raises(PayloadTooLarge):
                await queue.enqueue_many([b"fine", b"x" * 1001])
            with pytest.raises(InvalidArgument, match="a task is bytes, not str"):
                await queue.enqueue("text")  # type: ignore[arg-type]

    asyncio.run(enqueue())

    assert is_untouched(ps, server)


def test_of_a_bulk_with_a_bad_task_only_whole_batches_before_it_are_added(
    queue: penstock.Queue,
) -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        queue.enqueue_many([*[b"fine"] * 5_001, b"x" * 1001])

    assert caught.value.accepted == 250 + 4_000  # type: ignore[attr-defined]
    assert queue.count() == 250 + 4_000


@pytest.mark.parametrize("task", ["text", None, 7, bytearray(b"a"), memoryview(b"a"), ["a"]])
def test_what_is_not_bytes_is_no_task(
    ps: penstock.Penstock, queue: penstock.Queue, server: RedisServer, task: Any
) -> None:
    acts: list[Callable[[Any], object]] = [
        queue.enqueue,
        queue.enqueue_unique,
        queue.cancel,
        queue.find,
        lambda given: queue.enqueue_many([b"fine", given]),
    ]
    for act in acts:
        with pytest.raises(InvalidArgument, match=r"a task is bytes, not \w+; encode it first"):
            act(task)
    assert is_untouched(ps, server)


@pytest.mark.parametrize("items", [b"abc", "abc", b"", {b"a": 1}, None], ids=repr)
def test_one_task_is_not_taken_for_many(
    ps: penstock.Penstock, queue: penstock.Queue, server: RedisServer, items: Any
) -> None:
    message = "is no list; give a list with the bytes of each task, also if it is only one"
    with pytest.raises(InvalidArgument, match=message):
        queue.enqueue_many(items)

    assert is_untouched(ps, server)


@pytest.mark.parametrize("task", LIKE_A_TAG)
def test_a_task_that_begins_like_a_unique_one_survives_every_path(
    queue: penstock.Queue, worker: WorkerSession, task: bytes
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(task)
    assert queue.peek() == task
    assert queue.page().tasks == [task]
    start(worker).stop()
    process = start(worker)
    assert process.task == task
    assert queue.find(task) == [(worker.id, process.id)]
    assert process.fail() is True
    assert queue.dead().tasks == [task]
    assert queue.retry_dead() == 1
    assert queue.peek() == task
    assert queue.cancel(task) == 1
    assert queue.count() == 0


@pytest.mark.parametrize("task", LIKE_A_TAG)
def test_a_unique_task_that_begins_like_one_survives_every_path(
    queue: penstock.Queue, worker: WorkerSession, task: bytes
) -> None:
    queue.configure(max_failures=1)
    assert queue.enqueue_unique(task, "key") == (True, task)
    assert queue.enqueue_unique(b"other", "key") == (False, task)
    assert queue.page().tasks == [task]
    start(worker).stop()
    process = start(worker)
    assert process.task == task
    assert queue.find(task) == [(worker.id, process.id)]
    assert process.fail() is True
    assert queue.dead().tasks == [task]
    assert queue.retry_dead() == 1
    assert queue.enqueue_unique(task) == (True, task)
    assert queue.cancel(task) == 2
    assert queue.count() == 0


@pytest.mark.parametrize("task", [*LIKE_A_TAG, b"", ALL_BYTES])
def test_events_carry_the_task_as_it_was_put_in(
    queue: penstock.Queue, worker: WorkerSession, server: RedisServer, task: bytes
) -> None:
    seen: list[penstock.Event] = []

    def listen() -> None:
        for event in queue.events("done", "cancel"):
            seen.append(event)
            if event.kind == "cancel":
                return

    queue.enqueue_many([task, task])
    listener = threading.Thread(target=listen)
    listener.start()
    wait_for(lambda: server.client.pubsub_numsub(queue._keys.cancel)[0][1] == 1)
    start(worker).finish(b"result " + task)
    queue.cancel(task)
    listener.join(10)

    done, cancelled = seen
    assert (done.task, done.result, done.worker) == (task, b"result " + task, worker.id)
    assert cancelled.task == task


@on_real_redis
@given(task=st.binary(max_size=300) | st.binary(max_size=20).map(TAG.__add__))
def test_whatever_is_put_in_comes_out(queue: penstock.Queue, task: bytes) -> None:
    queue.enqueue(task)
    assert queue.page().tasks == [task]
    assert queue.cancel(task) == 1


# Results


def test_a_result_that_cannot_be_is_refused_and_the_task_stays(
    queue: penstock.Queue, worker: WorkerSession
) -> None:
    queue.enqueue(b"task")
    process = start(worker)

    with pytest.raises(PayloadTooLarge, match="the result is 1001 bytes long and 1000 is the"):
        process.finish(b"x" * 1001)
    with pytest.raises(InvalidArgument, match="a result is bytes, not str; encode it first"):
        process.finish("text")  # type: ignore[arg-type]

    assert queue.inspect().running == 1
    process.finish(b"x" * 1000)


# Keys, pages, settings


@pytest.mark.parametrize("key", ["", "x" * 1025, "\u00e9" * 513])
def test_a_unique_key_has_1_to_1024_bytes(
    ps: penstock.Penstock, queue: penstock.Queue, server: RedisServer, key: str
) -> None:
    with pytest.raises(InvalidArgument, match="a unique key has 1 to 1024 bytes; this one has"):
        queue.enqueue_unique(b"task", key)
    assert is_untouched(ps, server)


@pytest.mark.parametrize("key", [b"key", 7, "\ud800"])
def test_a_unique_key_is_text(queue: penstock.Queue, key: Any) -> None:
    with pytest.raises(InvalidArgument, match="unique key"):
        queue.enqueue_unique(b"task", key)


@on_real_redis
@given(key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@example(key="x" * 1024)
@example(key="#" + "0" * 64)
@example(key="\x00\r\n")
def test_any_other_text_is_a_unique_key(queue: penstock.Queue, key: str) -> None:
    assert queue.enqueue_unique(b"task", key).is_new
    assert not queue.enqueue_unique(b"other", key).is_new
    assert queue.cancel(b"task") == 1


@pytest.mark.parametrize(
    ("offset", "limit"), [(-1, 10), (0, 0), (0, 1001), (0, -1), (0.5, 10), (0, "10"), (None, 10)]
)
def test_a_page_out_of_range_is_refused(queue: penstock.Queue, offset: Any, limit: Any) -> None:
    message = "a page starts at 0 or later and has 1 to 1000 tasks; offset is"
    with pytest.raises(InvalidArgument, match=message):
        queue.page(offset, limit)
    with pytest.raises(InvalidArgument, match=message):
        queue.dead(offset, limit)


def test_a_page_beyond_the_end_is_empty(queue: penstock.Queue) -> None:
    queue.enqueue(b"task")
    assert queue.page(10**12, 1000) == ([], 1)


@pytest.mark.parametrize("setting", ["max_length", "max_failures"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "7", True, float("nan"), b"1"])
def test_a_setting_that_makes_no_sense_is_refused(
    ps: penstock.Penstock, queue: penstock.Queue, server: RedisServer, setting: str, value: Any
) -> None:
    with pytest.raises(InvalidArgument, match=f"{setting} is .*; give a whole number from 1 up"):
        queue.configure(**{setting: value})
    assert is_untouched(ps, server)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("max_payload", value) for value in (0, -1, 1.5, "1000", None, True)),
        *(("timeout_s", value) for value in (0, -1, float("nan"), float("inf"), "5", None)),
        *(("retry_for_s", value) for value in (-1, float("nan"), float("inf"), "30")),
    ],
)
def test_a_client_with_settings_that_make_no_sense_is_not_made(option: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{option} is .*; give"):
        Settings(parse_url("redis://localhost"), **{option: value})


def test_a_namespace_without_a_name_is_refused(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_NAMESPACE", "other")
    with pytest.raises(InvalidName, match="a namespace name is empty; give it at least one"):
        penstock.connect(server.url, namespace="")


def test_nor_is_one_taken_from_the_environment(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_NAMESPACE", "")
    message = "PENSTOCK_NAMESPACE is empty; give it a name, or unset it for 'penstock'"
    with pytest.raises(InvalidName, match=message):
        penstock.connect(server.url)


@pytest.mark.parametrize(
    ("lease_ms", "heartbeat_ms"), [(0, 0), (3000, 0), (3000, 3000), (-1, -2), (1.5, 1), ("3", 1)]
)
def test_a_worker_with_a_lease_that_makes_no_sense_is_not_made(
    ps: penstock.Penstock, lease_ms: Any, heartbeat_ms: Any
) -> None:
    with pytest.raises(InvalidArgument, match="with the heartbeat shorter than the lease"):
        ps.worker(lease_ms=lease_ms, heartbeat_ms=heartbeat_ms)


@pytest.mark.parametrize("limit", [0, -1, 10_001, 1.5, "1", True])
def test_a_limit_of_tasks_out_of_range_is_refused(worker: WorkerSession, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"limit is {limit!r}; a worker can ask for 1 to"):
        worker.start_tasks("mail", limit)


def test_a_process_named_twice_is_finished_once(
    queue: penstock.Queue, worker: WorkerSession
) -> None:
    queue.enqueue(b"task")
    process = start(worker)

    assert worker.finish_tasks("mail", [process.id, process.id]) == ([], [])

    assert queue.inspect().counters.finished == 1


# Names


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "\ud800", "x" * 256])
def test_a_bad_queue_name_is_refused_before_anything_is_written(
    ps: penstock.Penstock, server: RedisServer, name: str
) -> None:
    with pytest.raises(InvalidName):
        ps.queue(name)
    assert is_untouched(ps, server)


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", "x" * 256])
def test_a_worker_that_asks_for_a_bad_queue_can_still_be_stopped(
    ps: penstock.Penstock, name: str
) -> None:
    with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        with pytest.raises(InvalidName):
            worker.start_work(name)
        assert ps.work_of(worker.id) == []
    assert ps.workers() == []


def test_a_bad_namespace_is_refused(server: RedisServer) -> None:
    with pytest.raises(InvalidName, match=r"namespace name 'a.*b' holds a control character"):
        penstock.connect(server.url, namespace="a\nb")


@pytest.mark.parametrize("name", ["", "a b", "a:b", "\u00e9", "x" * 256])
def test_a_bad_worker_name_is_refused(ps: penstock.Penstock, name: str) -> None:
    acts: list[Callable[[str], object]] = [ps.worker, ps.work_of, ps.fail_worker]
    for act in acts:
        with pytest.raises(InvalidName, match="use 1 to 255 letters, digits"):
            act(name)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@on_real_redis
@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
@example(names=["a", "a:b", "{a}", "a}:ready", "*", "[a]", "%3A", " ", "..", "\u202e"])
@example(names=["\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a"])
@example(names=["x" * 255])
def test_queues_of_any_names_keep_their_tasks_apart(server: RedisServer, names: list[str]) -> None:
    with penstock.connect(server.url, namespace=f"names-{uuid.uuid4().hex[:12]}") as ps:
        for name in names:
            ps.queue(name).enqueue(name.encode())
        with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
            for name in names:
                worker.start_work(name)
            assert ps.work_of(worker.id) == sorted(names)
            started = [worker.start_task(name) for name in names]

        assert [p and p.task for p in started] == [name.encode() for name in names]
        assert ps.queues() == sorted(names)
        assert [ps.queue(name).page().tasks for name in names] == [[n.encode()] for n in names]


@on_real_redis
@given(namespaces=st.lists(NAMES, min_size=2, max_size=3, unique=True))
@example(namespaces=["a", "a:mail", "{a}", "a}:"])
def test_namespaces_of_any_names_keep_their_queues_apart(
    server: RedisServer, namespaces: list[str]
) -> None:
    unique = f"{uuid.uuid4().hex[:12]} "
    for namespace in namespaces:
        with penstock.connect(server.url, namespace=unique + namespace) as ps:
            ps.queue("mail").enqueue(namespace.encode())
    for namespace in namespaces:
        with penstock.connect(server.url, namespace=unique + namespace) as ps:
            assert ps.queue("mail").page().tasks == [namespace.encode()]
