"""What a user has around the life of a worker, and around each job and task."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.client.current import begin_job
from penstock.errors import InvalidArgument, LifespanFailed
from penstock.executors.job_context import JobContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.executors.context import Context

log = logging.getLogger("penstock.worker")

F = TypeVar("F", bound=Callable[..., Any])

_LIFESPAN = "__penstock_lifespan__"
_MIDDLEWARE = "__penstock_middleware__"


def lifespan(function: F) -> F:
    """Mark a generator function, sync or async, as what a worker runs around its life: what stands
    before its `yield` when the worker starts, before it takes any work, and what stands behind when
    it ends, after the last job. Handlers and jobs find what is yielded as `context.resources` and
    `penstock.current().resources`.

    It is called without arguments. A function that returns a context manager is as good. A worker
    has one lifespan; `penstock worker run MODULE` finds it in the module, `serve` and `Worker` are
    given it in their list. If it raises at the start, the worker ends with LifespanFailed.
    """
    return _mark(function, _LIFESPAN, "lifespan")


def middleware(function: F) -> F:
    """Mark a generator function, sync or async, as what a worker runs around each job and task. It
    is called with the context; what the job raises is raised at its `yield`, and what it raises
    itself is a failure of the job.

    A sync one is run around everything, in the thread or on the event loop of the job; an async one
    only around coroutine functions. Of several, the first one is outermost. Jobs with
    `process=True` run without.
    """
    return _mark(function, _MIDDLEWARE, "middleware")


def is_hook(value: object) -> bool:
    # Some objects have any attribute that they are asked for, so it must also look like ours.
    return any(getattr(value, mark, None) is True for mark in (_LIFESPAN, _MIDDLEWARE))


class Hooks(NamedTuple):
    """Those of a worker."""

    lifespan: Callable[..., Any] | None = None
    middleware: Sequence[Callable[..., Any]] = ()
    """the first one is outermost"""

    def plus(self, hook: Callable[..., Any], source: str) -> Hooks:
        if getattr(hook, _MIDDLEWARE, False):
            return self._replace(middleware=[*self.middleware, hook])
        if self.lifespan not in (None, hook):
            raise InvalidArgument(
                f"{source} has two lifespan hooks, {name_of(self.lifespan)} and {name_of(hook)}; a "
                "worker has one, so let one of them call the other"
            )
        return self._replace(lifespan=hook)

    @property
    def names_of_async(self) -> list[str]:
        """The middleware that only coroutine functions can have around them."""
        return [name_of(hook) for hook in self.middleware if _is_async(hook)]

    def around(self, handle: Callable[..., Any], is_async: bool | None) -> Callable[..., Any]:
        """A handler, with the middleware around it. `is_async` is None if each job tells."""
        if not self.middleware:
            return handle
        managers = [(_as_manager(hook), _is_async(hook)) for hook in self.middleware]
        sync = [manager for manager, is_async in managers if not is_async]

        def handle_around(task: bytes, context: Context) -> Any:
            if isinstance(context, JobContext):
                begin_job(context)
            is_coroutine = context.function.is_async if is_async is None else is_async  # type: ignore[attr-defined]
            if is_coroutine:
                return _run_around_coroutine(managers, handle, task, context)
            return _run_around(sync, handle, task, context)

        return handle_around


def _run_around(managers: Sequence[Any], handle: Any, task: bytes, context: Context) -> Any:
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager(context))
        return handle(task, context)


async def _run_around_coroutine(
    managers: Sequence[tuple[Any, bool]], handle: Any, task: bytes, context: Context
) -> Any:
    async with AsyncExitStack() as stack:
        for manager, is_async in managers:
            if is_async:
                await stack.enter_async_context(manager(context))
            else:
                stack.enter_context(manager(context))
        return await handle(task, context)


class Lifespan:
    """The run of a lifespan hook. Start and end belong into the same asyncio task."""

    def __init__(self, hook: Callable[..., Any] | None) -> None:
        self._hook = hook
        self._manager: AbstractAsyncContextManager[Any] | AbstractContextManager[Any] | None = None

    async def start(self) -> Any:
        """What it yields. Raises LifespanFailed."""
        if self._hook is None:
            return None
        try:
            manager = _as_manager(self._hook)()
            if isinstance(manager, AbstractAsyncContextManager):
                resources = await manager.__aenter__()
            else:
                resources = manager.__enter__()
        except (Exception, SystemExit) as error:
            raise self._failed("start", "nothing was started", error) from error
        self._manager = manager
        return resources

    async def end(self) -> None:
        """Run what stands behind the `yield`, also if the worker ends by an error. Raises
        LifespanFailed.
        """
        manager, self._manager = self._manager, None
        try:
            if isinstance(manager, AbstractAsyncContextManager):
                await manager.__aexit__(None, None, None)
            elif manager is not None:
                manager.__exit__(None, None, None)
        except (Exception, SystemExit) as error:
            raise self._failed("end", "its work had ended before", error) from error

    def _failed(self, when: str, so: str, error: BaseException) -> LifespanFailed:
        log.error("lifespan hook failed hook=%s", name_of(self._hook), exc_info=error)
        return LifespanFailed(
            f"the lifespan hook {name_of(self._hook)} failed at the {when} of the worker with "
            f"{type(error).__name__}: {error}; {so}, so mend the hook and start the worker again"
        )


def _mark(function: F, mark: str, what: str) -> F:
    if inspect.iscoroutinefunction(function):
        raise InvalidArgument(
            f"{what} {name_of(function)} has no yield; write a generator function, sync or async, "
            "with one yield between what comes first and what comes last"
        )
    setattr(function, mark, True)
    return function


def _as_manager(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    if inspect.isgeneratorfunction(function):
        return contextmanager(function)
    return function


def _is_async(function: Callable[..., Any]) -> bool:
    if inspect.isclass(function):
        return not hasattr(function, "__enter__")
    return inspect.isasyncgenfunction(inspect.unwrap(function))


def name_of(function: object) -> str:
    return repr(getattr(function, "__qualname__", function))
