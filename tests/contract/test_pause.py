"""Pausing and resuming a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.command import Operation, QueueAbsent
from penstock.store.commands import processes, queues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored


def test_a_paused_queue_hands_out_nothing_and_still_accepts(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")

    queue.pause()
    queue.enqueue(b"b")

    assert worker.start_tasks("mail", 10) == []
    assert queue.page().tasks == [b"a", b"b"]
    assert queue.inspect().is_paused


def test_what_runs_can_be_finished_while_the_queue_is_paused(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    queue.pause()

    process.finish()

    assert queue.inspect().counters.finished == 1


def test_a_resumed_queue_hands_out_again(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    queue.pause()

    queue.resume()

    [process] = worker.start_tasks("mail")
    assert process.task == b"a"
    assert not queue.inspect().is_paused


def test_pausing_an_unknown_queue_asks_for_registration(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    with pytest.raises(QueueAbsent):
        ps.store.run(queues.pause_queue(keys, Operation("lane", 1)))

    assert list(stored.everything()) == [keys.memory("lane")]


def test_a_late_copy_of_a_pause_does_not_pause_a_resumed_queue(
    ps: penstock.Penstock, queue: penstock.Queue, keys: QueueKeys
) -> None:
    queue.enqueue(b"a")
    pause = queues.pause_queue(keys, Operation("lane", 1))
    ps.store.run(pause)
    queue.resume()

    ps.store.run(pause)

    assert not queue.inspect().is_paused


def test_pausing_creates_the_queue(ps: penstock.Penstock, queue: penstock.Queue) -> None:
    queue.pause()

    assert ps.queues() == ["mail"]
    assert queue.inspect().is_paused


def test_resuming_an_unknown_queue_does_nothing(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    assert ps.store.run(queues.resume_queue(keys)) is False

    assert stored.everything() == {}


def test_resuming_wakes_workers_for_what_waits(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue(b"a")
    queue.pause()
    claim = ps.store.run(processes.start_tasks(keys, next(operations), worker.id, 1, wait=True))
    wake, work = listen(keys.wake + worker.id), listen(keys.work)

    queue.resume()

    assert claim.word == "paused"
    assert wake.hear_the_rest() == [b""]
    assert work.hear_the_rest() == [b"1"]


def test_resuming_a_queue_that_is_not_paused_tells_nobody(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    queue.enqueue(b"a")
    ear = listen(keys.work)

    queue.resume()

    assert ear.hear_the_rest() == []
