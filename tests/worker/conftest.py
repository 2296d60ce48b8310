"""Workers in a thread of the test, with handlers that the test controls."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.connect import find_settings
from penstock.worker.handlers import Handlers, collect_handlers
from penstock.worker.worker import Worker
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.client.functions import JobFunction
    from penstock.client.settings import Settings
    from tests.servers import RedisServer


class RunningWorker:
    """A worker on an event loop in a thread of its own."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers | dict[str, Callable[..., Any]],
        **options: Any,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run)
        self.error: BaseException | None = None
        self.worker: Worker | None = None

    def start(self) -> RunningWorker:
        self._thread.start()
        wait_for(lambda: self.error or (self.worker and self.worker.id))
        return self

    @property
    def id(self) -> str:
        assert self.worker is not None
        return self.worker.id

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """As the first SIGTERM does, and the second if it is called again."""
        if self._loop is not None and self.worker is not None and self.is_running:
            self._loop.call_soon_threadsafe(self.worker.stop)

    def join(self, timeout_s: float = 20.0) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the worker did not end"
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self.worker = Worker(self._settings, self._handlers, **self._options)
            await self.worker.run()

        try:
            asyncio.run(main())
        except BaseException as error:
            self.error = error


StartWorker = "Callable[..., RunningWorker]"


@pytest.fixture
def start_worker(server: RedisServer, namespace: str) -> Iterator[Callable[..., RunningWorker]]:
    """Start workers on the shared server; they are stopped when the test ends."""
    started: list[RunningWorker] = []

    def start(
        handlers: Handlers | dict[str, Callable[..., Any]],
        url: str | None = None,
        **options: Any,
    ) -> RunningWorker:
        settings = find_settings(url or server.url, namespace)
        worker = RunningWorker(settings, handlers, **options)
        started.append(worker)
        return worker.start()

    yield start
    for worker in started:
        worker.stop()
        worker.stop()
    for worker in started:
        worker.join()


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
