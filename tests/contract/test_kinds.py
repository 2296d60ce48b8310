"""A queue holds plain tasks or jobs: what a worker or a sender of the other kind is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from penstock.errors import WrongKind
from tests.kinds import each_queue_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.model.queues import KindName
    from tests.stored import Stored

OTHER: dict[KindName, KindName] = {"tasks": "jobs", "jobs": "tasks"}
SEND: dict[KindName, Callable[[penstock.Penstock], object]] = {
    "tasks": lambda ps: ps.queue("mail").enqueue(b"task"),
    "jobs": lambda ps: ps.jobs("mail").add("email"),
}
SERVE: dict[KindName, Callable[[penstock.WorkerSession], None]] = {
    "tasks": lambda worker: worker.start_work("mail"),
    "jobs": lambda worker: worker.start_job_work("mail"),
}
REFUSED_TO_SENDERS = {
    "tasks": "queue 'mail' holds plain tasks, so it cannot hold jobs .*plain handler decides that",
    "jobs": "queue 'mail' holds jobs, so it takes no plain tasks",
}
REFUSED_TO_WORKERS = {
    "tasks": "queue 'mail' holds plain tasks, .*delete this one first .`penstock queue delete mail",
    "jobs": "queue 'mail' holds jobs, so a handler of plain tasks would never be called; .*"
    "functions marked @penstock.job",
}


@pytest.fixture
def session(ps: penstock.Penstock) -> Iterator[penstock.WorkerSession]:
    with ps.worker("ant", lease_ms=3_600_000) as session:
        yield session


@each_queue_kind
def test_a_queue_that_a_worker_has_joined_keeps_its_kind(
    kind: KindName, ps: penstock.Penstock, session: penstock.WorkerSession
) -> None:
    SERVE[kind](session)

    with pytest.raises(WrongKind, match=REFUSED_TO_SENDERS[kind]):
        SEND[OTHER[kind]](ps)

    assert ps.queue("mail").inspect().kind == kind
    SEND[kind](ps)
    assert check(ps).violations == []


@each_queue_kind
def test_a_queue_keeps_its_kind_when_its_worker_has_gone(
    kind: KindName, ps: penstock.Penstock, session: penstock.WorkerSession
) -> None:
    SERVE[kind](session)
    session.stop_work("mail")

    with pytest.raises(WrongKind):
        SEND[OTHER[kind]](ps)

    SEND[kind](ps)


@each_queue_kind
def test_a_worker_is_told_what_the_queue_holds(
    kind: KindName, ps: penstock.Penstock, session: penstock.WorkerSession, stored: Stored
) -> None:
    SEND[kind](ps)
    before = {key: value for key, value in stored.everything().items() if ":memory:" not in key}

    with pytest.raises(WrongKind, match=REFUSED_TO_WORKERS[kind]):
        SERVE[OTHER[kind]](session)

    after = {key: value for key, value in stored.everything().items() if ":memory:" not in key}
    assert after == before
    assert ps.work_of(session.id) == []


@each_queue_kind
def test_a_queue_of_which_nothing_is_decided_is_of_the_kind_of_its_first_worker(
    kind: KindName, ps: penstock.Penstock, session: penstock.WorkerSession
) -> None:
    ps.queue("mail").pause()
    assert ps.queue("mail").inspect().kind == "undecided"

    SERVE[kind](session)

    assert ps.queue("mail").inspect().kind == kind


@each_queue_kind
def test_a_queue_that_was_deleted_can_be_made_anew_with_another_kind(
    kind: KindName, ps: penstock.Penstock, session: penstock.WorkerSession
) -> None:
    SERVE[kind](session)
    ps.queue("mail").delete()

    SEND[OTHER[kind]](ps)

    with pytest.raises(WrongKind, match=REFUSED_TO_WORKERS[OTHER[kind]]):
        SERVE[kind](session)
    assert ps.work_of(session.id) == []
    assert check(ps).violations == []


def test_a_worker_finds_out_that_a_queue_was_made_anew_with_jobs(
    ps: penstock.Penstock, session: penstock.WorkerSession
) -> None:
    session.start_work("mail")
    ps.queue("mail").delete()
    ps.jobs("mail").add("email")

    for _ in range(2):
        with pytest.raises(WrongKind, match=REFUSED_TO_WORKERS["jobs"]):
            session.start_tasks("mail", 5)
        with pytest.raises(WrongKind, match=REFUSED_TO_WORKERS["jobs"]):
            session.finish_tasks("mail", [1], limit=5)
