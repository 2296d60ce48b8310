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

from penstock.client.batches import check_items
from penstock.client.current import begin_job
from penstock.client.default import default_async_client, default_client
from penstock.codec.failures import describe
from penstock.codec.progress import pack_progress
from penstock.codec.values import open_call, pack_call, pack_result
from penstock.errors import InvalidArgument, JobCancelled
from penstock.model.job_options import JobOptions, JobSettings, check_switch, make_options
from penstock.model.jobs import make_progress
from penstock.model.names import check_name
from penstock.model.retries import Retry, RetryRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from penstock.client._async.client import AsyncPenstock
    from penstock.client._async.job import AsyncJob
    from penstock.client._sync.client import Penstock
    from penstock.client._sync.job import Job
    from penstock.client.current import RunningJob

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Call = "Sequence[Any] | Mapping[str, Any]"
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
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.queue = queue
        self.type = type
        self.rules = rules
        self.in_process = in_process
        self.is_async = inspect.iscoroutinefunction(function)
        self.in_thread = not in_process and not self.is_async
        self._sending: Sending[P, R] = Sending(self, settings)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.type!r} of queue {self.queue!r}>"

    @cached_property
    def path(self) -> str:
        """How a child process finds it: by its own name, or the one that its module gave it."""
        module, name = self.function.__module__, self.function.__qualname__
        known = vars(sys.modules[module]) if module in sys.modules else {}
        if known.get(name) is not self:
            name = next((other for other, value in known.items() if value is self), name)
        return f"{module}:{name}"

    @cached_property
    def signature(self) -> str:
        """How it is to be called."""
        return f"{self.function.__qualname__}{inspect.signature(self.function)}"

    @cached_property
    def accepts(self) -> Callable[..., None]:
        """Takes the same arguments, and does nothing: so Python itself says what is wrong with a
        call, in no time. To bind them to the signature would take as long as sending a job.
        """
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except ValueError:  # as of some that are written in C
            return lambda *_, **__: None
        accepts: Callable[..., None] = eval(f"lambda {_written(parameters)}: None")
        accepts.__qualname__ = self.function.__qualname__
        return accepts

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

    def _make_options(self, settings: JobSettings) -> JobOptions:
        options = make_options(self.type, settings)
        if isinstance(options.search, bool):
            return options
        return replace(options, search=_search_paths(self.function, options.search))

    # What follows is for schedules and workers.

    def settings_in(self, queue: str, given: JobSettings) -> JobSettings:
        """Its options, with those given beside them, for a schedule of that queue."""
        if queue != self.queue:
            raise InvalidArgument(
                f"job {self.type!r} belongs to queue {self.queue!r}, so a schedule of queue "
                f"{queue!r} cannot send it; add it to schedules({self.queue!r})"
            )
        settings: JobSettings = {**self._sending.settings, **given}
        search = self._make_options(settings).search
        return settings if isinstance(search, bool) else {**settings, "search": search}

    def check_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Refuse arguments that it cannot take."""
        try:
            self.accepts(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(
                f"{error}; the job would fail whenever it is run, so call it as {self.signature}"
            ) from None

    def run_in_child(self, data: bytes, context: RunningJob) -> bytes:
        """The encoded result. What the function raises is judged here, where its class is known."""
        job = _ChildJob(context)
        try:
            args, kwargs = open_call(data)
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


def run_job(data: bytes, context: Any) -> Any:
    """Call the function of a context with the arguments in `data`; a coroutine if it is async."""
    args, kwargs = open_call(data)
    begin_job(context)
    return context.function.function(*args, **kwargs)


def _written(parameters: Iterable[inspect.Parameter]) -> str:
    """Parameters as in the head of a function, without annotations, and None for all defaults."""
    parts: list[str] = []
    before = None
    for it in parameters:
        if before is it.POSITIONAL_ONLY and it.kind is not it.POSITIONAL_ONLY:
            parts.append("/")
        if it.kind is it.KEYWORD_ONLY and before not in (it.KEYWORD_ONLY, it.VAR_POSITIONAL):
            parts.append("*")
        stars = "*" * ((it.kind is it.VAR_POSITIONAL) + 2 * (it.kind is it.VAR_KEYWORD))
        parts.append(stars + it.name + ("" if it.default is it.empty else "=None"))
        before = it.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return ", ".join(parts)


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


class Sending(Generic[P, R]):
    """A function with options, by the default client."""

    def __init__(self, function: JobFunction[P, R], settings: JobSettings) -> None:
        self.function = function
        self.settings = settings
        self._options = function._make_options(settings)

    def options(self, **settings: Unpack[JobSettings]) -> Sending[P, R]:
        """The same with some options changed."""
        return Sending(self.function, {**self.settings, **settings})

    def on(self, client: C) -> Bound[P, R, C]:
        return Bound(self, client)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        jobs = default_client().jobs(self.function.queue)
        return jobs.send_one(self._options, self._packed(args, kwargs))

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJob[R]:
        jobs = (await default_async_client()).jobs(self.function.queue)
        return await jobs.send_one(self._options, self._packed(args, kwargs))

    def send_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Job[R]]:
        packed = self._calls(calls)
        return default_client().jobs(self.function.queue).send(self._options, packed)

    def _packed(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        self.function.check_call(args, kwargs)
        return pack_call(f"the arguments of {self.function.type!r}", args, kwargs)

    def _calls(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Iterable[bytes]:
        check_items(calls, "the arguments of each call")
        return map(self._call, calls)

    def _call(self, call: Sequence[Any] | Mapping[str, Any]) -> bytes:
        if isinstance(call, dict):
            return self._packed((), call)
        if isinstance(call, list | tuple):
            return self._packed(tuple(call), {})
        raise InvalidArgument(
            f"send_many takes sequences or dicts of arguments, not {type(call).__name__}; "
            "a call with one argument is a tuple of one, as in (x,)"
        )


class Client(Protocol):
    def jobs(self, queue: str) -> Any: ...


C = TypeVar("C", bound="Penstock | AsyncPenstock")


class Bound(Generic[P, R, C]):
    """A function with options and a client."""

    def __init__(self, sending: Sending[P, R], client: C) -> None:
        self._sending = sending
        self._client = client

    def options(self, **settings: Unpack[JobSettings]) -> Bound[P, R, C]:
        """The same with some options changed."""
        return Bound(self._sending.options(**settings), self._client)

    @overload
    def send(self: Bound[P, R, Penstock], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    def send(
        self: Bound[P, R, AsyncPenstock], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[AsyncJob[R]]: ...
    def send(self, *args: Any, **kwargs: Any) -> Any:
        sending = self._sending
        jobs = self._client.jobs(sending.function.queue)
        return jobs.send_one(sending._options, sending._packed(args, kwargs))

    @overload
    def send_many(
        self: Bound[P, R, Penstock], calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[Job[R]]: ...
    @overload
    def send_many(
        self: Bound[P, R, AsyncPenstock], calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Awaitable[list[AsyncJob[R]]]: ...
    def send_many(self, calls: Any) -> Any:
        sending = self._sending
        jobs = self._client.jobs(sending.function.queue)
        return jobs.send(sending._options, sending._calls(calls))


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
    **settings: Unpack[JobSettings],
) -> Any:
    """Make a function or coroutine function a job.

    `queue` is where it is sent, `type` what it is called there (its own name if none is given).
    `retry_on` and `dead_on` say after which exceptions it is tried again, and after which never;
    without them it is after any. With `process` it runs in a process of its own, which can be
    ended when it takes too long or is cancelled. The other options are those of `send`, and can be
    changed there: attempts, backoff, timeout, priority, delay, expires, tenant, tags, unique, ...
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
        name = function.__name__ if type is None else type
        return JobFunction(function, queue, name, settings, RetryRules(retry_on, dead_on), process)

    return decorate if function is None else decorate(function)


VERDICT = b"!"
"""Begins what a child process says instead of a result."""


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

    def progress(self, done: float, total: float = 100, data: Any = None) -> None:
        pack_progress(make_progress(done, total, data))  # refused where it was said
        self._context.progress([done, total, data])

    def log(self, message: object, *values: object) -> None:
        self._context.log(str(message) % values if values else str(message))
