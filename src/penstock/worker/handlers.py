"""Which function handles which queue."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.client.functions import JobFunction
from penstock.errors import HandlerNotFound
from penstock.executors.context import Context
from penstock.model.names import check_name
from penstock.model.retries import Backoff, exponential, parse_backoff
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.hooks import Hooks, is_hook

if TYPE_CHECKING:
    from datetime import timedelta
    from types import ModuleType

    from penstock.worker.consumers import Consumer

Function = (
    Callable[[bytes, Context], bytes | None] | Callable[[bytes, Context], Awaitable[bytes | None]]
)
F = TypeVar("F", bound=Function)
B = TypeVar("B", bound=Callable[[int], float])
Served = Function | JobFunction[..., Any] | Callable[..., Any]
"""A handler, a job, a backoff that jobs name, a lifespan or a middleware."""

_MARK = "__penstock_queues__"


_BACKOFF = "__penstock_backoff__"


class Handlers(NamedTuple):
    """Everything that a worker runs."""

    tasks: dict[str, Handler]
    """queue -> what handles its plain tasks"""
    jobs: dict[str, dict[str, JobFunction[..., Any]]]
    """queue -> type -> function"""
    backoffs: dict[str, Callable[[int], float]]
    """name -> how long to wait after so many failures (s)"""
    queues: list[str]
    """all that are served, in the order in which they are served strictly"""
    hooks: Hooks = Hooks()
    consumers: Sequence[Consumer] = ()
    """what reads logs"""


class Handler(NamedTuple):
    """A function that takes the tasks of a queue."""

    function: Callable[[bytes, Context], Any]
    is_async: bool
    backoff: Backoff = exponential()


def handler(
    queue: str, *, backoff: str | float | timedelta | Backoff | None = None
) -> Callable[[F], F]:
    """Mark a function or coroutine function as the one that handles the tasks of `queue`.

    It gets the task and a `Context`, and returns None or bytes (the result that listeners to the
    `done` event get). If it raises, the task goes to the back of the queue, or to the dead list
    after too many failures. Before it goes back, the worker holds it for as long as `backoff`
    says, which is given as for jobs: by default a second after the first failure and twice as long
    after each further one; 0 for no wait. Other tasks run meanwhile.

    The function itself is left as it is, and nothing is registered anywhere: `penstock worker run
    MODULE` looks for marked functions in the module.
    """
    check_name("queue", queue)
    waits = parse_backoff(backoff)

    def mark(function: F) -> F:
        setattr(function, _MARK, {**getattr(function, _MARK, {}), queue: waits})
        return function

    return mark


def backoff(name: str) -> Callable[[B], B]:
    """Mark a function as the backoff of this name: it gets how often the job has failed, and
    returns the seconds to wait. Jobs name it with `backoff="named:<name>"`.

    `penstock worker run MODULE` finds it in the module, beside the jobs; `serve` and `Worker` are
    given it in their list.
    """
    check_name("backoff", name)

    def mark(function: B) -> B:
        setattr(function, _BACKOFF, name)
        return function

    return mark


def make_handler(function: Handler | Callable[[bytes, Context], Any], queue: str) -> Handler:
    if isinstance(function, Handler):
        return function
    call = getattr(function, "__call__", function)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Handler(function, is_async, _marked_queues(function).get(queue) or exponential())


def _marked_queues(value: object) -> dict[str, Backoff]:
    """The queues that a function is marked as the handler of."""
    marked = getattr(value, _MARK, None)
    # Some objects have any attribute that they are asked for, so it must also look like ours.
    return marked if isinstance(marked, dict) else {}


def load_handlers(module: str) -> Handlers:
    """Import a module and find the handlers and jobs in it. The current folder is looked in first,
    as with `python -m`.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if "/" in module or module.startswith("."):
        raise _is_file(module)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        if module.endswith(".py"):
            raise _is_file(module) from None
        raise HandlerNotFound(
            f"there is no module {module!r} to import; give its dotted name as in `import "
            f"{module}`, "
            "and start the worker from the folder that contains it"
        ) from None
    return find_handlers(imported)


def _is_file(given: str) -> HandlerNotFound:
    """The error for a file that was given in place of a module."""
    path, here = Path(given).resolve().with_suffix(""), Path.cwd().resolve()
    is_below = path.is_relative_to(here) and path != here
    name = ".".join(path.relative_to(here if is_below else path.parent).parts)
    where = "" if is_below else f" in '{path.parent}'"
    return HandlerNotFound(
        f"{given!r} is a file, and a worker imports a module by its dotted name; "
        f"run `penstock worker run {name}`{where}"
    )


