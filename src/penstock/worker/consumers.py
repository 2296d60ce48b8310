"""Functions that read a log."""

from __future__ import annotations

import inspect
import math
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
)
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from penstock.client.causes import Delivery
from penstock.client.functions import JobFunction, path_of
from penstock.codec.messages import unpack_messages
from penstock.errors import HandlerNotFound, InvalidArgument
from penstock.executors.batch_in_child import BatchInChild
from penstock.model.job_options import check_switch
from penstock.model.names import check_name, shown
from penstock.model.retries import Backoff, delay_ms, parse_backoff

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.executors.batch_context import BatchContext
    from penstock.executors.child import ChildContext
    from penstock.executors.context import Context

F = TypeVar("F", bound=Callable[..., Any])

CONSUMER_MARK = "__penstock_consumers__"
COMMIT_S = 0.5
MAX_BATCH = 10_000
_PAGE = 100
"""messages that are read at once for a consumer of single ones"""
_CHOICES = {
    "on_failure": ("skip", "stop"),
    "on_gap": ("stop", "skip"),
    "start": ("earliest", "latest"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Consumer:
    """A function, and how it wants to be given the messages of a log."""

    function: Callable[..., Any]
    log: str
    group: str
    batch: int | None
    attempts: int
    backoff: Backoff
    on_failure: Literal["skip", "stop"]
    on_gap: Literal["stop", "skip"]
    start: Literal["earliest", "latest"]
    commit_s: float
    timeout_s: float
    weight: int
    partitions: tuple[int, ...] | None
    is_async: bool
    in_process: bool
    takes_context: bool

    def __str__(self) -> str:
        return f"consumer {self.function.__name__!r}"

    @property
    def path(self) -> str:
        """How a child process finds the function."""
        return path_of(self.function, self.function)

    @property
    def page(self) -> int:
        """How many messages to read at once."""
        return self.batch or _PAGE

    def wait_s(self, failures: int) -> float:
        return delay_ms(self.backoff, failures) / 1000

    def call(self, given: object, context: Context) -> Any:
        return self.function(given, context) if self.takes_context else self.function(given)


def consumer(
    log: str,
    group: str,
    batch: int | None = None,
    *,
    attempts: int = 3,
    backoff: str | float | timedelta | Backoff | None = None,
    on_failure: Literal["skip", "stop"] = "skip",
    on_gap: Literal["stop", "skip"] = "stop",
    start: Literal["earliest", "latest"] = "earliest",
    commit: float | Literal["each"] = COMMIT_S,
    timeout: float = 0.0,
    weight: int = 1,
    partitions: Iterable[int] | None = None,
    process: bool = False,
) -> Callable[[F], F]:
    """Mark a function or coroutine function as a reader of a log.

    It gets one message at a time, or with `batch` a list of up to so many, in the order of their
    partition; with a second parameter also a `Context`. All consumers of one `group` share the
    partitions, each of which one worker reads at a time; different groups know nothing of each
    other.

    Messages are handled at least once. How far a partition has come is written down behind the
    messages, every `commit` seconds or after each batch ("each"), and when it is released.

    If it raises, the same messages come again after the `backoff`, up to `attempts` times; a batch
    that failed so often comes again message by message, once each. What still fails goes to the
    group's error log and is left behind, or with `on_failure="stop"` the partition stands still. If
    messages are gone that the group has not read, the partition stands still, or with
    `on_gap="skip"` goes on behind the gap.

    A group that is new begins with the oldest message, or with `start="latest"` with what comes
    next. `partitions` are read by this worker and no other, without any assignment; else a worker
    of `weight` 2 gets twice as many as others.

    With `process` it runs in a process of its own, which can be ended when it takes longer than
    `timeout` seconds. If the process dies, that is a failure like any other.
    """
    check_switch("process", process)
    check_name("log", log)
    check_name("group", group)
    _check_number("batch", batch, 1, MAX_BATCH, is_optional=True)
    _check_number("attempts", attempts, 1, 1000)
    _check_number("weight", weight, 1, 1000)
    for name, given in (("on_failure", on_failure), ("on_gap", on_gap), ("start", start)):
        if given not in _CHOICES[name]:
            known = " or ".join(map(repr, _CHOICES[name]))
            raise InvalidArgument(f"{name} is {shown(given)}; give {known}")
    chosen = None if partitions is None else _check_partitions(partitions)

    def mark(function: F) -> F:
        _check_function(function)
        is_async = _is_async(function)
        if process:
            _check_for_process(function, is_async)
        made = Consumer(
            function,
            log,
            group,
            batch,
            attempts,
            parse_backoff(backoff),
            on_failure,
            on_gap,
            start,
            0.0 if commit == "each" else _check_seconds("commit", commit),
            _check_seconds("timeout", timeout),
            weight,
            chosen,
            is_async=is_async,
            in_process=process,
            takes_context=_takes_two(function),
        )
        setattr(function, CONSUMER_MARK, (*getattr(function, CONSUMER_MARK, ()), made))
        if process:
            function.run_in_child = partial(run_in_child, function)  # type: ignore[attr-defined]
        return function

    return mark


def run_batch(task: bytes, context: BatchContext) -> Any:
    """Give a consumer its messages; in an executor. A coroutine, if the consumer is one."""
    consumer: Consumer = context.origin.consumer  # type: ignore[attr-defined]
    if consumer.is_async:
        return _run_async(consumer, context)
    return _run(consumer, context)


def run_in_child(function: Callable[..., Any], data: bytes, child: ChildContext) -> bytes:
    """Give it its messages, in a child process. How far it is, the worker is told on the way."""
    for consumer in getattr(function, CONSUMER_MARK):
        if (consumer.log, consumer.group) == (child.queue, child.type):
            _run(consumer, BatchInChild(child, unpack_messages(data)))
            return b""
    raise HandlerNotFound(
        f"in a child process, {function.__qualname__!r} is no consumer of log {child.queue!r} for "
        f"group {child.type!r}; let its module name the same log and group wherever it is imported"
    )


def _run(consumer: Consumer, context: BatchContext) -> None:
    with Delivery(consumer.log, consumer.group, context.messages) as delivery:
        if consumer.batch is not None:
            _check_returned(consumer.call(context.messages, context))
            context.handled(len(context.messages))
            return
        for message in context.messages:
            if _must_stop(context):
                break
            delivery.begin(message)
            _check_returned(consumer.call(message, context))
            context.handled(context.done + 1)


async def _run_async(consumer: Consumer, context: BatchContext) -> None:
    call: Callable[..., Awaitable[Any]] = consumer.call
    with Delivery(consumer.log, consumer.group, context.messages) as delivery:
        if consumer.batch is not None:
            await call(context.messages, context)
            context.handled(len(context.messages))
            return
        for message in context.messages:
            if _must_stop(context):
                break
            delivery.begin(message)
            await call(message, context)
            context.handled(context.done + 1)


def _check_for_process(function: Callable[..., Any], is_async: bool) -> None:
    if is_async:
        raise InvalidArgument(
            f"{function.__name__!r} is a coroutine function, which runs on the worker's event "
            "loop; leave out process=True, or make it a plain function"
        )
    if isinstance(function, JobFunction):
        raise InvalidArgument(
            f"{function.type!r} is a job already, and a process can run it as one of the two; "
            "leave out process=True, or call it from a function of its own"
        )


def _must_stop(context: BatchContext) -> bool:
    """Between two messages, the partition can be let go at no cost."""
    if context.must_stop:
        context.outcome = "stopped"
        return True
    return False


def _check_returned(value: object) -> None:
    """Refuse what has handled nothing yet, and never will."""
    if isinstance(value, Coroutine | Generator):
        value.close()
    elif not isinstance(value, AsyncGenerator):
        return
    raise TypeError(
        f"the consumer returned a {type(value).__name__}, which nobody runs; "
        "make it an async function, or return nothing"
    )


def _check_function(function: object) -> None:
    if not callable(function):
        raise InvalidArgument(f"{shown(function)} is no function; give one that takes messages")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidArgument(
            f"{shown(function)} yields, so calling it would handle nothing; return instead"
        )
    if not _count_parameters(function):
        raise InvalidArgument(
            f"{shown(function)} takes nothing; a consumer takes a message, or with batch a list "
            "of them, and if it wants to a context"
        )


def _is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _takes_two(function: Callable[..., Any]) -> bool:
    return _count_parameters(function) > 1


def _count_parameters(function: Callable[..., Any]) -> int:
    """How many arguments it can be given by place; of some that are written in C, nobody knows, and
    one will do.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional for one in parameters)


def _check_partitions(given: object) -> tuple[int, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(f"partitions is {shown(given)}; give a list of numbers")
    chosen = list(given)
    if not chosen:
        raise InvalidArgument("partitions is empty, so nothing would be read; leave it out for all")
    for partition in chosen:
        _check_number("a partition", partition, 0, 1023)
    return tuple(sorted(set(chosen)))


def _check_number(
    name: str, given: int | None, least: int, most: int, is_optional: bool = False
) -> None:
    if is_optional and given is None:
        return
    if type(given) is not int or not least <= given <= most:
        raise InvalidArgument(
            f"{name} is {shown(given)}; give a whole number from {least} to {most}"
        )


def _check_seconds(name: str, given: object) -> float:
    if type(given) not in (int, float) or not math.isfinite(given) or given < 0:  # type: ignore[arg-type, operator]
        raise InvalidArgument(f"{name} is {shown(given)}; give a number of seconds from 0 up")
    return float(given)  # type: ignore[arg-type]
