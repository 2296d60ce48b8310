"""Waiting for jobs: any number of them, on one connection, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.results.ending_channel import EndingChannel
from penstock.client.results.watch import Watch
from penstock.codec.ids import SENDERS, id_text
from penstock.connection.job_ids import new_ids
from penstock.errors import (
    InvalidArgument,
    JobCancelled,
    JobFailed,
    JobNotFound,
    ResultTimeout,
    StoreUnavailable,
)
from penstock.model.jobs import Report
from tests.contract.job_workers import Hand
from tests.servers import RedisCluster, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import RedisServer

# The client waits. How jobs end is told on channels, which are others on a cluster.
pytestmark = pytest.mark.stores("debian", "cluster")


@pytest.fixture
def waiter(any_store: RedisServer | RedisCluster, namespace: str) -> Iterator[penstock.Penstock]:
    """A client that only waits."""
    with penstock.connect(any_store.url, namespace=namespace) as client:
        yield client


def is_waiting(client: penstock.Penstock, jobs: int = 1) -> bool:
    """Whether the client listens to the channels of so many jobs, and has looked at each."""
    watches = list(client.results._mine().by_place.values())
    channels = [channel for watch in watches for channel in watch._awaited.channels.values()]
    return sum(len(channel.jobs) for channel in channels) == jobs and not any(
        watch._awaited.new
        or watch._seen
        or any(channel.unseen or not channel.is_open for channel in channels)
        for watch in watches
    )


@pytest.mark.parametrize(
    "value", [None, 0, "", [], {"a": [1, None]}, "text", 1.5, b"", b"\x00\xff"], ids=repr
)
def test_a_result_comes_back_as_it_was(mail: penstock.Jobs, hand: Hand, value: Any) -> None:
    job = mail.add("email")
    hand.finish(hand.take_one(), value)

    assert job.result(5) == value
    assert type(job.result(5)) is type(value)


def test_a_result_is_there_for_a_caller_that_began_to_wait_before(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(waiter.job(job.id).result, 20)
        wait_for(lambda: is_waiting(waiter))

        hand.finish(hand.take_one(), "done")

        assert result.result(20) == "done"


@pytest.mark.parametrize(("size", "keep"), [(16_384, True), (16_385, True), (900_000, False)])
def test_a_large_result_arrives_too(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand, size: int, keep: bool
) -> None:
    job = mail.add("email", keep=keep)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(waiter.job(job.id).result, 20)
        wait_for(lambda: is_waiting(waiter))

        hand.finish(hand.take_one(), b"x" * (size - 1))

        assert len(result.result(20)) == size - 1


def test_a_dead_job_raises_its_error(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.fail(hand.take_one(), "no such address")

    with pytest.raises(JobFailed) as caught:
        job.result(5)

    assert str(caught.value) == (
        f"job {job.id} is dead (failed): ValueError: no such address; "
        f"`penstock job show {job.id}` has the traceback, `penstock job retry {job.id}` runs it "
        "again"
    )


def test_a_retry_is_waited_through(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", attempts=2)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(job.result, 20)
        hand.fail(hand.take_one())
        hand.finish(hand.take_one(), "at last")

        assert result.result(20) == "at last"


ENDINGS: dict[str, tuple[Callable[[penstock.Job[Any]], object], type[Exception], str]] = {
    "cancelled": (lambda job: job.cancel(), JobCancelled, "was cancelled, so it has no result"),
    "removed": (lambda job: job.remove(), JobNotFound, "has no job"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_caller_that_waits_hears_that_there_will_be_no_result(
    waiter: penstock.Penstock, mail: penstock.Jobs, ending: str
) -> None:
    end, error, message = ENDINGS[ending]
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(waiter.job(job.id).result, 20)
        wait_for(lambda: is_waiting(waiter))

        end(job)

        with pytest.raises(error, match=message):
            result.result(20)


def test_a_caller_that_waits_hears_that_the_queue_was_deleted(
    waiter: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(waiter.job(job.id).result, 20)
        wait_for(lambda: is_waiting(waiter))

        mail.delete()

        with pytest.raises(JobNotFound):
            result.result(20)


def test_waiting_has_an_end(mail: penstock.Jobs) -> None:
    job = mail.add("email")

    with pytest.raises(ResultTimeout, match=f"job {job.id} has not ended within 0.01 s; it may"):
        job.result(0.01)
    with pytest.raises(ResultTimeout, match=r"1 job has not ended within 0\.01 s"):
        list(mail._client.as_completed([job], 0.01))
    assert mail._client.wait([job], 0.01) == ([], [job])
    with pytest.raises(InvalidArgument, match="timeout is nan; give seconds"):
        job.result(float("nan"))


def test_a_job_that_has_ended_is_found_in_no_time(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    done, dead, cancelled, removed, ready = (
        waiter.job(job.id) for job in mail.add_many("email", range(5))
    )
    for process, state in zip(hand.take(3), ("done", "dead", "cancelled"), strict=True):
        hand.end_as(process, state)
    removed.remove()

    for _ in range(10):
        assert done.result(0) is None
        for job, error in (
            (dead, JobFailed),
            (cancelled, JobCancelled),
            (removed, JobNotFound),
            (ready, ResultTimeout),
        ):
            with pytest.raises(error):
                job.result(0)

    wait_for(lambda: is_waiting(waiter, 0))


def test_all_that_have_ended_are_found_in_no_time(waiter: penstock.Penstock) -> None:
    ended = [*_end_many(waiter, "few", 10), *_end_many(waiter, "many", 600)]
    ready = waiter.jobs("few").add("email")

    found, rest = waiter.wait([ready, *ended], 0)

    assert ({job.id for job in found}, rest) == ({job.id for job in ended}, [ready])
    completed = waiter.as_completed([ready, *ended], 0)
    assert {next(completed).id for _ in ended} == {job.id for job in ended}
    with pytest.raises(ResultTimeout, match="1 job has not ended within 0 s"):
        next(completed)
    wait_for(lambda: is_waiting(waiter, 0))


def test_an_event_loop_finds_what_has_ended_in_no_time(
    any_store: RedisServer | RedisCluster, namespace: str, mail: penstock.Jobs, hand: Hand
) -> None:
    async def look() -> None:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
            done, ready = await client.jobs("mail").add_many("email", range(2))
            hand.finish(hand.take_one(), "done")
            assert await done.result(0) == "done"
            assert await client.wait([ready, done], 0) == ([done], [ready])
            assert [job async for job in client.as_completed([done], 0)] == [done]
            with pytest.raises(ResultTimeout):
                await ready.result(0)

    asyncio.run(look())


def test_a_store_that_is_gone_holds_nobody_whose_time_is_up(own_server: RedisServer) -> None:
    with penstock.connect(own_server.url, retry_for_s=None) as client:
        job = client.jobs("mail").add("email")
        own_server.kill()

        with pytest.raises(ResultTimeout):
            job.result(0)
        assert client.wait([job], 0) == ([], [job])


WRONG_TIMES: list[Any] = [float("nan"), float("inf"), -1, "1", True]


@pytest.mark.parametrize("time", WRONG_TIMES, ids=repr)
def test_a_wrong_timeout_is_refused_before_anything_is_watched(
    ps: penstock.Penstock, mail: penstock.Jobs, time: Any
) -> None:
    job = mail.add("email")

    with pytest.raises(InvalidArgument, match=r"timeout is .*; give seconds"):
        ps.wait([job], time)
    with pytest.raises(InvalidArgument, match=r"timeout is .*; give seconds"):
        ps.as_completed([job], time)
    with pytest.raises(InvalidArgument, match=r"timeout_s is .*; give seconds"):
        mail.events(timeout_s=time)

    assert not ps.results._mine().by_place


def test_a_timeout_can_be_a_timedelta(ps: penstock.Penstock, mail: penstock.Jobs) -> None:
    job, soon = mail.add("email"), timedelta(milliseconds=10)

    assert ps.wait([job], soon) == ([], [job])
    with pytest.raises(ResultTimeout, match=r"1 job has not ended within 0\.01 s"):
        list(ps.as_completed([job], soon))
    assert list(mail.events(timeout_s=soon)) == []


def test_what_is_no_job_is_refused_before_anything_is_watched(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email")
    wrong: list[tuple[Any, str]] = [
        (
            [job, 1],
            "1 is no job that this client can wait for; give jobs as `add`, `send` and `job",
        ),
        ([job, job.id], f"'{job.id}' is no job"),
        (job, "is no list; give a list of jobs"),
        (None, "None is no list; give a list of jobs"),
    ]
    for given, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            ps.wait(given, 0)
        with pytest.raises(InvalidArgument, match=message):
            ps.as_completed(given)

    assert not ps.results._mine().by_place


def test_waiting_again_and_again_keeps_nothing_of_the_times_before(
    mail: penstock.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for time in ("_SILENCE_S", "_LINGER_S"):
        monkeypatch.setattr(f"penstock.client.results.watch.{time}", 0.1)
    job = mail.add("email")

    for _ in range(20):
        with pytest.raises(ResultTimeout):
            job.result(0.001)

    [watch] = mail._client.results._mine().by_place.values()
    assert not any(channel.jobs or channel.unseen for channel in watch._awaited.channels.values())
    wait_for(lambda: not watch._awaited.channels)


def test_wait_returns_when_all_have_ended_in_whatever_way(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    jobs = mail.add_many("email", range(4))
    for process, state in zip(hand.take(3), ("done", "dead", "cancelled"), strict=True):
        hand.end_as(process, state)
    jobs[3].remove()

    ended, waiting = ps.wait(jobs, 20)

    assert (sorted(job.id for job in ended), waiting) == ([job.id for job in jobs], [])


def test_jobs_come_as_they_are_completed(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    a, b, c = mail.add_many("email", range(3))
    processes = hand.take(3)
    completed = ps.as_completed([a, b, c], 20)

    for index, job in ((2, c), (0, a), (1, b)):
        hand.finish(processes[index])
        assert next(completed).id == job.id
    assert list(completed) == []


def test_waiting_for_four_times_as_many_is_four_times_the_work(
    any_store: RedisServer | RedisCluster, waiter: penstock.Penstock, namespace: str
) -> None:
    few, many = (_end_many(waiter, queue, jobs) for queue, jobs in (("few", 250), ("many", 1000)))

    async def wait(jobs: list[penstock.Job[Any]]) -> int:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
            own = [client.jobs(job.queue)._job(job._number, "email") for job in jobs]
            return len((await client.wait(own, 60))[0])

    for ended in (lambda jobs: len(waiter.wait(jobs, 60)[0]), lambda jobs: asyncio.run(wait(jobs))):
        calls_of_few, calls_of_many = _count_calls(ended, few), _count_calls(ended, many)
        assert calls_of_many < 6 * calls_of_few


def _end_many(ps: penstock.Penstock, queue: str, jobs: int) -> list[penstock.Job[Any]]:
    sent = ps.jobs(queue).add_many("email", range(jobs))
    hand = Hand(ps, f"hand-{queue}", queue=queue)
    while taken := hand.take(1000):
        hand.report(*(Report(job.process, "done") for job in taken))
    return sent


def _count_calls(
    ended: Callable[[list[penstock.Job[Any]]], int], jobs: list[penstock.Job[Any]]
) -> int:
    """How many functions this thread calls until all jobs are known to have ended."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert ended(jobs) == len(jobs)
    finally:
        sys.setprofile(before)
    return calls


