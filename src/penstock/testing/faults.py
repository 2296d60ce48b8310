"""What is to go wrong: workers that die, replies that get lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from penstock.client.functions import JobFunction
from penstock.client.job import AsyncJob, Job
from penstock.connection.router import Router
from penstock.connection.wire import ConnectionLost, ReplyError
from penstock.errors import InvalidArgument
from penstock.model.jobs import JobInfo
from penstock.model.names import shown
from penstock.store.script import SIMULATED, scripts

if TYPE_CHECKING:
    from penstock.connection.address import Address
    from penstock.connection.wire import Meanwhile
    from penstock.model.jobs import HandedOut

    Victim = str | Job[Any] | AsyncJob[Any] | JobInfo | JobFunction[..., Any]

Point = Literal["start", "end"]


class Faults:
    """The faults that a test has asked for and that have not happened yet."""

    def __init__(self) -> None:
        self._crashes: list[_Crash] = []
        self._losses: list[_Loss] = []

    def crash(self, victim: Victim, at: Point, times: int) -> None:
        if at not in get_args(Point):
            raise InvalidArgument(f"at is {at!r}; a worker can die at the 'start' or the 'end'")
        _check_times(times)
        if isinstance(victim, str):
            self._crashes.append(_Crash("", "", victim, at, times))
        elif isinstance(victim, JobFunction):
            self._crashes.append(_Crash("", victim.queue, victim.type, at, times))
        elif isinstance(victim, Job | AsyncJob | JobInfo):
            self._crashes.append(_Crash(victim.id, victim.queue, victim.type, at, times))
        else:
            raise InvalidArgument(
                f"{shown(victim)} is nothing that a worker could run; name a job, a function that "
                "is one, or a type"
            )

    def crashing_types(self) -> set[str]:
        """Those that were named by themselves, so that there may be none of such a name."""
        return {crash.type for crash in self._crashes if crash.times > 0 and crash.queue == ""}

    def must_crash(self, queue: str, job: HandedOut, at: Point) -> bool:
        """Whether the worker dies now; each time counts."""
        for crash in self._crashes:
            if crash.times > 0 and crash.at == at and crash.is_for(queue, job):
                crash.times -= 1
                return True
        return False

    def lose_reply(self, script: str, times: int) -> None:
        _check_times(times)
        self._losses.append(_Loss(*_forms(script), times))

    def must_lose(self, request: bytes) -> bool:
        """Whether the reply to this request gets lost; each time counts."""
        for loss in self._losses:
            if loss.times > 0 and (loss.digest in request or loss.text in request):
                loss.times -= 1
                return True
        return False


class LossyRouter(Router):
    """The way to a server, on which replies can get lost."""

    def __init__(self, address: Address, timeout_s: float, faults: Faults) -> None:
        super().__init__(address, timeout_s)
        self._faults = faults

    def exchange(
        self,
        key: str,
        packed: bytes,
        meanwhile: Meanwhile = None,
        *,
        others_first: bool = False,
    ) -> Any:
        reply = super().exchange(key, packed, meanwhile, others_first=others_first)
        if not isinstance(reply, ReplyError) and self._faults.must_lose(packed):
            raise ConnectionLost("the reply was lost, as the test wants it")
        return reply


@dataclass(slots=True)
class _Crash:
    id: str
    """'' for any job of the type"""
    queue: str
    """'' for any queue"""
    type: str
    at: Point
    times: int

    def is_for(self, queue: str, job: HandedOut) -> bool:
        return self.id in ("", job.id) and self.queue in ("", queue) and self.type == job.type


@dataclass(slots=True)
class _Loss:
    digest: bytes
    text: bytes
    times: int


def _forms(script: str) -> tuple[bytes, bytes]:
    """The two ways in which a request names its script."""
    for found in scripts():
        if script in (found.name, f"{found.kind}/{found.name}"):
            return found.digest(SIMULATED).encode(), found.text(SIMULATED).encode()
    raise InvalidArgument(
        f"there is no script {script!r}; its name is that of a file in penstock/store/scripts, "
        "such as 'send_jobs' or 'report_jobs'"
    )


def _check_times(times: int) -> None:
    if type(times) is not int or times < 1:
        raise InvalidArgument(f"times is {times!r}; give a whole number from 1 up")
