"""Jobs that fail: what is kept of it, when they are tried again, and when never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import HandlerNotFound
from tests.servers import wait_for
from tests.worker.job_kinds import (
    EVERYWHERE,
    doomed_in_process,
    doomed_in_thread,
    in_process,
    in_thread,
    kill_own_process,
    leave_own_process,
    picky_in_process,
    picky_in_thread,
    renamed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.functions import JobFunction
    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]
    AnyJob = JobFunction[..., Any]

everywhere = pytest.mark.parametrize("function", EVERYWHERE, ids=lambda f: f.type)

FAILURES = [
    ("raise", "builtins.KeyError", "'no such thing'"),
    ("raise what cannot be said", "tests.worker.job_kinds.Unspeakable", "its text could not be"),
    ("exit", "builtins.SystemExit", "3"),
    ("return an object", "penstock.errors.Unserialisable", "the result cannot be written as JSON"),
    ("return nan", "penstock.errors.Unserialisable", "the result cannot be written as JSON"),
    ("return what breaks", "penstock.errors.Unserialisable", "RuntimeError was raised: the data"),
    ("ask half for a retry", "tests.worker.job_kinds.HalfRetry", ""),
    ("say that another was cancelled", "penstock.errors.JobCancelled", "job 7 was cancelled"),
    ("return too much", "penstock.errors.PayloadTooLarge", "the result is 2000003 bytes long"),
]


@everywhere
def test_a_job_that_fails_is_dead_and_says_why(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    jobs = [function.on(ps).send(how) for how, _, _ in FAILURES]
    good = function.on(ps).send("describe itself")

    for job, (_, type, message) in zip(jobs, FAILURES, strict=True):
        with pytest.raises(penstock.JobFailed, match=r"is dead \(failed\)"):
            job.result(20)
        info = job.info()
        assert (info.state, info.reason, info.failures) == ("dead", "failed", 1)
        assert info.error is not None
        assert info.error.type == type
        assert message in info.error.message
        [attempt] = job.attempts()
        assert (attempt.number, attempt.outcome, attempt.error) == (1, "failed", info.error)
    assert good.result(20), "the next job finds the worker in good health"


@everywhere
def test_the_traceback_of_a_failure_is_kept(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    job = function.on(ps).send("raise")

    with pytest.raises(penstock.JobFailed):
        job.result(20)

    error = job.info().error
    assert error is not None
    assert 'raise KeyError("no such thing")' in error.traceback


@everywhere
def test_every_attempt_is_kept_and_a_later_one_may_go_well(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)

    job = function.on(ps).options(attempts=5, backoff="none").send("fail in passing")

    assert job.result(20) == "fail in passing"
    info = job.info()
    assert (info.failures, info.attempts_made) == (2, 3)
    assert [(a.number, a.outcome) for a in job.attempts()] == [(1, "failed"), (2, "failed")]


@everywhere
def test_a_job_that_asks_for_it_is_tried_again_after_the_time_it_names(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)

    job = function.on(ps).options(attempts=3, backoff=3600).send("retry later")

    job.result(20)
    ends = [attempt.ended_at for attempt in job.attempts()]
    starts = [*(attempt.started_at for attempt in job.attempts()), job.info().started_at]
    for ended_at, next_at in zip(ends, starts[1:], strict=True):
        assert 0.05 <= round(next_at - ended_at, 3) < 5


@everywhere
def test_a_job_that_asks_for_another_attempt_and_has_none_is_dead_and_says_so(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    job = function.on(ps).options(attempts=2).send("retry later")

    with pytest.raises(penstock.JobFailed, match=r"no attempt was left \(attempts=2\)"):
        job.result(20)

    first, last = job.attempts()
    assert first.error and first.error.message == "the job asked for another attempt"
    assert last.error and "no attempt was left" in last.error.message


@everywhere
def test_a_job_that_rejects_itself_is_not_tried_again(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    job = function.on(ps).options(attempts=5, backoff="none").send("reject")

    with pytest.raises(penstock.JobFailed, match=r"is dead \(rejected\).*of no use"):
        job.result(20)

    assert (job.info().failures, len(job.attempts())) == (1, 1)


@pytest.mark.parametrize("function", [picky_in_thread, picky_in_process], ids=lambda f: f.type)
def test_only_what_is_worth_it_is_tried_again(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    passing = function.on(ps).send("fail in passing")
    other = function.on(ps).send("fail as nobody expected")

    passing.result(20)
    with pytest.raises(penstock.JobFailed, match="rejected"):
        other.result(20)

    assert (passing.info().failures, other.info().failures) == (2, 1)


@pytest.mark.parametrize("function", [doomed_in_thread, doomed_in_process], ids=lambda f: f.type)
def test_what_is_hopeless_is_not_tried_again(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)
    hopeless = function.on(ps).send("fail for good")
    other = function.on(ps).send("fail as nobody expected")

    with pytest.raises(penstock.JobFailed, match=r"\(rejected\).*never again"):
        hopeless.result(20)
    with pytest.raises(penstock.JobFailed, match=r"\(failed\)"):
        other.result(20)

    assert (hopeless.info().failures, other.info().failures) == (1, 2)


def test_a_named_backoff_says_how_long_to_wait(ps: penstock.Penstock, serve: Serve) -> None:
    asked: list[int] = []

    def patient(failures: int) -> float:
        asked.append(failures)
        return 0.02 * failures

    serve(in_thread, backoffs={"patient": patient})
    job = in_thread.on(ps).options(attempts=3, backoff="named:patient").send("fail in passing")

    job.result(20)
    assert asked == [1, 2]


def test_a_worker_is_given_named_backoffs_in_the_list_of_its_functions(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    asked: list[int] = []

    @penstock.backoff("patient")
    def patient(failures: int) -> float:
        asked.append(failures)
        return 0.02 * failures

    start_worker([in_thread, patient])
    job = in_thread.on(ps).options(attempts=3, backoff="named:patient").send("fail in passing")

    job.result(20)
    assert asked == [1, 2]


def test_two_backoffs_of_one_name_are_refused(ps: penstock.Penstock) -> None:
    first = penstock.backoff("patient")(lambda failures: 1.0)
    second = penstock.backoff("patient")(lambda failures: 2.0)

    with pytest.raises(HandlerNotFound, match="two backoffs of the name 'patient'; keep one"):
        penstock.Worker(ps.settings, [in_thread, first, second])


def test_a_function_without_a_mark_is_refused_with_all_that_it_could_be(
    ps: penstock.Penstock,
) -> None:
    def patient(failures: int) -> float:
        return 1.0

    with pytest.raises(
        HandlerNotFound,
        match=r"@penstock.job, @penstock.consumer\(log, group\) or @penstock.backoff\('name'\)",
    ):
        penstock.Worker(ps.settings, [in_thread, patient])


@pytest.mark.parametrize(
    "wait_s", [None, "soon", float("nan"), -1, ValueError("no idea"), SystemExit(1)], ids=repr
)
def test_a_backoff_that_makes_no_sense_does_not_lose_the_job(
    ps: penstock.Penstock, serve: Serve, wait_s: Any
) -> None:
    def confused(failures: int) -> float:
        if isinstance(wait_s, BaseException):
            raise wait_s
        return wait_s  # type: ignore[no-any-return]

    serve(in_thread, backoffs={"confused": confused})
    job = in_thread.on(ps).options(attempts=2, backoff="named:confused").send("raise")
    wait_for(lambda: job.info().failures)
    if job.state == "scheduled":
        job.promote()

    with pytest.raises(penstock.JobFailed):
        job.result(20)
    assert job.info().failures == 2


def test_a_backoff_that_the_worker_does_not_know_is_the_default(
    ps: penstock.Penstock, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    serve(in_thread)
    job = in_thread.on(ps).options(attempts=2, backoff="named:unheard").send("raise")

    wait_for(lambda: job.state == "scheduled")

    info = job.info()
    assert 0.5 <= round(info.due_at - info.updated_at, 3) <= 1.0
    assert "no backoff of this name" in caplog.text


def test_a_failed_job_waits_for_its_backoff(ps: penstock.Penstock, serve: Serve) -> None:
    serve(in_thread)
    job = in_thread.on(ps).options(attempts=2, backoff=penstock.fixed(3600)).send("raise")

    wait_for(lambda: job.state == "scheduled")

    info = job.info()
    assert round(info.due_at - info.updated_at, 3) == 3600
    job.promote()
    with pytest.raises(penstock.JobFailed):
        job.result(20)


def test_a_job_that_kills_its_process_three_times_is_poison(
    ps: penstock.Penstock, serve: Serve
) -> None:
    serve(kill_own_process, in_process)
    job = kill_own_process.on(ps).options(attempts=10).send()
    neighbours = [in_process.on(ps).send("describe itself") for _ in range(3)]

    with pytest.raises(penstock.JobFailed, match=r"is dead \(poison\)"):
        job.result(30)

    info = job.info()
    assert (info.crashes, info.failures) == (3, 0)
    assert info.error is not None
    assert info.error.type == "penstock.errors.JobCrashed"
    assert "ended by signal 9 (SIGKILL), peak memory " in info.error.message
    assert [(a.number, a.outcome) for a in job.attempts()] == [(n, "crashed") for n in (1, 2, 3)]
    for neighbour in neighbours:
        assert neighbour.result(20)


def test_a_child_process_finds_a_function_by_the_name_that_its_module_gave_it(
    ps: penstock.Penstock, serve: Serve
) -> None:
    serve(renamed)

    assert renamed.on(ps).send("describe itself").result(20)["type"] == "renamed"


def test_a_job_that_leaves_its_process_says_how(ps: penstock.Penstock, serve: Serve) -> None:
    serve(leave_own_process)

    with pytest.raises(penstock.JobFailed, match=r"\(poison\).*ended by exit status 7"):
        leave_own_process.on(ps).send().result(30)


def test_a_job_that_may_run_once_at_most_is_dead_after_one_crash(
    ps: penstock.Penstock, serve: Serve
) -> None:
    serve(kill_own_process)
    job = kill_own_process.on(ps).options(at_most_once=True).send()

    with pytest.raises(penstock.JobFailed, match=r"is dead \(lost\)"):
        job.result(20)

    assert job.info().crashes == 1
