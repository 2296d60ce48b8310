"""When the store learns that a task is finished."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from tests.running_worker import RunningWorker


@pytest.mark.parametrize("behind", [0, 5])
def test_what_is_done_is_reported_while_the_task_after_it_takes_long(
    behind: int, queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    may_go_on = threading.Event()

    def handle(task: bytes, context: penstock.Context) -> None:
        if task == b"long":
            may_go_on.wait(30)

    queue.enqueue_many([b"first", b"second", b"long", *[b"behind"] * behind])
    start_worker({"mail": handle})

    try:
        wait_for(lambda: queue.inspect().counters.finished == 2, timeout_s=3)
    finally:
        may_go_on.set()
