"""What qdo's own tests promise, one test each, in their order (seed-systems 3.4).

qdo's word and ours: a queue of Queuey is a log, a partition is one, counted from 0; a cursor is the
offset of a group; a job is a consumer; the error queue is the error log of a group. An ini file is
options of the command line and variables of the environment; the address of Queuey is that of Redis
(`--url`), that of ZooKeeper is `--zookeeper`; the manual policy is `consumer(partitions=...)`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.program import program
from penstock.cli.worker import run as worker_run
from penstock.client.connect import find_settings, find_zookeeper
from penstock.client.environment import limits_of_environment
from penstock.errors import InvalidArgument
from penstock.store.keys import NamespaceKeys
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.handlers import collect_handlers
from penstock.worker.worker import Worker
from tests.coordination import test_coordinators
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.running_worker import RunningWorker

# The scripts behind it are tested on every store.
pytestmark = pytest.mark.stores("debian")

ALSO_WITH_ZOOKEEPER = {
    27: test_coordinators.test_a_lone_member_gets_everything,
    28: test_coordinators.test_members_share_and_only_what_must_move_moves,
}
"""Statement -> the test that proves it of ZooKeeper too, which takes seconds; here it is Redis."""


def test_every_statement_has_a_test() -> None:
    tested = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}

    assert tested == set(range(1, 29))
    for test in ALSO_WITH_ZOOKEEPER.values():
        [kinds] = [mark.args[1] for mark in test.pytestmark if mark.name == "parametrize"]
        assert "zookeeper" in kinds


def fill(log: penstock.Log, count: int, partition: int | None = None) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    log.append_many([penstock.NewMessage(body, partition=partition) for body in bodies])
    return bodies


def partitions_of(worker: RunningWorker) -> set[int]:
    """What it reads."""
    assert worker.worker is not None
    pumps = worker.worker.serving.pumps
    return {pump.source.keys.number for pump in pumps}  # type: ignore[attr-defined]


class Reader:
    """Notes what a consumer was given."""

    def __init__(self, *logs: str, **options: Any) -> None:
        self.found: list[tuple[str, int, bytes]] = []
        """log, partition and body"""
        self.consumers = [self._consumer(log, options) for log in logs]

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.found]

    def _consumer(self, log: str, options: dict[str, Any]) -> Callable[..., None]:
        @penstock.consumer(log, "g", **options)
        def read(message: penstock.Message) -> None:
            self.found.append((log, message.partition, message.body))

        return read


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "URL_FILE", "ZOOKEEPER", "MAX_PAYLOAD", "RETRY_FOR", "NAMESPACE"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)


def options_of(*arguments: str) -> dict[str, Any]:
    """What `penstock worker run` makes of its arguments."""
    return worker_run.make_context("run", ["app", *arguments]).params


@pytest.mark.usefixtures("no_environment")
def test_01_there_are_defaults() -> None:
    """1: defaults of the wait, the name, and the addresses of the stores.

    A worker waits to be woken, so it has no interval; without a ZooKeeper, Redis shares out.
    """
    chosen = options_of()

    assert (chosen["name"], chosen["concurrency"], chosen["queues"]) == (None, 1, ())
    assert find_zookeeper(chosen["zookeeper"]) == ""


@pytest.mark.usefixtures("no_environment")
def test_02_what_is_given_wins_and_one_part_does_not_change_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2: overrides win, and sections are separable: here the two stores."""
    monkeypatch.setenv("PENSTOCK_URL", "redis://store:1")
    usual = find_settings()
    monkeypatch.setenv("PENSTOCK_ZOOKEEPER", "zk:2181")

    shared = find_settings()
    given = find_settings("redis://other:2", zookeeper="elsewhere:2181")

    assert (shared.address, shared.zookeeper) == (usual.address, "zk:2181")
    assert given.zookeeper == "elsewhere:2181"
    assert given.address != usual.address


