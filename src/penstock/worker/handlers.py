"""Which function handles which queue."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.errors import HandlerNotFound
from penstock.executors.assignment import Context
from penstock.model.names import check_name

if TYPE_CHECKING:
    from types import ModuleType

Function = (
    Callable[[bytes, Context], bytes | None] | Callable[[bytes, Context], Awaitable[bytes | None]]
)
F = TypeVar("F", bound=Function)

_MARK = "__penstock_queues__"


class Handler(NamedTuple):
    """A function that takes the tasks of a queue."""

    function: Callable[[bytes, Context], Any]
    is_async: bool


def handler(queue: str) -> Callable[[F], F]:
    """Mark a function or coroutine function as the one that handles the tasks of `queue`.

    It gets the task and a `Context`, and returns None or bytes (the result that listeners to the
    `done` event get). If it raises, the task goes to the back of the queue, or to the dead list
    after too many failures.

    The function itself is left as it is, and nothing is registered anywhere: `penstock worker run
    MODULE` looks for marked functions in the module.
    """
    check_name("queue", queue)

    def mark(function: F) -> F:
        setattr(function, _MARK, (*getattr(function, _MARK, ()), queue))
        return function

    return mark


def make_handler(function: Handler | Callable[[bytes, Context], Any]) -> Handler:
    if isinstance(function, Handler):
        return function
    call = getattr(function, "__call__", function)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Handler(function, is_async)


def load_handlers(module: str) -> dict[str, Handler]:
    """Import a module and find the handlers in it. The current folder is looked in first, as
    with `python -m`.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        raise HandlerNotFound(
            f"there is no module {module!r} to import; give its dotted name as in `import "
            f"{module}`, "
            "and start the worker from the folder that contains it"
        ) from None
    return find_handlers(imported)


def find_handlers(module: ModuleType) -> dict[str, Handler]:
    """The handlers in a module, by queue."""
    found: dict[str, Handler] = {}
    for value in vars(module).values():
        for queue in getattr(value, _MARK, ()) if callable(value) else ():
            if queue in found and found[queue].function is not value:
                raise HandlerNotFound(
                    f"module {module.__name__!r} has two handlers for queue {queue!r}; keep one"
                )
            found[queue] = make_handler(value)
    return found


def marked_handlers(functions: Iterable[Function]) -> dict[str, Handler]:
    """Functions marked with `handler`, by queue."""
    found: dict[str, Handler] = {}
    for function in functions:
        queues = getattr(function, _MARK, ())
        if not queues:
            name = getattr(function, "__qualname__", repr(function))
            raise HandlerNotFound(
                f"function {name!r} is not marked as a handler; "
                "decorate it with @penstock.handler('queue') or pass {'queue': function}"
            )
        found.update((queue, make_handler(function)) for queue in queues)
    return found


def choose_handlers(
    handlers: dict[str, Handler], queues: list[str], source: str
) -> dict[str, Handler]:
    """The handlers of the named queues, or all if none is named."""
    if not handlers:
        raise HandlerNotFound(
            f"module {source!r} has no handler; mark a function with @penstock.handler('queue')"
        )
    for queue in queues:
        if queue not in handlers:
            known = ", ".join(map(repr, handlers))
            raise HandlerNotFound(
                f"module {source!r} has no handler for queue {queue!r}, only for {known}; "
                f"mark a function with @penstock.handler({queue!r})"
            )
    return {queue: handlers[queue] for queue in queues or handlers}
