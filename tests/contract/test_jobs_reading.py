"""A caller that waits for a job reads how it ends; also if others wait, or something fails."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.results.watch import Watch
from penstock.errors import JobFailed, JobNotFound, ResultTimeout, StoreUnavailable
from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.contract.job_workers import Hand
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored

# Which thread of a client reads; what it hears, and from which server, is in test_jobs_results.py.
pytestmark = pytest.mark.stores("debian")


class Readers:
    """Which threads have read, and how to disturb them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.error: BaseException | None = None
        hear = Watch._hear

        def hear_disturbed(watch: Watch, at_most_s: float, now: float) -> list[bytes] | None:
            self.names.append(threading.current_thread().name)
            heard = hear(watch, at_most_s, now)
            if heard is not None and self.error is not None:
                error, self.error = self.error, None
                raise error
            return heard

        monkeypatch.setattr(Watch, "_hear", hear_disturbed)


@pytest.fixture
def readers(mail: penstock.Jobs, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> Readers:
    """Somebody has waited already, so that a channel is open and the thread keeps away."""
    readers = Readers(monkeypatch)

    def is_read_here() -> bool:
        readers.names.clear()
        ask(mail, hand, "before")
        return set(readers.names) == {threading.current_thread().name}

    wait_for(is_read_here)
    readers.names.clear()
    return readers


def ask(mail: penstock.Jobs, hand: Hand, value: object) -> Any:
    """Send a job, let it end while somebody waits, and return its result."""
    job = mail.add("email")
    handed = hand.take_one()
    ending = threading.Timer(0.01, hand.finish, (handed, value))
    ending.start()
    try:
        return job.result(20)
    finally:
        ending.join()


def client_that_has_waited(url: str, namespace: str, hand: Hand) -> penstock.Penstock:
    """Its channel is open, and the next caller that waits reads."""
    client = penstock.connect(url, namespace=namespace)
    for _ in range(3):
        ask(client.jobs("mail"), hand, "before")
    return client


def test_a_thread_that_waits_reads(mail: penstock.Jobs, hand: Hand, readers: Readers) -> None:
    for number in range(5):
        assert ask(mail, hand, number) == number

    assert set(readers.names) == {threading.current_thread().name}


def test_what_was_heard_before_anybody_waited_is_known(
    mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    job = mail.add("email", keep=False)
    hand.finish(hand.take_one(), "gone by now")
    assert ask(mail, hand, "another") == "another"  # which is told after the first

    assert job.result(20) == "gone by now"


def test_a_job_that_was_removed_since_has_no_result(
    mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    job = mail.add("email")
    hand.finish(hand.take_one(), "once")
    assert job.result(20) == "once"

    job.remove()
    with pytest.raises(JobNotFound):
        job.result(20)


@pytest.mark.parametrize("timeout_s", [0, 0.05, 1.2])
def test_nobody_waits_longer_than_said(
    mail: penstock.Jobs, hand: Hand, readers: Readers, timeout_s: float
) -> None:
    job = mail.add("email")
    began_at = time.monotonic()

    with pytest.raises(ResultTimeout):
        job.result(timeout_s)

    assert time.monotonic() - began_at >= timeout_s
    hand.finish(hand.take_one(), "late")
    assert job.result(20) == "late"


def test_a_job_that_takes_longer_is_waited_for_in_the_usual_way(
    mail: penstock.Jobs, hand: Hand, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.results.watch._READ_S", 0.005)

    assert ask(mail, hand, "at last") == "at last"
    assert set(readers.names) == {threading.current_thread().name, "penstock-results"}


def test_results_that_are_not_told_are_looked_up(
    mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    large = "x" * 100_000
    assert ask(mail, hand, large) == large

    job = mail.add("email")
    hand.fail(hand.take_one())
    with pytest.raises(JobFailed):
        job.result(20)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_thread_that_reads_tells_others_that_wait_for_the_same_job(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, readers: Readers, is_kept: bool
) -> None:
    job = mail.add("email", keep=is_kept)
    handed = hand.take_one()
    [watch] = ps.results._mine().by_place.values()
    [channel] = watch._awaited.channels.values()
    with ThreadPoolExecutor(2) as threads:
        reads = threads.submit(job.result, 20)
        wait_for(lambda: readers.names)
        waits = threads.submit(ps.wait, [job], timeout=20)
        wait_for(lambda: channel.jobs)
        hand.finish(handed, "for both")

        assert reads.result(20) == "for both"
        assert waits.result(20) == ([job], [])


def test_what_others_wait_for_is_read_while_one_waits(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    job, other = mail.add("email"), mail.add("email")
    handed = [hand.take_one(), hand.take_one()]
    with ThreadPoolExecutor(2) as threads:
        reads = threads.submit(job.result, 20)
        wait_for(lambda: readers.names)
        waits = threads.submit(other.result, 20)
        hand.finish(handed[1], "other")
        assert waits.result(20) == "other"
        hand.finish(handed[0], "own")

        assert reads.result(20) == "own"


def test_an_interrupted_wait_loses_nothing(
    mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    """Neither for the caller that was interrupted nor for others."""
    job, other = mail.add("email"), mail.add("email")
    handed = [hand.take_one(), hand.take_one()]
    with ThreadPoolExecutor(1) as thread:
        readers.error = KeyboardInterrupt()
        threading.Timer(0.01, hand.finish, (handed[0], "told once")).start()
        with pytest.raises(KeyboardInterrupt):
            job.result(20)
        waited = thread.submit(other.result, 20)
        hand.finish(handed[1], "other")

        assert waited.result(20) == "other"
    assert job.result(20) == "told once"


def test_a_connection_that_is_cut_under_a_reader_is_made_again(
    mail: penstock.Jobs, hand: Hand, readers: Readers, stored: Stored
) -> None:
    job = mail.add("email")
    handed = hand.take_one()
    with ThreadPoolExecutor(1) as thread:
        waited = thread.submit(job.result, 20)
        wait_for(lambda: readers.names)
        stored.on_each_server("CLIENT", "KILL", "TYPE", "pubsub")
        hand.finish(handed, "all the same")

        assert waited.result(20) == "all the same"


def test_many_wait_in_all_ways_at_once(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    sent = mail.add_many("email", range(40))
    handed = hand.take(40)
    with ThreadPoolExecutor(12) as threads:
        each = [threads.submit(job.result, 20) for job in sent[:8]]
        every = threads.submit(lambda: set(ps.as_completed(sent, timeout=20)))
        some = threads.submit(ps.wait, sent[20:], timeout=20)
        for number, job in enumerate(handed):
            hand.finish(job, number)
            time.sleep(0.001)

        assert [waited.result(20) for waited in each] == list(range(8))
        assert every.result(20) == set(sent)
        assert some.result(20)[1] == []
    assert [job.result(0) for job in sent] == list(range(40))


def test_a_client_that_is_closed_tells_the_thread_that_reads(
    any_store: RedisServer | RedisCluster, namespace: str, hand: Hand
) -> None:
    client = client_that_has_waited(any_store.url, namespace, hand)
    mail = client.jobs("mail")
    job = mail.add("email")
    with ThreadPoolExecutor(1) as thread:
        waited = thread.submit(job.result, 20)
        time.sleep(0.1)
        client.close()

        with pytest.raises(StoreUnavailable, match="client was closed"):
            waited.result(20)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("is_asked_for", [True, False])
def test_an_id_that_is_sent_again_is_that_of_another_job(
    mail: penstock.Jobs, hand: Hand, readers: Readers, is_kept: bool, is_asked_for: bool
) -> None:
    own = mail.add("email").id
    hand.take_one()
    chosen = penstock.new_job_id()
    assert chosen != own
    first = mail.add("email", id=chosen, keep=is_kept)
    hand.finish(hand.take_one(), "first")
    if is_asked_for:
        assert first.result(20) == "first"
    if is_kept:
        first.remove()
    second = mail.add("email", id=chosen, keep=is_kept)
    assert second.is_new

    with pytest.raises(ResultTimeout):
        second.result(0.05)
    with ThreadPoolExecutor(1) as thread:
        waited = thread.submit(second.result, 20)
        hand.finish(hand.take_one(), "second")
        assert waited.result(20) == "second"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_time_leaves_everything_as_it_should_be(
    mail: penstock.Jobs, hand: Hand, readers: Readers
) -> None:
    """The next wait is answered, whatever the one before was doing when it was given up. A socket
    that was in its hands then may be closed by the garbage collector, which warns of it.
    """

    class Interrupt(BaseException):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    chance, hits = random.Random(7), 0
    job = mail.add("email")
    hand.take_one()
    before = signal.signal(signal.SIGALRM, interrupt)
    time_limit, _ = signal.setitimer(signal.ITIMER_REAL, 0)  # of this test
    began_at = time.monotonic()
    try:
        while hits < 300:
            assert time.monotonic() - began_at < 60, "interrupts do not arrive"
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3))
                # An interrupt that comes in the midst of a garbage collection is lost: there, the
                # interpreter only prints what is raised.
                until = time.monotonic() + 0.1
                while time.monotonic() < until:
                    with suppress(ResultTimeout):
                        job.result(0.0005)
            except Interrupt:
                hits += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, time_limit)

    assert ask(mail, hand, "still here") == "still here"
    assert ask(mail, hand, "and again") == "and again"


def test_a_client_can_be_closed_by_a_signal_handler_of_the_thread_that_reads(
    any_store: RedisServer | RedisCluster, namespace: str, hand: Hand
) -> None:
    client = client_that_has_waited(any_store.url, namespace, hand)
    mail = client.jobs("mail")
    job, took_s = mail.add("email"), [0.0]

    def close(number: int, frame: object) -> None:
        began_at = time.monotonic()
        with pytest.raises(RuntimeError, match="interrupted a wait"):
            job.result(20)
        client.close()
        took_s[0] = time.monotonic() - began_at

    before = signal.signal(signal.SIGUSR1, close)
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(StoreUnavailable, match="client was closed"):
            job.result(20)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert 0 < took_s[0] < 4