def test_03_a_list_of_partitions_is_kept_as_it_is_given() -> None:
    """3: the manual policy keeps the given ids."""

    @penstock.consumer("clicks", "g", partitions=[1, 5, 3])
    def read(message: penstock.Message) -> None: ...

    [made] = getattr(read, CONSUMER_MARK)
    assert made.partitions == (1, 3, 5)


def test_04_numbers_are_read_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """4: a configuration is parsed, with ints."""
    monkeypatch.setenv("PENSTOCK_MAX_PAYLOAD", "4M")

    assert options_of("-c", "8", "--name", "8")["concurrency"] == 8
    assert options_of("-c", "8", "--name", "8")["name"] == "8"
    assert limits_of_environment() == {"max_payload": 4 << 20}


@pytest.mark.usefixtures("no_environment")
def test_05_an_environment_that_says_nothing_changes_nothing() -> None:
    """5: a missing configuration is none, and settings are untouched."""
    assert limits_of_environment() == {}


@pytest.mark.usefixtures("no_environment")
def test_06_without_an_option_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """6: there is a place that is looked at by default."""
    monkeypatch.setenv("PENSTOCK_ZOOKEEPER", "zk:2181/penstock")

    assert find_zookeeper(options_of()["zookeeper"]) == "zk:2181/penstock"


def test_07_an_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """7: the option overrides that place."""
    monkeypatch.setenv("PENSTOCK_ZOOKEEPER", "zk:2181")

    assert find_zookeeper(options_of("--zookeeper", "mine:2181")["zookeeper"]) == "mine:2181"


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no_such_module", "--url", "redis://127.0.0.1:1"], "no_such_module"),
        (["app", "--url-file", "no/such/file"], "no/such/file"),
    ],
)
def test_08_a_run_with_something_missing_prints_the_reason_and_ends(
    arguments: list[str], reason: str
) -> None:
    """8: a run with a missing file prints the reason and exits."""
    result = CliRunner().invoke(program, ["worker", "run", "--alone", *arguments])

    assert result.exit_code != 0
    assert reason in result.output
    assert "Traceback" not in result.output


def test_09_a_partition_is_named_after_its_log_and_the_first_is_the_default(
    ps: penstock.Penstock,
) -> None:
    """9: the name of a partition starts with that of its queue, and ends with 1 by default; ours
    count from 0.
    """
    assert NamespaceKeys("ns").queue("clicks").partition(3).tag == "{ns:clicks/3}"
    assert ps.log("clicks").append(b"x").partition == 0


def test_10_an_appended_message_is_readable(ps: penstock.Penstock) -> None:
    """10: a posted message is readable."""
    log = ps.log("clicks")
    appended = log.append(b"hello")

    [message] = log.read()

    assert (message.id, message.body) == (appended.id, b"hello")


def test_11_a_new_group_has_read_nothing(ps: penstock.Penstock) -> None:
    """11: a fresh cursor is empty; ours is 0-0, which comes before all messages."""
    log = ps.log("clicks")
    fill(log, 2)

    assert log.group("g").take(0, "w1").offset == "0-0"
    assert [message.body for message in log.page(0, after="0-0")] == [b"0", b"1"]


def test_12_an_offset_that_was_committed_is_read_again(ps: penstock.Penstock) -> None:
    """12: a cursor can be set and got."""
    log = ps.log("clicks")
    fill(log, 3)
    group, second = log.group("g"), log.page(0)[1].id

    group.commit(0, group.take(0, "w1").epoch, second)

    assert [reader.offset for reader in log.partition_info(0).readers] == [second]
    assert group.take(0, "w2").offset == second


def test_13_an_offset_is_text_and_bytes_are_refused_with_what_to_give(
    ps: penstock.Penstock,
) -> None:
    """13: a cursor may be given as bytes, as Python 2 had it; ours is text, and says so."""
    log = ps.log("clicks")
    fill(log, 1)
    given: Any = log.page(0)[0].id.encode()

    with pytest.raises(InvalidArgument, match="is no id of a message; ids look like"):
        log.group("g").commit(0, 1, given)


