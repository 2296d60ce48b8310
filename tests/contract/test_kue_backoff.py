"""What Kue's own tests promise of backoff and logs: statements 17 to 22 of seed-systems 3.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker


def runs_of(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker], runs: int, **options: Any
) -> list[float]:
    """Let a job fail until run `runs`; returns the seconds between each failure and the next."""

    @penstock.job(queue="mail", type="flaky", attempts=runs, **options)
    def flaky() -> int:
        attempt = penstock.current().attempt
        if attempt < runs:
            raise ValueError(f"run {attempt}")
        return attempt

    serve(flaky, backoffs={"linear": lambda failures: 0.01 * failures})
    job = flaky.on(ps).send()
    assert job.result(20) == runs
    attempts = job.attempts()
    starts = [attempt.started_at for attempt in attempts[1:]] + [job.info().started_at]
    return [
        round(start - attempt.ended_at, 3) for start, attempt in zip(starts, attempts, strict=True)
    ]


def test_17_a_backoff_can_repeat_the_delay(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    waits = runs_of(ps, serve, 3, delay=0.03, backoff=0.03)

    assert all(0.03 <= wait < 5 for wait in waits)


def test_18_an_exponential_backoff_grows(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    waits = runs_of(ps, serve, 4, backoff=penstock.exponential(0.02, jitter=0))

    assert [wait >= least for wait, least in zip(waits, (0.02, 0.04, 0.08), strict=True)] == [
        *(True, True, True)
    ]


def test_19_a_backoff_is_bounded(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    waits = runs_of(ps, serve, 6, backoff=penstock.exponential(0.01, cap_s=0.02, jitter=0))

    # Without the bound, the last one would be 0.16 s.
    assert waits[0] >= 0.01
    assert min(waits[1:]) < 0.16


def test_20_a_backoff_can_be_ones_own(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    waits = runs_of(ps, serve, 3, backoff="named:linear")

    assert [wait >= least for wait, least in zip(waits, (0.01, 0.02), strict=True)] == [True, True]


@penstock.job(queue="mail", type="talk")
def talk() -> None:
    job = penstock.current()
    job.log("this is log number %d of %s", 1, "many")
    for value in (None, {"text": [1]}, ValueError("oops"), ["a"], 3.14, True):
        job.log(value)


def test_21_a_log_line_is_formatted_as_by_printf(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(talk)
    job = talk.on(ps).send()

    job.result(20)

    assert job.log()[0][1] == "this is log number 1 of many"


def test_22_anything_can_be_logged(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(talk)
    job = talk.on(ps).send()

    job.result(20)

    lines = [text for _, text in job.log(offset=1)]
    assert lines == ["None", "{'text': [1]}", "oops", "['a']", "3.14", "True"]
