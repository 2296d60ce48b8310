"""Which functions a run may call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from penstock.client.functions import JobFunction
from penstock.errors import HandlerNotFound, InvalidArgument
from penstock.worker.handlers import find_handlers
from penstock.worker.hooks import Hooks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.worker.handlers import Handlers

Runnable = JobFunction[..., Any] | ModuleType | Callable[..., Any]
"""A job, a module with jobs, a backoff that jobs name, or middleware."""


def check_runnable(items: Iterable[Runnable]) -> None:
    """Refuse what is nothing that a run could call."""
    for item in items:
        if isinstance(item, ModuleType | JobFunction):
            continue
        found = _find([item])
        if found.tasks:
            raise InvalidArgument(
                f"{_name(item)} handles plain tasks, and only jobs are run here; "
                "call it, or take tasks with `with penstock.worker() as worker`"
            )
        if not found.backoffs and found.hooks == Hooks():
            raise InvalidArgument(
                f"{_name(item)} is no job; decorate it with @penstock.job, or give a module"
            )


def find_functions(items: Iterable[Runnable]) -> Handlers:
    """The jobs among these and in these modules, by queue and type."""
    found = _find(items)
    if not found.jobs:
        raise HandlerNotFound(
            "run_all has no functions to run; import them in the module of the test, or name them: "
            "run_all(function), run_all(module), or register(...) once"
        )
    return found


def _find(items: Iterable[Runnable]) -> Handlers:
    values: list[Any] = []
    for item in items:
        values += _in_module(item) if isinstance(item, ModuleType) else [item]
    # A worker finds functions in a module, so they are put into one.
    together = ModuleType("run_all")
    vars(together).update({str(index): value for index, value in enumerate(values)})
    return find_handlers(together)


def _in_module(module: ModuleType) -> list[Any]:
    # Only these, as test modules also hold mocks, which have every mark that one looks for.
    kinds = (JobFunction, FunctionType)
    return [value for value in vars(module).values() if isinstance(value, kinds)]


def _name(item: object) -> str:
    return getattr(item, "__qualname__", repr(item))
