"""What a worker has to know about one kind of work: how to ask for it, and how to read answers.

A source does no I/O. It builds requests, which a driver sends, and reads what comes back. The feed
decides when a request is due (`feed.py`); the sources lie in `sources/`, one for each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.executors.context import Context
    from penstock.model.claims import Claim
    from penstock.model.workers import Lease
    from penstock.store.command import Command, Operation, Page
    from penstock.store.keys import QueueKeys

Purpose = Literal[
    "claim", "report", "ask_delays", "note", "give_back", "pass_on", "find_pushed", "find_cancelled"
]


@dataclass(slots=True, eq=False)
class Request:
    """Something to ask the store for, once."""

    purpose: Purpose
    """claim: more work, and in the same step what became of other work; report: what became of
    work, where that cannot go with a claim; ask_delays: how long failed work is to be held before
    that (the claim has found seconds, one for each context); note: what a running job says;
    give_back: work that was not begun; pass_on: a wake-up that is of no use here; find_pushed: work
    that was handed over by a message that did not come; find_cancelled: what is to end
    """
    command: Command[Any] | Page[Any] | Callable[[Operation], Command[Any]]
    """a function makes a command that has one effect however often it is sent"""
    read: Callable[[Any], Claim[Any]] | None = None
    """how to read the answer, if it is not a claim itself"""
    contexts: Sequence[Context] = ()
    """what it reports, gives back or writes down"""
    limit: int = 0
    """how much it asks for"""


class Cancelled(NamedTuple):
    """A message: which work is to end."""

    process: int = 0
    """only this one, if it is not 0"""
    up_to: int = 0
    """else all that was started up to this process"""
    task: bytes | None = None
    """and of that only this task"""

    def includes(self, context: Context) -> bool:
        if self.process:
            return context.token == self.process
        # An equal task that was started later is not meant.
        return context.token <= self.up_to and self.task in (None, context.task)


class Woken:
    """A message: there may be work."""


WOKEN = Woken()


class Told(NamedTuple):
    """How reported work is counted."""

    finished: int = 0
    failed: int = 0


NOTHING_TOLD = Told()


class Begin(NamedTuple):
    """A step: give these to the executor."""

    contexts: list[Context]
    is_first: bool = False
    """there was nothing in the queue before"""


class Cancel(NamedTuple):
    """A step: these are to end."""

    contexts: list[Context]


class Fire(NamedTuple):
    """A step: send what these schedules send."""

    schedules: list[str]


Step = Request | Begin | Cancel | Fire
"""What a feed wants its driver to do."""


class Source(ABC):
    """One queue of one kind, or one partition of a log, as one worker serves it. Contexts know it
    as their origin.
    """

    kind: Literal["tasks", "jobs", "logs"]
    at_once: int
    """how much one request may report or start: a script must not take long"""
    takes_pushed = False
    """the store may hand it work unasked, by a message"""
    most_held: int | None = None
    """how much may be held at a time; None: as much as there are slots for"""

    def __init__(
        self,
        queue: str,
        key: str,
        worker: str,
        lease: Lease,
        handle: Callable[..., Any],
        max_payload: int,
        channels: list[str],
    ) -> None:
        self.queue = queue
        self.key = key
        """one of its keys: where its channels are, on a cluster"""
        self.worker = worker
        self.lease = lease
        self.handle = handle
        self.max_payload = max_payload
        self.resources: Any = None
        """what the lifespan hook of the worker has yielded"""
        self.is_closed = False
        """nothing that comes of its work counts any more"""
        self.channels = channels
        """what it listens to"""
        self.done: Callable[[Context], None] = lambda context: None
        """set by the driver, and called with each context whose work has ended, from the thread in
        which it ran
        """
        self.noted: Callable[[Context], None] = lambda context: None
        """the same for work that has said something about itself"""

    @property
    def holds_until(self) -> float:
        """When there may be something to start again; until then nothing is asked for."""
        return 0.0

    @abstractmethod
    def claim(self, reported: Sequence[Context], limit: int, offer: int) -> Request:
        """Report work and ask for up to `limit` more; then wait to be woken, and take `offer`
        unasked.
        """

    @abstractmethod
    def contexts(self, found: Iterable[Any], first_process: int) -> list[Context]:
        """Work that was found, ready for an executor."""

    @abstractmethod
    def report_apart(self, outcomes: list[Context]) -> tuple[list[Request], list[Context]]:
        """What must be said before the next claim, and what goes with it. What is in neither need
        not be said.
        """

    @abstractmethod
    def told(self, reported: Sequence[Context], refused: Sequence[int]) -> Told:
        """How to count what was reported with one request."""

    @abstractmethod
    def give_back(self, contexts: Sequence[Context]) -> Request | None:
        """Return work that was not begun to its old place, at no cost; None where it never left
        it.
        """

    @abstractmethod
    def pass_on(self, is_busy: bool) -> Request | None:
        """Stop waiting, and pass on a wake-up that may be on its way; None where no other worker
        could use it. `is_busy`: the worker has only no room; it does not stop.
        """

    @abstractmethod
    def hear(self, channel: str, message: bytes) -> Woken | Cancelled | Context | None:
        """Read a message: a wake-up, what is to end, work that was handed over, or nothing for
        this worker.
        """

    def retry(self, context: Context) -> None:  # noqa: B027 - only where failed work is held
        """Failed work was held long enough: with the next report it goes back to be tried again."""

    def drop(self, context: Context) -> None:  # noqa: B027 - only where failed work is held
        """Failed work that was held is cancelled: the next report ends it."""

    def note(self, context: Context) -> Request | None:
        """What running work has said about itself; None if there is nothing to write down."""
        return None

    def has_note(self, context: Context) -> bool:
        """Whether `note` has something to write down."""
        return False

    def find_pushed(self, known: Sequence[int]) -> Request | None:
        """Work that this worker holds beside the processes that it knows of; None where nothing is
        pushed.
        """
        return None

    def find_cancelled(self) -> Request | None:
        """What is to end, in case a message was missed; None where that cannot be looked up."""
        return None

    def prepare(self, context: Context) -> None:  # noqa: B027 - most kinds have nothing to do
        """Make ready what is said about an outcome; called in the thread that ran the work."""

    def cancel(self, context: Context) -> None:
        """Tell the work to end, and end it where it can be ended."""
        context.cancel()

    def close(self, held: Iterable[Context]) -> None:
        """Nothing that comes of what is still held counts from now on."""
        self.is_closed = True


class QueueSource(Source):
    """A source whose work waits in a queue, where any worker can take it."""

    kind: Literal["tasks", "jobs"]

    def __init__(
        self,
        keys: QueueKeys,
        worker: str,
        lease: Lease,
        handle: Callable[..., Any],
        max_payload: int,
        channels: list[str],
    ) -> None:
        heard = [keys.wake + worker, *channels]
        super().__init__(keys.queue, keys.meta, worker, lease, handle, max_payload, heard)
        self.keys = keys

    @abstractmethod
    def give_back(self, contexts: Sequence[Context]) -> Request: ...

    @abstractmethod
    def pass_on(self, is_busy: bool) -> Request: ...
