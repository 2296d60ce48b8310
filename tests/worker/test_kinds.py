"""A worker whose handler is not for what a queue holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.connect import find_settings
from penstock.errors import WrongKind
from tests.running_worker import RunningWorker
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import RedisServer
    from tests.worker.conftest import Recorder


@penstock.job(queue="mail")
def send() -> None: ...


def run_to_its_end(server: RedisServer, namespace: str, handlers: Any) -> None:
    RunningWorker(find_settings(server.url, namespace), handlers).start().join()


def test_a_plain_handler_of_a_queue_of_jobs_ends_the_worker(
    ps: penstock.Penstock, server: RedisServer, namespace: str, recorder: Recorder
) -> None:
    ps.jobs("mail").add("send")

    with pytest.raises(WrongKind, match="queue 'mail' holds jobs, so a handler of plain tasks"):
        run_to_its_end(server, namespace, {"mail": recorder})

    assert ps.workers() == []


def test_jobs_for_a_queue_of_plain_tasks_end_the_worker(
    ps: penstock.Penstock, server: RedisServer, namespace: str
) -> None:
    ps.queue("mail").enqueue(b"task")

    with pytest.raises(WrongKind, match="queue 'mail' holds plain tasks"):
        run_to_its_end(server, namespace, [send])

    assert ps.workers() == []


def test_queues_are_served_beside_one_that_holds_something_else(
    ps: penstock.Penstock,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ps.jobs("images").add("resize")

    running = start_worker({"images": recorder, "mail": recorder})
    ps.queue("mail").enqueue(b"task")

    wait_for(lambda: recorder.tasks == [b"task"])
    assert ps.work_of(running.id) == ["mail"]
    [told] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.getMessage().startswith("queue is not served: queue 'images' holds jobs")


def test_a_worker_ends_when_all_that_it_can_serve_is_empty(
    ps: penstock.Penstock, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    ps.jobs("images").add("resize")
    ps.queue("mail").enqueue(b"task")

    running = start_worker({"images": recorder, "mail": recorder}, until_empty=True)

    running.join()
    assert recorder.tasks == [b"task"]


def test_a_queue_that_is_made_anew_with_jobs_is_given_up_and_the_others_are_served(
    ps: penstock.Penstock,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    start_worker({"images": recorder, "mail": recorder})
    wait_for(lambda: ps.queue("images").inspect().idle == 1)
    ps.queue("images").delete()

    ps.jobs("images").add("resize")

    wait_for(lambda: any("not served any more: queue 'images'" in m for m in caplog.messages))
    ps.queue("mail").enqueue(b"task")
    wait_for(lambda: recorder.tasks == [b"task"])


def test_an_only_queue_that_is_made_anew_with_jobs_ends_the_worker(
    ps: penstock.Penstock, server: RedisServer, namespace: str, recorder: Recorder
) -> None:
    running = RunningWorker(find_settings(server.url, namespace), {"mail": recorder}).start()
    wait_for(lambda: ps.queue("mail").inspect().idle == 1)
    ps.queue("mail").delete()

    ps.jobs("mail").add("send")

    with pytest.raises(WrongKind, match="queue 'mail' holds jobs"):
        running.join()
    assert ps.workers() == []