def test_waiting_for_no_jobs_is_over_at_once(ps: penstock.Penstock) -> None:
    assert ps.wait([]) == ([], [])
    assert list(ps.as_completed([])) == []


def test_two_thousand_waiters_share_one_connection(
    any_store: RedisServer | RedisCluster,
    waiter: penstock.Penstock,
    mail: penstock.Jobs,
    hand: Hand,
) -> None:
    jobs = mail.add_many("email", range(2000))
    own = [waiter.jobs("mail")._job(job._number, "email") for job in jobs]
    before = _subscribers(any_store)

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(waiter.wait, own, 60)
        wait_for(lambda: is_waiting(waiter, 2000), timeout_s=60)
        assert _subscribers(any_store) == before + 1
        while taken := hand.take(1000):
            hand.report(*(Report(job.process, "done") for job in taken))
        ended, left = waiting.result(60)

    assert (len(ended), left) == (2000, [])


def test_a_caller_that_waits_is_not_hurt_by_a_lost_connection(
    any_store: RedisServer | RedisCluster,
    waiter: penstock.Penstock,
    mail: penstock.Jobs,
    hand: Hand,
) -> None:
    jobs = mail.add_many("email", range(3))
    own = [waiter.jobs("mail")._job(job._number, "email") for job in jobs]
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: [job.result(30) for job in own])
        wait_for(lambda: is_waiting(waiter))
        for client in _clients(any_store):
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        for number, process in enumerate(hand.take(3)):
            hand.finish(process, number)

        assert waiting.result(30) == [0, 1, 2]