def find_handlers(module: ModuleType) -> Handlers:
    """What a module has for workers."""
    values = [value for value in vars(module).values() if callable(value)]
    marked = [
        value
        for value in values
        if isinstance(value, JobFunction)
        or _marked_queues(value)
        or isinstance(getattr(value, _BACKOFF, None), str)
        or is_hook(value)
        or isinstance(getattr(value, CONSUMER_MARK, None), tuple)
    ]
    return collect_handlers(marked, f"module {module.__name__!r}")


def as_handlers(given: Handlers | Mapping[str, Handler | Function] | Iterable[Served]) -> Handlers:
    """What a worker was given, in the one form it uses."""
    if isinstance(given, Handlers):
        return given
    if isinstance(given, Mapping):
        tasks = {queue: make_handler(value, queue) for queue, value in given.items()}
        return Handlers(tasks, {}, {}, list(tasks))
    return collect_handlers(given)


def collect_handlers(functions: Iterable[Served], source: str = "the list") -> Handlers:
    """Functions marked with `handler` or `job`, by queue, in the order in which they are given, and
    those marked with `backoff`, by name; and hooks.
    """
    hooks = Hooks()
    order: dict[str, None] = {}
    tasks: dict[str, Handler] = {}
    jobs: dict[str, dict[str, JobFunction[..., Any]]] = {}
    backoffs: dict[str, Callable[[int], float]] = {}
    consumers: dict[tuple[str, str], Consumer] = {}
    for function in functions:
        if isinstance(function, JobFunction):
            order[function.queue] = None
            types = jobs.setdefault(function.queue, {})
            if types.setdefault(function.type, function) is not function:
                raise HandlerNotFound(
                    f"{source} has two functions for jobs of type {function.type!r} in queue "
                    f"{function.queue!r}; keep one, or name the other with type=..."
                )
            continue
        marked: Any = function  # only the mark tells which kind it is
        if is_hook(marked):
            hooks = hooks.plus(marked, source)
            continue
        queues = _marked_queues(marked)
        named = getattr(marked, _BACKOFF, None)
        readers: tuple[Consumer, ...] = getattr(marked, CONSUMER_MARK, ())
        for reader in readers:
            if consumers.setdefault((reader.log, reader.group), reader) is not reader:
                raise HandlerNotFound(
                    f"{source} has two consumers for group {reader.group!r} of log {reader.log!r}; "
                    "keep one, or give the other a group of its own"
                )
        if isinstance(named, str):
            if backoffs.setdefault(named, marked) is not marked:
                raise HandlerNotFound(
                    f"{source} has two backoffs of the name {named!r}; keep one of them"
                )
        elif not queues and not readers:
            name = getattr(function, "__qualname__", repr(function))
            raise HandlerNotFound(
                f"function {name!r} is not marked as a handler; decorate it with "
                "@penstock.handler('queue'), @penstock.job, @penstock.consumer(log, group) or "
                "@penstock.backoff('name'), or pass {'queue': function}"
            )
        for queue in queues:
            order[queue] = None
            if queue in tasks and tasks[queue].function is not function:
                raise HandlerNotFound(f"{source} has two handlers for queue {queue!r}; keep one")
            tasks[queue] = make_handler(marked, queue)
    for queue in tasks.keys() & jobs.keys():
        raise HandlerNotFound(
            f"{source} has both a handler and jobs for queue {queue!r}; a queue holds either plain "
            "tasks or jobs, so give one of them another queue"
        )
    return Handlers(tasks, jobs, backoffs, list(order), hooks, list(consumers.values()))


def choose_handlers(handlers: Handlers, queues: list[str], source: str) -> Handlers:
    """What serves the named queues and logs, or all if none is named, in the order in which they
    are named.
    """
    logs = list(dict.fromkeys(consumer.log for consumer in handlers.consumers))
    if not handlers.queues and not logs:
        raise HandlerNotFound(
            f"module {source!r} has no handler; mark a function with @penstock.handler('queue'), "
            "@penstock.job or @penstock.consumer(log, group)"
        )
    for queue in queues:
        if queue not in (*handlers.queues, *logs):
            known = ", ".join(map(repr, (*handlers.queues, *logs)))
            raise HandlerNotFound(
                f"module {source!r} has no handler for queue {queue!r}, only for {known}; "
                f"mark a function with @penstock.handler({queue!r}) or "
                f"@penstock.job(queue={queue!r})"
            )
    wanted = [q for q in dict.fromkeys(queues or handlers.queues) if q in handlers.queues]
    return Handlers(
        {queue: handlers.tasks[queue] for queue in wanted if queue in handlers.tasks},
        {queue: handlers.jobs[queue] for queue in wanted if queue in handlers.jobs},
        handlers.backoffs,
        wanted,
        handlers.hooks,
        [consumer for consumer in handlers.consumers if not queues or consumer.log in queues],
    )
