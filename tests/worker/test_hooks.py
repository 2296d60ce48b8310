"""What a user has around the life of a worker, and around each job and task."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import InvalidArgument, JobFailed, LifespanFailed
from penstock.worker.handlers import collect_handlers
from tests.servers import wait_for
from tests.worker.job_kinds import ask_for_resources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.running_worker import RunningWorker


class Story:
    """What has happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def lifespans(self) -> dict[str, Callable[..., Any]]:
        @penstock.lifespan
        def plain() -> Iterator[str]:
            self.lines.append("start")
            yield "a pool"
            self.lines.append("end")

        @penstock.lifespan
        async def on_the_loop() -> AsyncIterator[str]:
            self.lines.append("start")
            yield "a pool"
            self.lines.append("end")

        @penstock.lifespan
        @asynccontextmanager
        async def manager() -> AsyncIterator[str]:
            self.lines.append("start")
            yield "a pool"
            self.lines.append("end")

        return {"plain": plain, "on_the_loop": on_the_loop, "manager": manager}

    def middleware(self, name: str) -> Callable[..., Any]:
        @penstock.middleware
        def around(context: Any) -> Iterator[None]:
            assert penstock.current() is context
            self.lines.append(f"{name} before {context.type}")
            try:
                yield
            except ValueError as error:
                self.lines.append(f"{name} saw {error}")
                raise
            self.lines.append(f"{name} after")

        return around


@pytest.fixture
def story() -> Story:
    return Story()


@penstock.job(queue="mail")
def use() -> str:
    return f"{penstock.current().resources} in a thread"


@penstock.job(queue="mail")
async def ause() -> str:
    return f"{penstock.current().resources} on the loop"


@penstock.job(queue="mail")
def fail() -> None:
    raise ValueError("no good")


@pytest.mark.parametrize("kind", ["plain", "on_the_loop", "manager"])
def test_what_a_lifespan_yields_is_there_for_jobs_and_it_ends_after_them(
    kind: str, mail: penstock.Jobs, serve: Callable[..., RunningWorker], story: Story
) -> None:
    may_end = threading.Event()

    @penstock.job(queue="mail")
    def last() -> None:
        story.lines.append("job begins")
        assert may_end.wait(20)
        story.lines.append("job ends")

    worker = serve(use, ause, last, story.lifespans()[kind], concurrency=2)
    assert mail.add("use").result(20) == "a pool in a thread"
    assert mail.add("ause").result(20) == "a pool on the loop"
    mail.add("last")
    wait_for(lambda: "job begins" in story.lines)

    worker.stop()
    may_end.set()
    worker.join()

    assert story.lines == ["start", "job begins", "job ends", "end"]


def test_a_plain_handler_has_the_resources_and_middleware_too(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker], story: Story
) -> None:
    @penstock.handler("mail")
    def handle(task: bytes, context: penstock.Context) -> None:
        story.lines.append(f"{task.decode()} with {context.resources}")

    @penstock.middleware
    def around(context: penstock.Context) -> Iterator[None]:
        story.lines.append(f"before {context.queue}")
        yield
        story.lines.append("after")

    queue.enqueue(b"greet")
    worker = start_worker(collect_handlers([handle, around, story.lifespans()["plain"]]))
    wait_for(lambda: queue.inspect().counters.finished == 1)
    worker.stop()
    worker.join()

    assert story.lines == ["start", "before mail", "greet with a pool", "after", "end"]


def test_a_lifespan_that_fails_at_the_start_ends_the_worker_before_it_is_one(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.lifespan
    def broken() -> Iterator[None]:
        raise ConnectionError("the database does not answer")
        yield

    worker = serve(use, broken)

    with pytest.raises(LifespanFailed, match=r"broken'.*failed at the start.*does not answer.*"):
        worker.join()
    worker.error = None
    assert ps.workers() == []


def test_a_lifespan_that_fails_at_the_end_is_told(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.lifespan
    async def broken() -> AsyncIterator[None]:
        yield
        raise ConnectionError("the database does not answer")

    worker = serve(use, broken)
    worker.stop()

    with pytest.raises(LifespanFailed, match="failed at the end of the worker"):
        worker.join()
    worker.error = None
    assert ps.workers() == []


def test_a_worker_has_one_lifespan(story: Story) -> None:
    lifespans = story.lifespans()

    with pytest.raises(InvalidArgument, match="two lifespan hooks"):
        collect_handlers([use, lifespans["plain"], lifespans["manager"]])


@pytest.mark.parametrize("mark", [penstock.lifespan, penstock.middleware])
def test_a_hook_without_a_yield_is_refused(mark: Callable[..., Any]) -> None:
    async def hook() -> None: ...

    with pytest.raises(InvalidArgument, match="has no yield"):
        mark(hook)


@pytest.mark.parametrize("name", ["use", "ause"])
def test_middleware_is_run_around_each_job_the_first_one_outermost(
    name: str, mail: penstock.Jobs, serve: Callable[..., RunningWorker], story: Story
) -> None:
    serve(use, ause, story.middleware("outer"), story.middleware("inner"))

    mail.add(name).result(20)

    assert story.lines == [
        *(f"outer before {name}", f"inner before {name}"),
        *("inner after", "outer after"),
    ]


def test_middleware_sees_what_a_job_raises(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker], story: Story
) -> None:
    serve(fail, story.middleware("it"))

    with pytest.raises(JobFailed, match="no good"):
        mail.add("fail").result(20)

    assert story.lines == ["it before fail", "it saw no good"]


def test_async_middleware_is_run_around_coroutines_alone(
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    story: Story,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @penstock.middleware
    async def around(context: Any) -> AsyncIterator[None]:
        story.lines.append(f"before {context.type}")
        yield

    serve(use, ause, around)
    mail.add("use").result(20)
    mail.add("ause").result(20)

    assert story.lines == ["before ause"]
    assert "async middleware is not run around plain functions" in caplog.text


@pytest.mark.parametrize("where", ["before", "after", "never yields"])
def test_an_error_of_middleware_is_a_failure_of_the_job(
    where: str, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.middleware
    @contextmanager
    def broken(context: Any) -> Iterator[None]:
        if where == "never yields":
            return
        if where == "before":
            raise RuntimeError("no session")
        yield
        raise RuntimeError("no session")

    worker = serve(use, broken)

    with pytest.raises(JobFailed, match="didn't yield" if where[0] == "n" else "no session"):
        mail.add("use").result(20)
    assert worker.is_running


def test_a_job_in_a_process_of_its_own_runs_without_both(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker], story: Story
) -> None:
    serve(ask_for_resources, story.middleware("it"), story.lifespans()["plain"])

    assert "make what it needs at the top of its module" in mail.add("ask for resources").result(20)

    assert story.lines == ["start"]
