"""What a client knows of the jobs whose end is told on one channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.connection.job_ids import new_ids

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.model.jobs import JobInfo
    from penstock.store.keys import QueueKeys

_HEARD = 10_000
_KEPT = 64
_KEPT_BYTES = 16_384


class Ending(NamedTuple):
    """How a job has ended."""

    state: str
    """done, dead, cancelled; or removed"""
    reason: str
    outcome: bytes


REMOVED = Ending("removed", "", b"")


def ending_of(info: JobInfo | None) -> Ending | None:
    """How a job has ended that was read, or found to be gone; None if it has not."""
    if info is None:
        return REMOVED
    return Ending(info.state, info.reason, info.outcome) if info.is_final else None


class AwaitedJob:
    """One job, and the futures of the callers that wait for it."""

    def __init__(self, keys: QueueKeys, number: int) -> None:
        self.keys = keys
        self.number = number
        self.futures: list[Future[Ending]] = []
        self.is_seen = False
        """whether it was looked at, or is about to be"""
        self.was_absent = False


class EndingChannel:
    """The jobs that callers wait for and whose end is told on one channel. An open channel misses
    no ending. So of a job that was made while it was open it is known whether it has ended, and it
    need not be looked at.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, AwaitedJob] = {}
        self.unseen: dict[int, AwaitedJob] = {}
        """those that are to be looked at"""
        self.absent: dict[int, tuple[int, AwaitedJob]] = {}
        """those that were not found, and after which confirmation to look again"""
        self.opens_with = 0
        """with which confirmation it is open"""
        self.idle_since = 0.0
        """since when no caller waits, if none does"""
        self._heard: dict[int, None] = {}
        """jobs of which it was heard that they have ended"""
        self._endings: dict[int, Ending] = {}
        """how the last of them have ended, as an end may be told before a caller waits for it"""
        self._certain_from = 0
        """ids from here on are those of jobs of which everything was heard; 0: of none"""

    @property
    def is_open(self) -> bool:
        return self._certain_from > 0

    def confirmed(self, times: int) -> None:
        """So often was it confirmed that the channel is open."""
        if not self.is_open and 0 < self.opens_with <= times:
            self._certain_from = new_ids()[0]
        for number, (after, job) in list(self.absent.items()):
            if after <= times:
                del self.absent[number]
                self.unseen[number] = job

    def closed(self) -> None:
        """The channel was closed, so what is told meanwhile is missed."""
        self._certain_from = self.opens_with = 0
        self._heard.clear()
        self._endings.clear()
        self.absent.clear()
        self.unseen = dict(self.jobs)

    def heard(self, number: int, ending: Ending | None) -> None:
        """A job has ended; None: the caller that asked knows how already, or it has to be looked
        up.
        """
        if self._certain_from <= 0:  # it is not open
            return
        if number in self._endings:
            del self._endings[number]
        if ending is not None and ending.state == "done" and len(ending.outcome) <= _KEPT_BYTES:
            self._endings[number] = ending
            if len(self._endings) > _KEPT:
                del self._endings[next(iter(self._endings))]
        self._heard[number] = None
        if len(self._heard) > _HEARD:
            oldest = next(iter(self._heard))
            del self._heard[oldest]
            self._certain_from = max(self._certain_from, oldest + 1)

    def take_ending(self, number: int) -> Ending | None:
        """How a job has ended, if that was heard just now and no caller has asked since. A job does
        not leave the state done, but it may be removed, so this is good for one answer.
        """
        return self._endings.pop(number, None)

    def is_yet_to_end(self, number: int) -> bool:
        """Whether a job has not ended, as an open channel has not told its end."""
        return number not in self._heard and 0 < self._certain_from <= number

    def must_look(self, number: int) -> bool:
        """Whether a job may have ended without this client knowing."""
        return not self.is_yet_to_end(number) and number not in self.absent
