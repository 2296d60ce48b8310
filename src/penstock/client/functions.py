"""Functions as jobs: decorate, send, and still call."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import replace
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from penstock.client.current import begin_job
from penstock.client.sending import Bound, C, Sending
from penstock.client.signatures import Signature
from penstock.codec.failures import describe
from penstock.codec.progress import pack_progress
from penstock.codec.values import pack_result
from penstock.errors import InvalidArgument, JobCancelled, NoResources
from penstock.model.job_options import JobOptions, JobSettings, check_switch, make_options
from penstock.model.jobs import make_progress
from penstock.model.names import check_name
from penstock.model.retries import Retry, RetryRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from penstock.client._async.job import AsyncJob
    from penstock.client._sync.job import Job
    from penstock.client.current import RunningJob

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE = "default"
Exceptions = tuple[type[BaseException], ...]


class JobFunction(Generic[P, R]):
    """A function that can be sent as a job. Calling it just calls it."""

    def __init__(
        self,
        function: Callable[..., Any],
        queue: str,
        type: str,
        settings: JobSettings,
        rules: RetryRules,
        in_process: bool,
        takes_bytes: bool,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.signature = Signature(function, type, takes_bytes)
        self.queue = queue
        self.type = type
        self.rules = rules
        self.in_process = in_process
        self.is_async = inspect.iscoroutinefunction(function)
        self.in_thread = not in_process and not self.is_async
        self._sending: Sending[P, R] = Sending(self, settings)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __str__(self) -> str:
        return f"job {self.type!r}"

    def __repr__(self) -> str:
        return f"<job {self.type!r} of queue {self.queue!r}>"

    @cached_property
    def path(self) -> str:
        """How a child process finds it."""
        return path_of(self, self.function)

    def options(self, **settings: Unpack[JobSettings]) -> Sending[P, R]:
        """The same with other options for what is sent next."""
        return self._sending.options(**settings)

    def on(self, client: C) -> Bound[P, R, C]:
        """The same, sent by a client that you name; methods of an async one are to be awaited."""
        return Bound(self._sending, client)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Send a call, by the default client (`PENSTOCK_URL`, else the private server)."""
        return self._sending.send(*args, **kwargs)

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJob[R]:
        """The same on an event loop."""
        return await self._sending.asend(*args, **kwargs)

    def send_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Job[R]]:
        """Send many calls, each a sequence of positional or a mapping of named arguments."""
        return self._sending.send_many(calls)

    def make_options(self, settings: JobSettings) -> JobOptions:
        """Check options; paths to search also find arguments that are given by position."""
        options = make_options(self.type, settings)
        if isinstance(options.search, bool):
            return options
        return replace(options, search=_search_paths(self.function, options.search))

    # For schedules and workers:

    def settings_in(self, queue: str, given: JobSettings) -> JobSettings:
        """Its options, with those given beside them, for a schedule of that queue."""
        if queue != self.queue:
            raise InvalidArgument(
                f"job {self.type!r} belongs to queue {self.queue!r}, so a schedule of queue "
                f"{queue!r} cannot send it; add it to schedules({self.queue!r})"
            )
        settings: JobSettings = {**self._sending.settings, **given}
        search = self.make_options(settings).search
        return settings if isinstance(search, bool) else {**settings, "search": search}

    def run_in_child(self, data: bytes, context: RunningJob) -> bytes:
        """The encoded result. What the function raises is judged here, where its class is known."""
        job = _ChildJob(context)
        try:
            args, kwargs = self.signature.open(data)
            begin_job(job)
            value = self.function(*args, **kwargs)
            if not job.has_seen_cancel:
                return pack_result(value)
        except BaseException as error:
            judgement = judge(error, self.rules)
            if judgement == Judgement():
                raise
            return VERDICT + json.dumps([*judgement, *describe(error)]).encode()
        raise JobCancelled("the job saw that it was cancelled, and returned")


def path_of(value: object, function: Callable[..., Any]) -> str:
    """Where a child process finds what a function has become: by the function's own name, or the
    one that its module gave it.
    """
    module, name = function.__module__, function.__qualname__
    known = vars(sys.modules[module]) if module in sys.modules else {}
    if known.get(name) is not value:
        name = next((other for other, it in known.items() if it is value), name)
    return f"{module}:{name}"


