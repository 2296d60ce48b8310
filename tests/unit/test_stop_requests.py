"""How many requests to stop a worker has had, which hears some of them twice."""

from __future__ import annotations

import signal
from math import inf

import pytest

from penstock.worker import stop_requests
from penstock.worker.shared_memory import SharedMemory
from penstock.worker.stop_requests import LEAVE_S, StopDeadline, StopRequests, stop_signals

APART_S = 1.0


class Group:
    """A worker and its supervisor, which are sent signals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shared = SharedMemory()
        self._requests = StopRequests(self._shared)
        self._now = 0.0
        monkeypatch.setattr(stop_requests, "monotonic", lambda: self._now)

    def wait(self) -> None:
        self._now += APART_S

    def to_worker(self) -> int:
        return self._requests.heard()

    def to_supervisor(self) -> int:
        self._shared.pass_on()
        return self._requests.heard()

    def to_both(self) -> int:
        return self.to_worker() + self.to_supervisor()

    def to_both_the_long_way_first(self) -> int:
        self._shared.pass_on()
        return self._requests.heard() + self._requests.heard()

    def to_both_at_one_moment(self) -> int:
        return self.to_supervisor()  # what is the same and pending comes once

    def twice_to_supervisor_before_the_worker_looks(self) -> int:
        self._shared.pass_on()
        return self.to_supervisor() + self.to_worker()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


ONCE = [
    *(Group.to_worker, Group.to_supervisor, Group.to_both),
    *(Group.to_both_the_long_way_first, Group.to_both_at_one_moment),
]


@pytest.mark.parametrize("second", ONCE)
@pytest.mark.parametrize("first", ONCE)
def test_each_request_counts_once_however_it_comes(
    group: Group, first: object, second: object
) -> None:
    assert first(group) == 1  # type: ignore[operator]
    group.wait()
    assert second(group) == 1  # type: ignore[operator]


@pytest.mark.parametrize("send", ONCE[:3])
def test_requests_that_follow_each_other_closely_count_too(group: Group, send: object) -> None:
    assert [send(group) for _ in range(3)] == [1, 1, 1]  # type: ignore[operator]


def test_two_signals_that_are_passed_on_together_are_two_requests(group: Group) -> None:
    assert group.twice_to_supervisor_before_the_worker_looks() == 2


def test_a_worker_without_a_supervisor_counts_every_signal() -> None:
    requests = StopRequests(SharedMemory())

    assert [requests.heard() for _ in range(3)] == [1, 1, 1]


class TestDeadline:
    @pytest.fixture
    def at_zero(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stop_requests, "monotonic", lambda: 0.0)

    @pytest.mark.usefixtures("at_zero")
    def test_a_worker_that_was_not_asked_to_stop_has_none(self) -> None:
        deadline = StopDeadline(30.0)
        deadline.asked(0)

        assert (deadline.at, deadline.was_asked) == (inf, False)

    @pytest.mark.usefixtures("at_zero")
    def test_what_runs_has_the_grace_time_until_the_second_request(self) -> None:
        deadline = StopDeadline(30.0)
        deadline.asked(1)
        first = deadline.at
        deadline.asked(2)

        assert first - deadline.at == 30.0
        assert deadline.at > LEAVE_S

    def test_a_request_that_is_told_again_changes_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0
        monkeypatch.setattr(stop_requests, "monotonic", lambda: now)
        deadline = StopDeadline(30.0)
        deadline.asked(2)
        before, now = deadline.at, -10.0
        deadline.asked(2)
        deadline.asked(3)

        assert deadline.at == before


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    assert signal.SIGHUP in stop_signals()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert stop_signals() == {signal.SIGTERM, signal.SIGINT}
    finally:
        signal.signal(signal.SIGHUP, before)
