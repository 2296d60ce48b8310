"""Workers in a thread of the test, with handlers that the test controls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.connect import find_settings
from penstock.worker.handlers import Handlers, collect_handlers
from tests.running_worker import RunningWorker, stopped_in_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.client.functions import JobFunction
    from tests.servers import RedisServer


StartWorker = "Callable[..., RunningWorker]"


@pytest.fixture
def start_worker(server: RedisServer, namespace: str) -> Iterator[Callable[..., RunningWorker]]:
    """Start workers on the shared server; they are stopped when the test ends."""

    def start(
        handlers: Handlers | dict[str, Callable[..., Any]],
        url: str | None = None,
        **options: Any,
    ) -> RunningWorker:
        settings = find_settings(url or server.url, namespace)
        worker = RunningWorker(settings, handlers, **options)
        started.append(worker)
        return worker.start()

    with stopped_in_the_end() as started:
        yield start


@pytest.fixture
def serve(start_worker: Callable[..., RunningWorker]) -> Callable[..., RunningWorker]:
    """Start workers that run job functions; named backoffs can be given."""

    def start(
        *functions: JobFunction[..., Any],
        backoffs: dict[str, Callable[[int], float]] | None = None,
        **options: Any,
    ) -> RunningWorker:
        handlers = collect_handlers(functions)._replace(backoffs=backoffs or {})
        return start_worker(handlers, **options)

    return start


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    """The queue of jobs that most tests use."""
    return ps.jobs("mail")


class Recorder:
    """A handler that notes what it got and can be held up."""

    def __init__(self) -> None:
        self.tasks: list[bytes] = []
        self.contexts: list[penstock.Context] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, task: bytes, context: penstock.Context) -> None:
        self.tasks.append(task)
        self.contexts.append(context)
        assert self.may_go_on.wait(30)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.may_go_on.set()