def test_14_errors_and_offsets_are_kept_apart_and_never_read_as_messages(
    ps: penstock.Penstock,
) -> None:
    """14: queues of errors and of cursors are there from the start, and never consumed as work."""
    log = ps.log("clicks")
    fill(log, 2)
    group = log.group("g")
    group.join()
    taken = group.take(0, "w1")

    group.note_error(0, taken.epoch, log.page(0)[0], "no", 1)
    group.commit(0, taken.epoch, log.page(0)[1].id)

    assert ps.queues() == ["clicks"]
    assert [message.body for message in log.read()] == [b"0", b"1"]


def test_15_given_partitions_restrict_what_is_read(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """15: explicit ids restrict the work."""
    log = ps.log("clicks", partitions=3)
    for partition in range(3):
        fill(log, 3, partition)
    reader = Reader("clicks", partitions=[1])

    serve(*reader.consumers, until_empty=True).join()

    assert reader.found == [("clicks", 1, b"%d" % number) for number in range(3)]


def test_16_without_a_consumer_nothing_is_run() -> None:
    """16: with no job configured a worker returns at once; ours also says what to do."""
    result = CliRunner().invoke(
        program, ["worker", "run", "json", "--alone", "--url", "redis://127.0.0.1:1"]
    )

    assert result.exit_code == 1
    assert "module 'json' has no handler" in result.output


def test_17_a_worker_that_is_stopped_before_it_starts_returns(ps: penstock.Penstock) -> None:
    """17: with the flag of shutdown set before the start, a worker returns."""
    fill(ps.log("clicks"), 3)
    reader = Reader("clicks")

    async def run() -> None:
        worker = Worker(ps.settings, collect_handlers(reader.consumers))
        worker.stop()
        async with asyncio.timeout(20):
            await worker.run()

    asyncio.run(run())

    assert reader.found == []
    assert ps.workers() == []


def test_18_a_consumer_can_end_its_worker(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """18: StopWorker ends the loop. Here a consumer asks its worker to stop, as SIGTERM does, and
    is done with its message.
    """
    log = ps.log("clicks")
    fill(log, 5)
    read: list[bytes] = []
    has_started = threading.Event()

    @penstock.consumer("clicks", "g", batch=1)
    async def consumer(messages: list[penstock.Message]) -> None:
        assert await asyncio.to_thread(has_started.wait, 20)
        read.append(messages[0].body)
        if messages[0].body == b"2":
            assert worker.worker is not None
            worker.worker.stop()

    worker = serve(consumer)
    has_started.set()
    worker.join()

    assert read == [b"0", b"1", b"2"]
    assert [lag.messages for lag in log.group("g").lag()] == [2]


def test_19_what_a_worker_needs_is_made_once_shared_by_all_and_torn_down_at_the_end(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """19: the context of jobs is made once, shared by all, and torn down at the end."""
    fill(ps.log("clicks", partitions=2), 6)
    story: list[str] = []

    @penstock.lifespan
    def around() -> Iterator[list[str]]:
        story.append("made")
        yield story
        story.append("gone")

    @penstock.consumer("clicks", "g")
    def consumer(message: penstock.Message, context: penstock.Context) -> None:
        context.resources.append("used")

    serve(around, consumer, until_empty=True).join()

    assert story == ["made", *["used"] * 6, "gone"]


def test_20_five_messages_are_read_once_each_in_their_order(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """20: five messages in one queue: each once, in order, and a stop at the last."""
    bodies = fill(ps.log("clicks"), 5)
    reader = Reader("clicks")

    serve(*reader.consumers, until_empty=True).join()

    assert reader.bodies == bodies


def test_21_two_logs_are_read_by_one_worker(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """21: five messages in two queues: all five."""
    fill(ps.log("clicks"), 2)
    fill(ps.log("views"), 3)
    reader = Reader("clicks", "views")

    serve(*reader.consumers, until_empty=True).join()

    assert Counter(log for log, _, _ in reader.found) == {"clicks": 2, "views": 3}


def test_22_logs_with_nothing_in_them_hold_up_no_others(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """22: empty queues do not block others."""
    for name in ("empty", "void"):
        log = ps.log(name, partitions=3)
        appended = log.append(b"gone")
        log.trim(id="9999999999999-0", partition=appended.partition)
        assert list(log.read()) == []
    bodies = fill(ps.log("clicks"), 5)
    reader = Reader("empty", "clicks", "void")

    serve(*reader.consumers, until_empty=True).join()

    assert reader.bodies == bodies


def test_23_of_several_logs_and_partitions_everything_is_read(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """23: several queues and partitions: all ten, spread over more than one partition."""
    fill(ps.log("clicks", partitions=3), 5)
    fill(ps.log("views", partitions=3), 5)
    reader = Reader("clicks", "views")

    serve(*reader.consumers, until_empty=True).join()

    assert len(set(reader.found)) == len(reader.found) == 10
    assert len({partition for log, partition, _ in reader.found if log == "clicks"}) == 3


def test_24_a_failure_is_told_with_its_exception_and_the_rest_goes_on(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """24: the handler of failures gets the exception, and processing goes on. Here the
    error log of the group has it.
    """
    log = ps.log("clicks")
    fill(log, 5)
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=1)
    def consumer(message: penstock.Message) -> None:
        if message.body == b"2":
            raise ValueError("two")
        read.append(message.body)

    serve(consumer, until_empty=True).join()

    assert read == [b"0", b"1", b"3", b"4"]
    [error] = log.group("g").errors(0)
    assert (error.message.body, error.reason) == (b"2", "ValueError: two")


def test_25_every_failed_message_is_kept_in_its_partition_with_its_body(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """25: twenty failures are twenty copies over more than three partitions of errors, with the
    body of each.
    """
    log = ps.log("clicks", partitions=5)
    bodies = fill(log, 20)

    @penstock.consumer("clicks", "g", attempts=1)
    def consumer(message: penstock.Message) -> None:
        raise ValueError("no")

    serve(consumer, until_empty=True).join()

    kept = {number: log.group("g").errors(number) for number in range(5)}
    assert [len(errors) for errors in kept.values()] == [4] * 5
    assert sorted(e.message.body for errors in kept.values() for e in errors) == sorted(bodies)
    assert log.group("g").count_errors() == 20


def test_26_three_workers_with_given_partitions_read_their_own_in_order(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """26: three workers with static partitions each finish their own queue in order."""
    log = ps.log("clicks", partitions=3)
    for partition in range(3):
        fill(log, 5, partition)
    readers = [Reader("clicks", partitions=[partition]) for partition in range(3)]

    workers = [serve(*reader.consumers, until_empty=True) for reader in readers]
    for worker in workers:
        worker.join()

    for partition, reader in enumerate(readers):
        assert reader.found == [("clicks", partition, b"%d" % number) for number in range(5)]


def test_27_a_lone_worker_owns_every_partition(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """27: with the automatic policy, a lone worker owns the partition."""
    fill(ps.log("clicks", partitions=4), 4)

    worker = serve(*Reader("clicks").consumers)

    wait_for(lambda: partitions_of(worker) == {0, 1, 2, 3})


def test_28_three_workers_share_27_partitions(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """28: three workers, 27 partitions: each more than three, together 27, and none twice."""
    fill(ps.log("clicks", partitions=27), 27)

    workers = [serve(*Reader("clicks").consumers) for _ in range(3)]

    wait_for(lambda: [len(partitions_of(worker)) for worker in workers] == [9, 9, 9])
    assert set.union(*map(partitions_of, workers)) == set(range(27))
