"""The client for tests: a namespace that is deleted afterwards, on a clock that stands still."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from penstock.client.client import Penstock
from penstock.client.default import replace_default_clients
from penstock.connection.address import parse_url
from penstock.connection.settings import Settings
from penstock.errors import InvalidArgument, InvalidUrl
from penstock.store.script import SIMULATED
from penstock.testing.async_client import LIMIT, AsyncTestPenstock
from penstock.testing.clock import VirtualClock
from penstock.testing.faults import Faults, LossyRouter
from penstock.testing.inline import drive

if TYPE_CHECKING:
    import contextvars
    from datetime import datetime
    from types import ModuleType

    from penstock.client.client import AsyncPenstock
    from penstock.model.job_options import Seconds
    from penstock.model.jobs import JobInfo
    from penstock.testing.async_client import Call, Type
    from penstock.testing.faults import Point, Victim
    from penstock.testing.functions import Runnable
    from penstock.testing.run import RunSummary
    from penstock.testing.worker import Settled, Start

_RETRY_FOR_S = 5.0
_PAGE = 1000


class TestPenstock(Penstock):
    """A client with a namespace of its own, on a clock that stands still until it is moved.

    From `open` to `close` it is what `.send()` and `.asend()` use. `close` deletes the namespace.
    """

    __test__ = False  # pytest, this is no test

    def __init__(
        self, url: str, *, namespace: str | None = None, module: ModuleType | None = None
    ) -> None:
        """`module` is the one whose functions run if none are named."""
        super().__init__(_settings(url, namespace))
        self._faults = Faults()
        settings = self.settings
        self.store.router = LossyRouter(settings.address, settings.timeout_s, self._faults)
        self._clock = VirtualClock(self.store, self.keys)
        self.async_client = AsyncTestPenstock(self, self._clock, self._faults, module)
        """the same for coroutines; belongs to no event loop"""
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._was_default: tuple[Penstock, AsyncPenstock] | None = None
        self._is_open = False

    def open(self) -> TestPenstock:
        super().open()
        self._clock.start()
        self._was_default = replace_default_clients((self, self.async_client))
        self._is_open = True
        return self

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            replace_default_clients(self._was_default)
            self._runner.close()
            self._delete_namespace()
        self.async_client.results.close()
        super().close()

    def __enter__(self) -> TestPenstock:
        return self

    @property
    def resources(self) -> Any:
        """What jobs find as `penstock.current().resources`; no lifespan is run here."""
        return self.async_client.resources

    @resources.setter
    def resources(self, resources: Any) -> None:
        self.async_client.resources = resources

    @property
    def now(self) -> datetime:
        """The time, in UTC, for everything that penstock does."""
        return self.async_client.now

    def advance(self, seconds: Seconds) -> datetime:
        """Move the clock forward; nothing runs by that alone. Returns the time."""
        return drive(self.async_client.advance(seconds))

    def set_clock(self, when: datetime) -> datetime:
        """Set the clock. Back is only good as long as nothing has been sent."""
        return drive(self.async_client.set_clock(when))

    def register(self, *items: Runnable) -> None:
        """Name functions, or modules with functions, for every `run_all` that names none."""
        self.async_client.register(*items)

    def run_all(
        self,
        *items: Runnable,
        until: Seconds | None = None,
        limit: int = LIMIT,
        raise_errors: bool = False,
    ) -> RunSummary:
        """Run everything that is due, then move the clock to what is due next, and so on: delays,
        retries, schedules, rate limits, leases of workers that have died. Ends when nothing is left
        to wait for, or `until` so many seconds from now, where the clock stands then.

        Runs the functions that are named, or are in the modules that are named; if none is, those
        of `register` and those in the module of the test. Jobs without a function stay. Functions
        run here, in this thread, one at a time; coroutine functions on an event loop of this
        client.

        With `raise_errors`, the first error of a job (other than Retry) is raised, after it was
        reported. Raises RunTooLong after `limit` attempts.
        """
        return drive(self.async_client._run_all(items, until, limit, raise_errors, self._complete))

    def sent(self, type: Type | None = None) -> list[JobInfo]:
        """All jobs, in whatever state, of any queue, in the order in which they were sent."""
        return drive(self.async_client.sent(type))

    def pending(self, type: Type | None = None) -> list[JobInfo]:
        """Those that have not come to their end."""
        return drive(self.async_client.pending(type))

    def calls(self, function: Type) -> list[Call]:
        """With which arguments a function was sent, whatever has become of it."""
        return drive(self.async_client.calls(function))

    def crash(self, victim: Victim, at: Point = "start", times: int = 1) -> None:
        """Let the worker die when it runs this job, or the next one of this function or type:
        before the function runs, or after it has run and before that is reported. When the lease
        of the dead worker has run out, another gives the job back.
        """
        self.async_client.crash(victim, at, times)

    def lose_reply(self, script: str, times: int = 1) -> None:
        """Let the reply to the next request of this kind get lost, so that it is sent again:
        `send_jobs`, `start_jobs`, `report_jobs` or any other script in `penstock/store/scripts`.
        """
        self.async_client.lose_reply(script, times)

    async def _complete(self, start: Start, surroundings: contextvars.Context) -> Settled:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise InvalidArgument(
                "an event loop runs already, so run_all cannot run a coroutine function on one of "
                "its own; use the fixture apenstock: await apenstock.run_all()"
            )
        try:
            return self._runner.run(start(), context=surroundings)
        except asyncio.CancelledError as error:
            return None, error

    def _delete_namespace(self) -> None:
        cursor: bytes | str = "0"
        while True:
            question = ("SCAN", cursor, "MATCH", self.keys.pattern, "COUNT", _PAGE)
            cursor, found = self.store.call(self.keys.workers, *question)
            if found:
                self.store.call(self.keys.workers, "UNLINK", *found)
            if cursor == b"0":
                break
        self._clock.remove()


def _settings(url: str, namespace: str | None) -> Settings:
    address = parse_url(url)
    if address.topology != "single":
        raise InvalidUrl(
            f"tests need a server of its own for their clock, and {url!r} is a {address.topology}; "
            "give redis:// or unix://, or nothing for a private server"
        )
    namespace = namespace or f"test-{secrets.token_hex(6)}"
    return Settings(address, namespace, retry_for_s=_RETRY_FOR_S, dialect=SIMULATED)
