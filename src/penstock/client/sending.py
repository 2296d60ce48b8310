"""Sends calls of a job function, with options, by the default client or one that is named."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from penstock.client.batches import check_items
from penstock.client.default import default_async_client, default_client
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from penstock.client._async.client import AsyncPenstock
    from penstock.client._async.job import AsyncJob
    from penstock.client._sync.client import Penstock
    from penstock.client._sync.job import Job
    from penstock.client.functions import JobFunction
    from penstock.model.job_options import JobSettings

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Penstock | AsyncPenstock")
J = TypeVar("J", bound="Job[Any] | AsyncJob[Any]")


class Sending(Generic[P, R]):
    """A function with options, by the default client."""

    def __init__(self, function: JobFunction[P, R], settings: JobSettings) -> None:
        self.function = function
        self.settings = settings
        self._options = function.make_options(settings)

    def options(self, **settings: Unpack[JobSettings]) -> Sending[P, R]:
        """The same with some options changed."""
        return Sending(self.function, {**self.settings, **settings})

    def on(self, client: C) -> Bound[P, R, C]:
        return Bound(self, client)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        jobs = default_client().jobs(self.function.queue)
        return self._typed(jobs.send_one(self._options, self._packed(args, kwargs)))

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJob[R]:
        jobs = (await default_async_client()).jobs(self.function.queue)
        return self._typed(await jobs.send_one(self._options, self._packed(args, kwargs)))

    def send_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Job[R]]:
        packed = self._calls(calls)
        sent = default_client().jobs(self.function.queue).send(self._options, packed)
        return [self._typed(job) for job in sent]

    def _typed(self, job: J) -> J:
        """A job whose result is read as the function's annotation says."""
        job.open_result = self.function.signature.open_result
        return job

    async def _typed_later(self, sent: Awaitable[Any]) -> Any:
        done = await sent
        return [self._typed(job) for job in done] if isinstance(done, list) else self._typed(done)

    def _packed(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        return self.function.signature.pack(args, kwargs)

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
        return self._typed(jobs.send_one(sending._options, sending._packed(args, kwargs)))

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
        return self._typed(jobs.send(sending._options, sending._calls(calls)))

    def _typed(self, sent: Any) -> Any:
        sending = self._sending
        if isinstance(sent, list):
            return [sending._typed(job) for job in sent]
        return sending._typed_later(sent) if isawaitable(sent) else sending._typed(sent)