def test_many_threads_can_wait_for_one_job(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = waiter.job(mail.add("email").id)
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(job.result, 20) for _ in range(8)]
        hand.finish(hand.take_one(), 42)

        assert [result.result(20) for result in results] == [42] * 8


def test_a_closed_client_waits_for_nothing(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = waiter.job(mail.add("email").id)
    hand.finish(hand.take_one())
    waiter.close()

    with pytest.raises(StoreUnavailable, match="the client was closed, so it cannot wait for jobs"):
        job.result(20)

    assert not waiter.results._mine().by_place


def test_a_wait_that_fails_does_not_say_that_jobs_have_ended(
    waiter: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = waiter.job(mail.add("email").id)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(waiter.wait, [job], 20)
        wait_for(lambda: is_waiting(waiter))

        waiter.close()

        with pytest.raises(StoreUnavailable, match="the client was closed while somebody waited"):
            waiting.result(20)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_gets_results_whatever_threads_did_at_the_fork(
    waiter: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job, other = (waiter.job(job.id) for job in mail.add_many("email", range(2)))
    hand.finish(hand.take_one(), "done")
    is_over = threading.Event()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(_begin_to_wait_again_and_again, other, is_over)
        wait_for(waiter.results._mine().by_place.values)
        children = [_fork(lambda: job.result(20) == "done") for _ in range(10)]
        is_over.set()

    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 10


def _begin_to_wait_again_and_again(job: penstock.Job[Any], is_over: threading.Event) -> None:
    results = job._client.results
    while not is_over.is_set():
        results.forget(job._keys, job._number, job._watch())


def _fork(is_right: Callable[[], bool]) -> int:
    """A child that ends with 0 if it finds something to be so, and is killed if it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            code = 0 if is_right() else 2
        finally:
            os._exit(code)
    return child


def test_an_event_loop_can_wait_for_many(
    any_store: RedisServer | RedisCluster, namespace: str, mail: penstock.Jobs, hand: Hand
) -> None:
    async def wait_for_all() -> list[int]:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
            jobs = await client.jobs("mail").add_many("email", range(20))
            finishing = threading.Thread(target=_finish_all, args=(hand,))
            finishing.start()
            results = await asyncio.gather(*(job.result(20) for job in jobs))
            finishing.join()
            return results

    assert asyncio.run(wait_for_all()) == list(range(20))


def _finish_all(hand: Hand) -> None:
    for job in hand.take(100):
        hand.finish(job, int(job.data))


def _clients(store: RedisServer | RedisCluster) -> list[Any]:
    servers = store.nodes if isinstance(store, RedisCluster) else [store]
    return [server.client for server in servers]


def _subscribers(store: RedisServer | RedisCluster) -> int:
    return sum(len(client.client_list(_type="pubsub")) for client in _clients(store))


def channels_of(client: penstock.Penstock) -> list[EndingChannel]:
    watches = list(client.results._mine().by_place.values())
    return [channel for watch in watches for channel in watch._awaited.channels.values()]


def test_a_caller_that_has_waited_hears_of_later_jobs_without_asking(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    first = mail.add("email")
    hand.finish(hand.take_one(), 1)
    assert first.result(20) == 1
    [channel] = channels_of(ps)
    assert channel.is_open
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(job.result, 20)
        wait_for(lambda: channel.jobs)
        [waited_for] = channel.jobs.values()

        hand.finish(hand.take_one(), 2)

        assert result.result(20) == 2
    assert not waited_for.is_seen
    assert channels_of(ps) == [channel]


def test_an_end_that_comes_before_anybody_waits_is_looked_up(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    watches_after_waiting(ps, mail, hand)
    [channel] = channels_of(ps)
    job = mail.add("email")
    hand.finish(hand.take_one(), "early")
    wait_for(lambda: channel.must_look(job._number))

    assert job.result(20) == "early"


def test_a_job_that_was_sent_back_is_not_dead_for_a_caller_that_waits_now(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    [watch] = watches_after_waiting(ps, mail, hand)
    [channel] = channels_of(ps)
    job = mail.add("email")
    with watch._awaited.lock:  # so that the news of its death is not read before it is sent back
        hand.fail(hand.take_one())
        job.retry()
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(job.result, 20)
            taken = hand.take_one()
            watch._awaited.lock.release()
            wait_for(lambda: channel.jobs)
            hand.finish(taken, "at last")

            assert result.result(20) == "at last"
            watch._awaited.lock.acquire()


class Deaf(dict[str, EndingChannel]):
    """No channels, so that what is said on them goes past; it is known when something was."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked_for.add(name)
        return default


def test_a_job_whose_id_is_from_a_clock_that_is_ahead_is_not_waited_for_in_vain(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    [watch] = watches_after_waiting(ps, mail, hand)
    [channel] = channels_of(ps)
    ahead = id_text(new_ids()[0] + 1_000_000 * SENDERS)
    job = mail.add("email", id=ahead)
    watch_channels, watch._awaited.channels = watch._awaited.channels, (deaf := Deaf())
    hand.finish(hand.take_one(), "ended before")
    wait_for(lambda: mail._keys.ending_channel(job._number) in deaf.asked_for)
    watch._awaited.channels = watch_channels
    assert not channel.must_look(job._number)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(job.result, 20)
        wait_for(lambda: channel.jobs)

        watch._round_at = 0.0
        watch._waker.wake()

        assert result.result(20) == "ended before"


def test_a_result_can_be_asked_for_again(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    watches_after_waiting(ps, mail, hand)
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(job.result, 20)
        hand.finish(hand.take_one(), "once more")
        assert result.result(20) == "once more"

    assert job.result(5) == "once more"


def test_a_result_that_is_not_kept_is_heard_although_the_job_is_gone_by_now(
    mail: penstock.Jobs, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, is_looking, has_ended = Watch._look, threading.Event(), threading.Event()

    def look_late(watch: Watch) -> None:
        is_looking.set()
        has_ended.wait(20)
        look(watch)

    monkeypatch.setattr(Watch, "_look", look_late)
    job = mail.add("email", keep=False)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(job.result, 20)
        assert is_looking.wait(20)
        hand.finish(hand.take_one(), "the result")
        has_ended.set()

        assert result.result(20) == "the result"


def test_a_channel_that_nobody_needs_is_closed(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    watches_after_waiting(ps, mail, hand)

    wait_for(lambda: not channels_of(ps))

    later = mail.add("email")
    hand.finish(hand.take_one(), "later")
    assert later.result(20) == "later"


def test_what_ends_while_nobody_waits_is_not_kept_for_ever() -> None:
    channel = EndingChannel()
    channel.opens_with = 1
    channel.confirmed(1)
    numbers = new_ids(10_001)

    for number in numbers:
        assert not channel.must_look(number)
        channel.heard(number, None)

    assert all(map(channel.must_look, numbers))
    assert not channel.must_look(new_ids()[0])


def watches_after_waiting(ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand) -> list[Any]:
    """Somebody has waited, so that there is a channel that is open."""
    job = mail.add("email")
    hand.finish(hand.take_one())
    job.result(20)
    return list(ps.results._mine().by_place.values())
