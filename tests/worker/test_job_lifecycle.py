"""Workers of jobs that come, wait, are paused, stop, and lose what they hold."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from tests.job_invariants import check_jobs
from tests.servers import wait_for
from tests.worker.job_kinds import in_thread, long_in_coroutine, long_in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]


class Gate:
    """A job function that notes who has come, and lets nobody out before it is opened."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.is_open = threading.Event()
        self.function = penstock.job(queue="mail", type="gate")(self._pass)

    def _pass(self, name: str) -> str:
        self.came.append(name)
        assert self.is_open.wait(30)
        return name


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.is_open.set()


def send(gate: Gate, ps: penstock.Penstock, *names: str, **options: Any) -> list[penstock.Job[str]]:
    return [gate.function.on(ps).options(**options).send(name) for name in names]


def names_of(mail: penstock.Jobs) -> list[str]:
    """Who waits, in the order in which they were sent."""
    return [job.data.decode() for job in mail.page("ready").jobs]


def test_a_worker_asked_to_stop_ends_what_runs_and_gives_the_rest_back(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, gate: Gate
) -> None:
    running, waiting = send(gate, ps, "running", "waiting")
    worker = serve(gate.function)
    wait_for(lambda: gate.came == ["running"])

    worker.stop()
    wait_for(lambda: ps.queue("mail").inspect().idle == 0)
    gate.is_open.set()
    worker.join()

    assert running.result(20) == "running"
    assert (waiting.state, waiting.info().crashes, waiting.attempts()) == ("ready", 0, [])
    assert ps.workers() == []
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_jobs_not_begun_go_back_to_their_place(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, gate: Gate
) -> None:
    """A worker holds quick jobs ahead; those behind one that takes long are given back, also
    when it is asked to stop.
    """
    quick: list[int] = []

    @penstock.job(queue="mail")
    def note(number: int) -> None:
        quick.append(number)

    note.on(ps).send_many([(number,) for number in range(300)])
    [held_up] = send(gate, ps, "held up")
    rest = note.on(ps).send_many([(number,) for number in range(300, 400)])
    worker = serve(note, gate.function)
    wait_for(lambda: gate.came)

    worker.stop()
    wait_for(lambda: mail.counts()["ready"] == 100)
    gate.is_open.set()
    worker.join()

    assert held_up.result(20) == "held up"
    assert [job.id for job in mail.page("ready").jobs] == [job.id for job in rest]
    serve(note)
    ps.wait(rest, 20)
    assert quick == list(range(400))
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_after_the_grace_time_what_still_runs_goes_back_at_no_cost(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, gate: Gate
) -> None:
    first, second = send(gate, ps, "first", "second")
    worker = serve(gate.function, grace_s=0.2)
    wait_for(lambda: gate.came == ["first"])

    worker.stop()
    worker.join()

    assert [job.id for job in mail.page("ready").jobs] == [first.id, second.id]
    assert (first.info().failures, first.info().crashes, first.attempts()) == (0, 0, [])
    gate.is_open.set()
    serve(gate.function)
    ps.wait([first, second], 20)
    assert gate.came == ["first", "first", "second"]


@pytest.mark.parametrize("function", [long_in_coroutine, long_in_process], ids=lambda f: f.type)
def test_after_the_grace_time_coroutines_and_processes_are_ended(
    ps: penstock.Penstock, serve: Serve, tmp_path: Path, function: Any
) -> None:
    worker = serve(function, grace_s=0.1)
    flag = tmp_path / "begun"
    job = function.on(ps).send(str(flag))
    wait_for(flag.exists)

    worker.stop()
    worker.join(10)

    assert (job.state, job.info().failures, job.info().crashes) == ("ready", 0, 0)


def test_a_worker_told_twice_gives_everything_back_at_once(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, gate: Gate
) -> None:
    jobs = send(gate, ps, "a", "b", "c")
    worker = serve(gate.function, concurrency=2, grace_s=600)
    wait_for(lambda: len(gate.came) == 2)

    worker.stop()
    worker.stop()
    worker.join(10)

    assert [job.id for job in mail.page("ready").jobs] == [job.id for job in jobs]


def test_a_worker_that_lost_its_jobs_says_nothing_about_them(
    ps: penstock.Penstock, serve: Serve, gate: Gate
) -> None:
    worker = serve(gate.function, concurrency=2, heartbeat_ms=50)
    old_id = worker.id
    [job] = send(gate, ps, "stolen")
    wait_for(lambda: gate.came == ["stolen"])

    ps.fail_worker(old_id)

    wait_for(lambda: gate.came == ["stolen", "stolen"])
    gate.is_open.set()
    assert job.result(20) == "stolen"
    info = job.info()
    assert (info.crashes, info.lapses, info.failures) == (0, 1, 0)
    assert info.worker == worker.id
    assert worker.id != old_id
    assert [(a.number, a.outcome, a.worker) for a in job.attempts()] == [(1, "lapsed", old_id)]
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_a_worker_whose_lapse_a_peer_has_noted_corrects_that_it_lived(
    ps: penstock.Penstock, serve: Serve, gate: Gate
) -> None:
    worker = serve(gate.function, heartbeat_ms=50)
    [job] = send(gate, ps, "stolen")
    wait_for(lambda: gate.came == ["stolen"])

    ps.fail_worker(worker.id)

    wait_for(lambda: "had lapsed, but lived;" in said_of_attempt(job))
    gate.is_open.set()
    assert job.result(20) == "stolen"
    assert [(a.number, a.outcome) for a in job.attempts()] == [(1, "lapsed")]
    check_jobs(ps.store, ps.keys.queue("mail"))


def said_of_attempt(job: penstock.Job[Any]) -> str:
    """Why attempts that went wrong did."""
    return "".join(attempt.error.message for attempt in job.attempts() if attempt.error)


def test_a_paused_worker_starts_nothing_also_after_a_restart(
    ps: penstock.Penstock, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ant = serve(in_thread, name="ant", heartbeat_ms=50)
    bee = serve(in_thread, name="bee")

    ps.pause_worker("ant")
    wait_for(lambda: f"worker paused id={ant.id}" in caplog.text)
    assert workers_of(ps, 20) == {bee.id}

    ant.stop()
    ant.join()
    ant = serve(in_thread, name="ant", heartbeat_ms=50)
    assert workers_of(ps, 20) == {bee.id}

    bee.stop()
    bee.join()
    job = in_thread.on(ps).send("describe itself")
    ps.resume_worker("ant")
    job.result(20)
    assert job.info().worker == ant.id
    assert ps.paused_workers() == []


def workers_of(ps: penstock.Penstock, count: int) -> set[str]:
    """Who runs the next so many jobs."""
    jobs = in_thread.on(ps).send_many([("describe itself",)] * count)
    ps.wait(jobs, 20)
    return {job.info().worker for job in jobs}


def test_what_a_paused_worker_runs_goes_on(
    ps: penstock.Penstock, serve: Serve, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = serve(gate.function, name="ant", heartbeat_ms=50)
    running, waiting = send(gate, ps, "running", "waiting")
    wait_for(lambda: gate.came == ["running"])
    # It may have been claimed together with the other, and is then given back.
    wait_for(lambda: waiting.state == "ready")

    ps.pause_worker("ant")
    wait_for(lambda: f"worker paused id={worker.id}" in caplog.text)
    gate.is_open.set()

    assert running.result(20) == "running"
    assert waiting.state == "ready"
    ps.resume_worker("ant")
    assert waiting.result(20) == "waiting"
