"""Jobs that a worker runs: where they run, what they return and what they say on the way."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.values import open_result
from tests.contract.conftest import Ear
from tests.servers import wait_for
from tests.worker.job_kinds import EVERYWHERE, in_coroutine, in_process, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.functions import JobFunction
    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]
    AnyJob = JobFunction[..., Any]

everywhere = pytest.mark.parametrize("function", EVERYWHERE, ids=lambda f: f.type)


@everywhere
def test_a_function_is_told_which_job_it_runs(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)

    job = function.on(ps).send("describe itself")

    assert job.result(20) == {
        "job": job.id,
        "type": function.type,
        "queue": "mail",
        "attempt": 1,
    }
    info = job.info()
    assert (info.state, info.attempts_made, info.error) == ("done", 1, None)


def test_jobs_of_all_kinds_run_side_by_side_in_one_worker(
    ps: penstock.Penstock, serve: Serve
) -> None:
    serve(*EVERYWHERE, concurrency=3)

    jobs = [function.on(ps).send("describe itself") for function in EVERYWHERE for _ in range(5)]

    types = [job.result(20)["type"] for job in jobs]
    assert types == ["thread"] * 5 + ["coroutine"] * 5 + ["process"] * 5


@pytest.mark.parametrize(
    "value", [None, True, 0, "", [], {}, b"", b"\x00\xff", {"a": [1, 2.5, "é", None]}], ids=repr
)
def test_a_result_comes_back_as_it_was_returned(
    ps: penstock.Penstock, serve: Serve, value: object
) -> None:
    @penstock.job(queue="mail")
    def answer() -> object:
        return value

    serve(answer)

    assert answer.on(ps).send().result(20) == value


def test_arguments_arrive_as_they_were_sent(mail: penstock.Jobs, serve: Serve) -> None:
    @penstock.job(queue="mail")
    def describe(a: object = 0, *rest: object, b: object = 0) -> list[object]:
        return [a, list(rest), b]

    serve(describe)

    assert describe.on(mail._client).send([1], "x", b={"c": None}).result(20) == [
        [1],
        ["x"],
        {"c": None},
    ]
    assert mail.add("describe", {"b": 2}).result(20) == [0, [], 2]
    assert mail.add("describe", [[1, 2]]).result(20) == [1, [2], 0]
    assert mail.add("describe").result(20) == [0, [], 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"unknown": 1}, "unexpected keyword argument 'unknown'"),
        (b"not json", "is not JSON"),
        ("text", "is no call"),
    ],
)
def test_data_that_does_not_fit_the_function_fails_the_job(
    mail: penstock.Jobs, serve: Serve, data: object, message: str
) -> None:
    @penstock.job(queue="mail")
    def answer() -> None:
        pass

    serve(answer)

    with pytest.raises(penstock.JobFailed, match=message):
        mail.add("answer", data).result(20)


@everywhere
def test_what_a_job_says_is_written_down_in_order_and_the_last_progress_counts(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    job = function.on(ps).send("talk")
    ear = Ear(ps, ps.keys.queue("mail").events)

    serve(function)
    job.result(20)

    assert [line for _, line in job.log()] == [f"line {number}" for number in range(100)]
    progress = job.progress
    assert progress is not None
    assert (progress.percent, progress.data) == (100.0, {"step": 99})
    told = [event for event in ear.hear_the_rest() if event.startswith(b"\x08progress")]
    assert 1 <= len(told) < 20, "what is said in quick succession is written down together"
    ear.close()


def test_progress_can_be_seen_while_the_job_runs(ps: penstock.Penstock, serve: Serve) -> None:
    may_go_on = threading.Event()

    @penstock.job(queue="mail")
    def climb() -> None:
        penstock.current().progress(1, 4, "first camp")
        penstock.current().log("resting")
        assert may_go_on.wait(20)

    serve(climb)
    job = climb.on(ps).send()

    wait_for(lambda: job.progress is not None and job.log())
    info = job.info()
    assert info.state == "running"
    assert info.progress is not None
    assert (info.progress.percent, info.progress.data) == (25.0, "first camp")
    may_go_on.set()
    job.result(20)


def test_no_line_is_lost_of_a_job_that_never_stops_talking(
    ps: penstock.Penstock, serve: Serve
) -> None:
    @penstock.job(queue="mail")
    def chatter() -> None:
        pause = threading.Event()
        for number in range(900):
            penstock.current().log("%s %d", "x" * 1000, number)
            pause.wait(0.0002)

    serve(chatter)
    job = chatter.on(ps).send()
    job.result(20)

    assert [line.split()[1] for _, line in job.log()] == [str(number) for number in range(900)]


@everywhere
def test_nonsense_said_about_progress_fails_the_job(
    ps: penstock.Penstock, serve: Serve, function: AnyJob
) -> None:
    serve(function)

    with pytest.raises(penstock.JobFailed, match="progress is nan of 100; give two numbers"):
        function.on(ps).send("report nonsense").result(20)
    with pytest.raises(penstock.JobFailed, match="the data of the progress is 70009 bytes long"):
        function.on(ps).send("report too much").result(20)


def test_what_a_job_is_told_does_not_reach_the_next_one_in_the_same_thread(
    ps: penstock.Penstock, serve: Serve
) -> None:
    seen: list[str] = []

    @penstock.job(queue="mail")
    def look() -> None:
        seen.append(penstock.current().job)

    serve(look)
    jobs = [look.on(ps).send() for _ in range(20)]

    ps.wait(jobs, 20)
    assert seen == [job.id for job in jobs]


def test_coroutines_run_at_once_and_each_knows_its_own_job(
    ps: penstock.Penstock, serve: Serve
) -> None:
    inside: set[str] = set()
    all_inside = asyncio.Event()

    @penstock.job(queue="mail")
    async def meet() -> str:
        inside.add(penstock.current().job)
        if len(inside) == 5:
            all_inside.set()
        await all_inside.wait()
        return penstock.current().job

    serve(meet, concurrency=5)
    jobs = [meet.on(ps).send() for _ in range(5)]

    assert [job.result(20) for job in jobs] == [job.id for job in jobs]


def test_a_job_sends_jobs_and_waits_for_nobody(ps: penstock.Penstock, serve: Serve) -> None:
    @penstock.job(queue="mail")
    def count_down(number: int) -> str:
        return count_down.on(ps).send(number - 1).id if number else "landed"

    serve(count_down)
    job = count_down.on(ps).send(3)
    for _ in range(3):
        job = ps.job(job.result(20), "mail")

    assert job.result(20) == "landed"


def test_what_an_attempt_took_is_in_the_history(ps: penstock.Penstock, serve: Serve) -> None:
    serve(in_thread, in_coroutine, in_process)
    jobs = {function.type: function.on(ps).send("describe itself") for function in EVERYWHERE}
    ps.wait(jobs.values(), 20)

    found = {entry.type: entry for entry in ps.jobs("mail").history()}

    assert {type: entry.job for type, entry in found.items()} == {t: j.id for t, j in jobs.items()}
    assert {entry.outcome for entry in found.values()} == {"done"}
    assert all(entry.ran_us > 0 for entry in found.values())
    assert found["process"].cpu_us > 0
    assert open_result(jobs["thread"].info().outcome)["type"] == "thread"
