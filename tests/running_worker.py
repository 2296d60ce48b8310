"""A real worker in a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.worker.worker import Worker
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.connection.settings import Settings
    from penstock.worker.feed import Feed
    from penstock.worker.handlers import Handlers
    from penstock.worker.pump import Pump


@contextmanager
def stopped_in_the_end() -> Iterator[list[RunningWorker]]:
    """Whatever is put in this list is stopped and waited for."""
    started: list[RunningWorker] = []
    try:
        yield started
    finally:
        for worker in started:
            worker.stop()
            worker.stop()
        for worker in started:
            worker.join()


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
    def pump(self) -> Pump:
        """What serves its only queue. It comes a moment after the id, by which a worker is found to
        have started.
        """
        worker = self.worker
        assert worker is not None
        wait_for(lambda: self.error or worker.serving.pumps)
        [pump] = worker.serving.pumps
        return pump

    @property
    def feed(self) -> Feed:
        """What is known of its only queue."""
        return self.pump.feed

    @property
    def handoff(self) -> Any:
        """Where a thread of it waits for jobs."""
        assert self.worker is not None and self.pump is not None
        return self.worker.serving.handoff

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
