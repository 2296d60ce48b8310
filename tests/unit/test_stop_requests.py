"""How many requests to stop a worker has had, which hears some of them twice."""

from __future__ import annotations

import pytest

from penstock.worker import supervisor
from penstock.worker.supervisor import SharedMemory, StopRequests

APART_S = 1.0


class Group:
    """A worker and its supervisor, which are sent signals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shared = SharedMemory()
        self._requests = StopRequests(self._shared)
        self._now = 0.0
        monkeypatch.setattr(supervisor, "monotonic", lambda: self._now)

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
def test_each_request_counts_once_whoever_is_told(
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
    requests = StopRequests(None)

    assert [requests.heard() for _ in range(3)] == [1, 1, 1]
