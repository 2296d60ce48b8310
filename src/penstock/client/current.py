"""The job that is running here, for the function that runs it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from penstock.errors import NoJob


class RunningJob(Protocol):
    """What a job can ask about itself, and what it can report while it runs."""

    @property
    def job(self) -> str:
        """Its id."""

    @property
    def type(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""

    @property
    def token(self) -> int:
        """Grows with every start in this queue: what a resource of your own can compare to refuse
        an older holder.
        """

    @property
    def cancelled(self) -> bool:
        """True as soon as the result is not wanted any more; return soon then.

        A job that has seen it is cancelled when it returns.
        """

    @property
    def resources(self) -> Any:
        """What the lifespan hook of the worker has yielded; None without one."""

    def progress(self, done: float, total: float = 100, data: Any = None) -> None:
        """Report how far it is; `data` is anything that can be written as JSON."""

    def log(self, message: object, *values: object) -> None:
        """Add a text line to its log. `values` are put into the message as `%` does."""


_current: ContextVar[RunningJob] = ContextVar("penstock_job")
begin_job = _current.set


def running_job() -> str:
    """The id of the job that is running here; empty outside of one."""
    job = _current.get(None)
    return job.job if job is not None else ""


def current() -> RunningJob:
    """The job that is running here. Raises NoJob outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise NoJob(
            "no job is running here; penstock.current() is for functions that a worker runs"
        ) from None
