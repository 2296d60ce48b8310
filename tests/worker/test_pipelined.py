"""A busy worker asks for more before it has unpacked what it was given."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import penstock
from penstock.worker.feed import Feed
from penstock.worker.pump import Pump
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from penstock.worker.source import Begin, Request
    from tests.running_worker import RunningWorker
    from tests.worker.conftest import Recorder

MANY = 3000


class Requests:
    """How often a worker unpacked tasks while it was asking for more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.overlapping = self.under_way = self.most = 0
        send, begin = Pump._send, Pump._begin

        async def watched_send(pump: Pump, request: Request) -> None:
            if request is not pump.feed.asking:
                await send(pump, request)  # beside others
                return
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await send(pump, request)
            finally:
                self.under_way -= 1

        def watched_begin(pump: Pump, step: Begin) -> None:
            self.overlapping += self.under_way > 0
            begin(pump, step)

        monkeypatch.setattr(Pump, "_send", watched_send)
        monkeypatch.setattr(Pump, "_begin", watched_begin)


def test_every_job_runs_once(
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = Requests(monkeypatch)
    ran: list[int] = []

    @penstock.job(queue="mail")
    def note(number: int) -> None:
        ran.append(number)

    mail.add_many("note", [{"number": number} for number in range(MANY)])
    serve(note, concurrency=1)
    wait_for(lambda: mail.counts()["done"] == MANY)

    assert ran == list(range(MANY)), "by one worker with one slot, in the order of sending"
    assert requests.overlapping > 0
    assert requests.most == 1, "requests of one queue never race each other"


def test_every_plain_task_runs_once(
    ps: penstock.Penstock,
    start_worker: Callable[..., RunningWorker],
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = Requests(monkeypatch)
    queue = ps.queue("mail")
    tasks = [b"%d" % number for number in range(20 * MANY)]
    queue.enqueue_many(tasks)
    start_worker({"mail": recorder}, concurrency=1)
    wait_for(lambda: queue.inspect().counters.finished == len(tasks))

    assert recorder.tasks == tasks
    assert requests.overlapping > 0
    assert requests.most == 1


def test_what_is_given_back_runs_before_what_was_asked_for_meanwhile(
    ps: penstock.Penstock,
    start_worker: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = Feed.answered
    ran: list[bytes] = []

    def answer_slowly(feed: Feed, request: Request, answer: Any, now: float) -> None:
        if request.purpose == "claim":
            time.sleep(0.1)
        answered(feed, request, answer, now)

    def note(task: bytes, context: penstock.Context) -> None:
        ran.append(task)
        if len(ran) % 500 == 0:
            time.sleep(0.3)  # so that what waits behind it is given back

    monkeypatch.setattr(Feed, "answered", answer_slowly)
    queue = ps.queue("mail")
    tasks = [b"%d" % number for number in range(MANY)]
    queue.enqueue_many(tasks)
    start_worker({"mail": note}, concurrency=1)
    wait_for(lambda: queue.inspect().counters.finished == len(tasks))

    assert queue.inspect().counters.stopped > 0
    assert ran == tasks


def test_a_cancel_finds_what_is_not_unpacked_yet(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    is_over = threading.Event()

    @penstock.job(queue="mail")
    def quick() -> None: ...

    @penstock.job(queue="mail")
    def patient() -> None:
        while not (penstock.current().cancelled or is_over.wait(0.01)):
            pass

    mail.add_many("quick", [{}] * 700)
    waits = mail.add("patient")
    mail.add_many("quick", [{}] * 700)
    serve(quick, patient, concurrency=1)
    wait_for(lambda: waits.info().state == "running")
    waits.cancel()

    try:
        wait_for(lambda: waits.info().state == "cancelled")
    finally:
        is_over.set()
    wait_for(lambda: mail.counts()["done"] == 1400)


def test_what_was_asked_for_before_a_stop_is_given_back(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.job(queue="mail")
    def quick() -> None: ...

    mail.add_many("quick", [{}] * (3 * MANY))
    worker = serve(quick, concurrency=1)
    wait_for(lambda: mail.counts()["done"] > 100)
    worker.stop()
    worker.join()

    counts = mail.counts()
    assert counts["running"] == 0
    assert counts["done"] + counts["ready"] == 3 * MANY
    assert [attempt.outcome for attempt in mail.history(limit=10_000)] == ["done"] * counts["done"]
