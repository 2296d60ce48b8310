"""Consumers: what they are given, in which order, and what becomes of messages that fail."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.worker.handlers import collect_handlers
from penstock.worker.sources.logs import LogSource
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.worker.pump import Pump
    from tests.running_worker import RunningWorker


@pytest.fixture
def consume(start_worker: Callable[..., RunningWorker]) -> Callable[..., RunningWorker]:
    """Start a worker with these consumers."""

    def start(*functions: Any, **options: Any) -> RunningWorker:
        return start_worker(collect_handlers(functions), **options)

    return start


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    return ps.log("clicks", partitions=2)


def fill(log: penstock.Log, count: int, partition: int | None = 0) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    log.append_many([penstock.NewMessage(body, partition=partition) for body in bodies])
    return bodies


def offset_of(ps: penstock.Penstock, partition: int, group: str = "g") -> str:
    info = ps.log("clicks").partition_info(partition)
    found = [reader.offset for reader in info.readers if reader.name == group]
    return found[0] if found else ""


def pumps_of(worker: RunningWorker) -> list[Pump]:
    assert worker.worker is not None
    return worker.worker.serving.pumps


def sources_of(worker: RunningWorker) -> list[LogSource]:
    found = [pump.source for pump in pumps_of(worker)]
    return [source for source in found if isinstance(source, LogSource)]


def test_a_batch_is_a_list_of_messages_in_the_order_of_their_partition(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    bodies = fill(clicks, 25)
    batches: list[list[bytes]] = []

    @penstock.consumer("clicks", "g", batch=10)
    def read(messages: list[penstock.Message]) -> None:
        batches.append([message.body for message in messages])

    consume(read)

    wait_for(lambda: sum(map(len, batches)) == 25)
    assert [body for batch in batches for body in batch] == bodies
    assert max(map(len, batches)) == 10


def test_without_a_batch_it_gets_one_message_at_a_time(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    bodies = fill(clicks, 25)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g")
    async def consumer(message: penstock.Message, context: penstock.Context) -> None:
        assert context.token > 0
        read.append(message.body)

    consume(consumer)

    wait_for(lambda: len(read) == 25)
    assert read == bodies


def test_what_is_appended_later_comes_at_once_and_after_a_stop_nothing_comes_again(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", batch=10)
    def consumer(messages: list[penstock.Message]) -> None:
        read.extend(message.body for message in messages)

    fill(clicks, 3)
    first = consume(consumer)
    wait_for(lambda: len(read) == 3)
    last = clicks.append(b"more", partition=0)
    wait_for(lambda: read[3:] == [b"more"], 5.0)
    first.stop()
    first.join()
    assert offset_of(ps, 0) == last.id

    consume(consumer)
    clicks.append(b"again", partition=0)
    wait_for(lambda: read[4:] == [b"again"])


@pytest.mark.parametrize("is_async", [False, True])
def test_each_message_has_the_whole_time_and_one_that_takes_longer_fails(
    is_async: bool,
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
) -> None:
    fill(clicks, 5)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=1, timeout=1)
    def in_thread(message: penstock.Message) -> None:
        read.append(message.body)
        time.sleep(3 if message.body == b"3" else 0.4)

    @penstock.consumer("clicks", "g", attempts=1, timeout=1)
    async def on_loop(message: penstock.Message) -> None:
        read.append(message.body)
        await asyncio.sleep(3 if message.body == b"3" else 0.4)

    consume(on_loop if is_async else in_thread)

    wait_for(lambda: read[-1:] == [b"4"])
    assert read == [b"%d" % number for number in range(5)]
    [error] = list(ps.log("clicks").group("g").errors(0))
    assert error.message.body == b"3"
    assert "JobTimeout" in error.reason


def test_a_worker_that_is_renewed_after_so_many_batches_has_committed_them(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 25)
    batches: list[int] = []

    @penstock.consumer("clicks", "g", batch=5)
    def read(messages: list[penstock.Message]) -> None:
        batches.append(len(messages))

    worker = consume(read, max_jobs=2)
    worker.join()

    assert worker.worker is not None and worker.worker.is_renewed
    assert batches == [5, 5]
    ids = [message.id for message in clicks.read(partition=0)]
    assert offset_of(ps, 0) == ids[9]


def test_groups_read_the_same_log_independently(
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "penstock.worker")
    bodies = fill(clicks, 5)
    one: list[bytes] = []
    other: list[bytes] = []

    @penstock.consumer("clicks", "one", batch=10)
    def first(messages: list[penstock.Message]) -> None:
        one.extend(message.body for message in messages)

    @penstock.consumer("clicks", "other")
    def second(message: penstock.Message) -> None:
        other.append(message.body)

    consume(first, second)

    wait_for(lambda: (one, other) == (bodies, bodies))
    [started] = [line for line in caplog.messages if "worker started" in line]
    assert started.endswith(" queues= logs=clicks")


def test_two_workers_share_the_partitions_and_each_message_is_read_once(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    read: list[tuple[int, bytes]] = []
    lock = threading.Lock()

    @penstock.consumer("clicks", "g", batch=3)
    def consumer(messages: list[penstock.Message]) -> None:
        with lock:
            read.extend((message.partition, message.body) for message in messages)

    clicks.append(b"begin")
    workers = [consume(consumer), consume(consumer)]
    wait_for(lambda: [len(pumps_of(worker)) for worker in workers] == [1, 1])
    for partition in (0, 1):
        fill(clicks, 20, partition)

    wait_for(lambda: len(read) == 41)
    for partition in (0, 1):
        bodies = [body for number, body in read if number == partition and body != b"begin"]
        assert bodies == [b"%d" % number for number in range(20)]


def test_messages_that_fail_come_again_in_order_and_nothing_overtakes_them(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    bodies = fill(clicks, 5)
    tried: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=3, backoff=0.01)
    def consumer(message: penstock.Message) -> None:
        tried.append(message.body)
        if message.body == b"2" and tried.count(b"2") < 3:
            raise ValueError("not yet")

    consume(consumer)

    wait_for(lambda: tried[-1:] == [b"4"])
    assert tried == [b"0", b"1", b"2", b"2", b"2", b"3", b"4"]
    assert bodies[-1] == b"4"


def test_what_fails_for_good_goes_to_the_error_log_alone(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 20)
    done: list[bytes] = []

    @penstock.consumer("clicks", "g", batch=10, attempts=2, backoff=0.01)
    def consumer(messages: list[penstock.Message]) -> None:
        if any(message.body == b"13" for message in messages):
            raise ValueError("thirteen")
        done.extend(message.body for message in messages)

    consume(consumer)

    wait_for(lambda: done[-1:] == [b"19"])
    assert done == [b"%d" % number for number in range(20) if number != 13]
    [error] = list(ps.log("clicks").group("g").errors(0))
    assert error.message.body == b"13"
    assert "ValueError: thirteen" in error.reason


def test_by_policy_the_partition_stands_still_and_others_go_on(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 5, 0)
    fill(clicks, 5, 1)
    done: list[tuple[int, bytes]] = []
    tried: list[int] = []

    @penstock.consumer("clicks", "g", attempts=2, backoff=0.01, on_failure="stop")
    def consumer(message: penstock.Message) -> None:
        if (message.partition, message.body) == (0, b"2"):
            tried.append(1)
            raise ValueError("never")
        done.append((message.partition, message.body))

    worker = consume(consumer)

    wait_for(lambda: len(done) == 7 and any(source.problem for source in sources_of(worker)))
    assert sorted(bool(source.problem) for source in sources_of(worker)) == [False, True]
    assert len(tried) == 2
    worker.stop()
    worker.join()
    assert offset_of(ps, 0) == list(clicks.read(partition=0))[1].id


def test_a_worker_that_is_paused_reads_nothing_and_keeps_its_partitions(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    read: list[bytes] = []

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    clicks.append(b"first", partition=0)
    worker = consume(consumer, name="ant", heartbeat_ms=50)
    wait_for(lambda: read == [b"first"])
    ps.pause_worker("ant")
    wait_for(lambda: all(pump.feed.is_paused for pump in pumps_of(worker)))
    pumps = list(pumps_of(worker))
    clicks.append(b"second", partition=0)
    clicks.append(b"third", partition=1)
    others: list[bytes] = []

    @penstock.consumer("clicks", "others")
    def other(message: penstock.Message) -> None:
        others.append(message.body)

    consume(other)
    wait_for(lambda: len(others) == 3)
    assert read == [b"first"]

    ps.resume_worker("ant")

    wait_for(lambda: len(read) == 3)
    assert pumps_of(worker) == pumps


def test_every_batch_is_committed_before_the_next_begins(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 9)
    offsets: list[str] = []
    ids: list[str] = []

    @penstock.consumer("clicks", "g", batch=3, commit="each")
    def consumer(messages: list[penstock.Message]) -> None:
        offsets.append(offset_of(ps, 0))
        ids.append(messages[-1].id)

    consume(consumer)

    wait_for(lambda: len(ids) == 3)
    assert offsets[1:] == ids[:2]


def test_a_group_that_begins_with_the_latest_skips_what_was_there(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 5, 0)
    fill(clicks, 5, 1)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", start="latest")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    worker = consume(consumer)
    wait_for(lambda: len(pumps_of(worker)) == 2)
    clicks.append(b"new", partition=0)

    wait_for(lambda: read == [b"new"])


def test_a_worker_is_told_which_partitions_to_read(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 5, 0)
    fill(clicks, 5, 1)
    read: list[int] = []

    @penstock.consumer("clicks", "g", partitions=[1])
    def consumer(message: penstock.Message) -> None:
        read.append(message.partition)

    consume(consumer)

    wait_for(lambda: len(read) == 5)
    assert set(read) == {1}


def test_a_gap_is_an_error_and_never_passed_over_in_silence(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 300)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", batch=10)
    def consumer(messages: list[penstock.Message]) -> None:
        read.extend(message.body for message in messages)

    first = consume(consumer)
    wait_for(lambda: len(read) == 300)
    first.stop()
    first.join()
    fill(clicks, 300)
    ids = [message.id for message in clicks.read(partition=0)]
    clicks.trim(id=ids[500], partition=0, force=True)

    second = consume(consumer)

    wait_for(lambda: any(source.problem for source in sources_of(second)))
    assert len(read) == 300


def test_a_paused_group_reads_nothing_and_goes_on_where_it_was(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    read: list[bytes] = []

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    clicks.append(b"first", partition=0)
    worker = consume(consumer)
    wait_for(lambda: read == [b"first"] and len(pumps_of(worker)) == 2)
    epochs = {source.keys.number: source.epoch for source in sources_of(worker)}
    group = clicks.group("g")
    group.pause(partition=0)
    assert group.paused() == [0]
    clicks.append(b"held", partition=0)
    clicks.append(b"other", partition=1)
    wait_for(lambda: read == [b"first", b"other"])
    group.pause()
    assert group.paused() == [0, 1]

    group.resume()

    wait_for(lambda: read == [b"first", b"other", b"held"], 5.0)
    assert epochs == {source.keys.number: source.epoch for source in sources_of(worker)}


def test_a_partition_that_stands_still_goes_on_when_the_group_is_resumed(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    is_mended = threading.Event()
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=1, on_failure="stop")
    def consumer(message: penstock.Message) -> None:
        if message.body == b"bad" and not is_mended.is_set():
            raise ValueError("not yet")
        read.append(message.body)

    clicks.append_many(
        [penstock.NewMessage(body, partition=0) for body in (b"good", b"bad", b"last")]
    )
    worker = consume(consumer)
    wait_for(lambda: any(source.problem for source in sources_of(worker)))
    is_mended.set()

    clicks.group("g").resume()

    wait_for(lambda: read == [b"good", b"bad", b"last"], 5.0)


def test_a_group_that_is_sent_back_reads_again_from_there(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    bodies = fill(clicks, 5)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", commit="each")
    def consumer(message: penstock.Message) -> None:
        read.append(message.body)

    consume(consumer)
    wait_for(lambda: read == bodies)
    ids = [message.id for message in clicks.read(partition=0)]

    clicks.group("g").seek(id=ids[2], partition=0)

    wait_for(lambda: read == bodies + bodies[3:], 8.0)
    clicks.group("g").seek(0.0)
    wait_for(lambda: read == bodies + bodies[3:] + bodies, 8.0)


def test_what_was_given_up_is_replayed_for_its_group_alone(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    is_mended = threading.Event()
    one: list[bytes] = []
    other: list[bytes] = []

    @penstock.consumer("clicks", "one", attempts=1)
    def first(message: penstock.Message) -> None:
        if message.body == b"3" and not is_mended.is_set():
            raise ValueError("not yet")
        one.append(message.body)

    @penstock.consumer("clicks", "other", batch=1)
    def second(messages: list[penstock.Message]) -> None:
        other.extend(message.body for message in messages)

    fill(clicks, 5)
    consume(first, second)
    wait_for(lambda: len(one) == 4 and len(other) == 5)
    is_mended.set()

    assert clicks.group("one").replay() == 1
    clicks.append(b"last", partition=0)

    wait_for(lambda: one[4:] == [b"3", b"last"] and other[5:] == [b"last"])


def test_a_worker_that_ends_when_all_is_read_has_read_all(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 50, 0)
    fill(clicks, 50, 1)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", batch=10)
    def consumer(messages: list[penstock.Message]) -> None:
        read.extend(message.body for message in messages)

    consume(consumer, until_empty=True).join()

    assert len(read) == 100
    for partition in (0, 1):
        assert offset_of(ps, partition) == list(clicks.read(partition=partition))[-1].id


def test_a_stop_takes_effect_between_two_messages(
    ps: penstock.Penstock, clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    fill(clicks, 50)
    read: list[bytes] = []
    has_begun, may_end = threading.Event(), threading.Event()

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message) -> None:
        has_begun.set()
        may_end.wait(20)
        read.append(message.body)

    worker = consume(consumer)
    assert has_begun.wait(20)
    worker.stop()
    wait_for(lambda: all(not pump.feed.is_accepting for pump in pumps_of(worker)))
    may_end.set()
    worker.join()

    assert read == [b"0"]
    assert offset_of(ps, 0) == next(clicks.read(partition=0)).id


def test_of_two_workers_with_the_same_list_the_later_one_reads(
    clicks: penstock.Log, consume: Callable[..., RunningWorker]
) -> None:
    read: dict[str, list[bytes]] = {"first": [], "second": []}

    def reader(name: str) -> Callable[[penstock.Message], None]:
        @penstock.consumer("clicks", "g", partitions=[0], commit="each")
        def consumer(message: penstock.Message) -> None:
            read[name].append(message.body)

        return consumer

    clicks.append(b"other", partition=1)
    first = consume(reader("first"))
    wait_for(lambda: len(sources_of(first)) == 1)
    second = consume(reader("second"))
    wait_for(lambda: len(sources_of(second)) == 1)
    bodies = fill(clicks, 300)

    wait_for(lambda: sources_of(first) == [])
    bodies += fill(clicks, 100)
    wait_for(lambda: len(read["second"]) >= 400)

    assert read == {"first": [], "second": bodies}
    assert clicks.partition_info(0).readers[0].owner.startswith(second.id)


@pytest.mark.parametrize("slots", [1, 8])
def test_a_partition_that_stands_still_keeps_no_slot_from_others(
    clicks: penstock.Log, consume: Callable[..., RunningWorker], slots: int
) -> None:
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=1, on_failure="stop")
    def consumer(message: penstock.Message) -> None:
        if message.partition == 0:
            raise ValueError("never")
        read.append(message.body)

    clicks.append(b"first", partition=1)
    worker = consume(consumer, concurrency=slots)
    wait_for(lambda: read == [b"first"])
    clicks.append(b"bad", partition=0)
    wait_for(lambda: any(source.problem for source in sources_of(worker)))

    for body in (b"second", b"third", b"fourth"):
        clicks.append(body, partition=1)
        wait_for(lambda body=body: read[-1] == body, 5.0)  # type: ignore[misc]


@pytest.mark.parametrize("commit", [0.5, "each"])
def test_partitions_that_share_one_slot_do_not_wait_for_each_other(
    clicks: penstock.Log, consume: Callable[..., RunningWorker], commit: Any
) -> None:
    """The end of a batch makes room, though nothing of it is reported."""
    for partition in (0, 1):
        fill(clicks, 30, partition)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", batch=1, commit=commit)
    async def consumer(messages: list[penstock.Message]) -> None:
        await asyncio.sleep(0.002)
        read.extend(message.body for message in messages)

    consume(consumer, concurrency=1)

    wait_for(lambda: len(read) == 60, 15.0)