def run_job(data: bytes, context: Any) -> Any:
    """Call the function of a context with the arguments in `data`; a coroutine if it is async."""
    args, kwargs = context.function.signature.open(data)
    begin_job(context)
    return context.function.function(*args, **kwargs)


def _search_paths(function: Callable[..., Any], paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths, and where each leads if its argument is given by position."""
    parameters = inspect.signature(function).parameters.values()
    names = [
        it.name for it in parameters if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)
    ]
    found = list(paths)
    for path in paths:
        name, *rest = path.split(".")
        if name in names:
            found.append(".".join(["0", str(names.index(name)), *rest]))
    return tuple(found)


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(function: Callable[P, Awaitable[R]], /) -> JobFunction[P, R]: ...
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(
    *,
    queue: str = ...,
    type: str | None = ...,
    retry_on: Exceptions = ...,
    dead_on: Exceptions = ...,
    process: bool = ...,
    raw: bool = ...,
    **settings: Unpack[JobSettings],
) -> _Decorator: ...
def job(
    function: Any = None,
    /,
    *,
    queue: str = DEFAULT_QUEUE,
    type: str | None = None,
    retry_on: Exceptions = (),
    dead_on: Exceptions = (),
    process: bool = False,
    raw: bool = False,
    **settings: Unpack[JobSettings],
) -> Any:
    """Make a function or coroutine function a job.

    `queue` is where it is sent, `type` what it is called there (its own name if none is given).
    `retry_on` and `dead_on` say after which exceptions it is tried again, and after which never;
    without them it is after any. With `process` it runs in a process of its own, which can be
    ended when it takes too long or is cancelled. With `raw` its one argument is the data of the
    job, as bytes. The other options are those of `send`, and can be changed there: attempts,
    backoff, timeout, priority, delay, expires, tenant, tags, unique, ...
    """
    check_name("queue", queue)
    if "id" in settings:
        raise InvalidArgument("an id is for one job; give it where that is sent, with options(id=)")

    def decorate(function: Any) -> JobFunction[Any, Any]:
        if not callable(function) or not hasattr(function, "__name__"):
            raise InvalidArgument(
                f"@penstock.job decorates a function, not {function!r}; options are given by "
                "name, as in @penstock.job(queue='mail')"
            )
        if process and inspect.iscoroutinefunction(function):
            raise InvalidArgument(
                f"{function.__name__!r} is a coroutine function, which runs on the worker's event "
                "loop; leave out process=True, or make it a plain function"
            )
        check_switch("process", process)
        check_switch("raw", raw)
        name = function.__name__ if type is None else type
        rules = RetryRules(retry_on, dead_on)
        return JobFunction(function, queue, name, settings, rules, process, raw)

    return decorate if function is None else decorate(function)


VERDICT = b"!"
"""Begins the bytes that a child process sends instead of a result."""


class Judgement(NamedTuple):
    """What follows from an exception, beside that the attempt has failed."""

    is_final: bool = False
    after_ms: int | None = None
    reason: str = ""


def judge(error: BaseException, rules: RetryRules) -> Judgement:
    """Whether a job is tried again after this exception, and when."""
    if isinstance(error, Retry):
        return Judgement(after_ms=error.after_ms)
    if rules.is_final(error):
        return Judgement(is_final=True, reason="rejected")
    return Judgement()


class _ChildJob:
    """The context of a job in a child process, as `current()` promises it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.job: str = context.job
        self.type: str = context.type
        self.queue: str = context.queue
        self.attempt: int = context.attempt
        self.token: int = context.token
        self.has_seen_cancel = False

    @property
    def cancelled(self) -> bool:
        self.has_seen_cancel = bool(self._context.cancelled)
        return self.has_seen_cancel

    @property
    def resources(self) -> Any:
        raise NoResources(
            "what the lifespan hook of a worker yields stays in the worker's process, and this job "
            "has one of its own (process=True); make what it needs at the top of its module"
        )

    def progress(self, done: float, total: float = 100, data: Any = None) -> None:
        # Packed here to be refused where the function reports it.
        pack_progress(make_progress(done, total, data))
        self._context.progress([done, total, data])

    def log(self, message: object, *values: object) -> None:
        self._context.log(str(message) % values if values else str(message))
