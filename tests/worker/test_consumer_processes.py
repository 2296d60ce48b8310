"""Consumers in processes of their own: what they get, and what becomes of messages that kill."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import HandlerNotFound, InvalidArgument
from penstock.worker.handlers import collect_handlers
from tests.servers import wait_for
from tests.worker import consumers_in_processes as consumers
from tests.worker.job_contexts import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.running_worker import RunningWorker


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def consume(start_worker: Callable[..., RunningWorker]) -> Iterator[Callable[..., RunningWorker]]:
    started: list[RunningWorker] = []

    def start(*functions: Any, **options: Any) -> RunningWorker:
        started.append(start_worker(collect_handlers(functions), **options))
        return started[-1]

    yield start
    for worker in started:
        worker.stop()
        worker.join()
    assert children() == []


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    return ps.log("clicks", partitions=2)


def fill(log: penstock.Log, notes: Path, *bodies: str) -> None:
    headers = {"notes": str(notes)}
    log.append_many([penstock.NewMessage(body.encode(), None, headers, None, 0) for body in bodies])


def bodies_in(notes: Path) -> list[str]:
    return [line["body"] for line in consumers.read_notes(notes)]


def errors_of(ps: penstock.Penstock, group: str) -> list[tuple[bytes, str, int]]:
    errors = ps.log("clicks").group(group).errors(0)
    return [(error.message.body, error.reason, error.attempts) for error in errors]


def committed(ps: penstock.Penstock, group: str) -> str:
    readers = ps.log("clicks").partition_info(0).readers
    return next((reader.offset for reader in readers if reader.name == group), "")


def test_a_consumer_in_a_process_gets_all_that_a_message_has(
    clicks: penstock.Log, consume: Callable[..., RunningWorker], notes: Path
) -> None:
    body = bytes(range(256)).replace(b"\n", b"")
    headers = {"notes": str(notes), "é": "ü"}
    at = clicks.append(body, key="user-1", headers=headers, at=1_700_000_000.25, partition=1)

    worker = consume(consumers.tell)

    wait_for(lambda: bodies_in(notes))
    [seen] = consumers.read_notes(notes)
    assert seen.pop("pid") != os.getpid()
    assert seen.pop("token") > 0
    assert seen == {
        "body": body.decode("latin-1"),
        "id": at.id,
        "key": "user-1",
        "headers": headers,
        "at": 1_700_000_000.25,
        "partition": 1,
        "queue": "clicks",
        "worker": worker.id,
        "resources": "no_resources",
    }


@pytest.mark.parametrize(
    ("order", "reason"), [("crash", "signal 11 (SIGSEGV)"), ("exit", "exit status 7")]
)
def test_a_message_that_kills_its_process_is_given_up_alone_and_none_before_it_runs_again(
    order: str,
    reason: str,
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, "0", "1", order, "3")

    worker = consume(consumers.obey)

    wait_for(lambda: bodies_in(notes)[-1:] == ["3"])
    assert bodies_in(notes) == ["0", "1", order, order, "3"]
    [(body, why, attempts)] = errors_of(ps, "g")
    assert (body, attempts) == (order.encode(), 2)
    assert why.startswith(f"JobCrashed: the process of the consumer ended by {reason}")
    assert "peak memory" in why
    assert worker.is_running


def test_what_it_raises_is_kept_as_without_a_process(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, "raise", "1")

    consume(consumers.obey)

    wait_for(lambda: bodies_in(notes)[-1:] == ["1"])
    assert errors_of(ps, "g") == [(b"raise", "ValueError: no such thing", 2)]
    assert len({line["pid"] for line in consumers.read_notes(notes)}) == 1


def test_a_batch_that_kills_its_process_comes_one_by_one(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, "0", "1", "kill", "3")

    consume(consumers.in_lists)

    wait_for(lambda: bodies_in(notes)[-1:] == ["3"])
    counts = [(line["body"], line["count"]) for line in consumers.read_notes(notes)]
    assert counts == [("0", 4), ("0", 4), ("0", 1), ("1", 1), ("kill", 1), ("3", 1)]
    [(body, why, attempts)] = errors_of(ps, "lists")
    assert (body, attempts) == (b"kill", 3)
    assert "signal 9 (SIGKILL)" in why


def test_a_message_past_its_time_ends_with_its_process_and_each_has_its_own_time(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, "slow", "slow", "slow", "hang", "4")

    consume(consumers.obey)

    wait_for(lambda: bodies_in(notes)[-1:] == ["4"])
    assert bodies_in(notes) == ["slow", "slow", "slow", "hang", "hang", "4"]
    [(body, why, _)] = errors_of(ps, "g")
    assert body == b"hang"
    assert "JobTimeout" in why and "timeout of 1 s" in why
    pids = [line["pid"] for line in consumers.read_notes(notes)]
    assert len({pids[0], pids[4], pids[5]}) == 3


def test_a_worker_that_stops_ends_between_two_messages(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, *["slow"] * 50)
    worker = consume(consumers.obey)
    wait_for(lambda: len(bodies_in(notes)) == 2)

    worker.stop()
    worker.join()

    handled = len(bodies_in(notes))
    assert handled < 10
    ids = [message.id for message in clicks.read(partition=0)]
    assert committed(ps, "g") == ids[handled - 1]


def test_a_partition_that_was_lost_ends_what_runs_of_it(
    clicks: penstock.Log, consume: Callable[..., RunningWorker], notes: Path
) -> None:
    fill(clicks, notes, "0", "1")
    worker = consume(consumers.until_cancelled)
    wait_for(lambda: bodies_in(notes) == ["0"])

    assert worker.worker is not None
    [source] = [p.source for p in worker.worker.serving.pumps if p.feed.load]
    source.lease.lose()

    wait_for(lambda: bodies_in(notes)[1:] == ["0"])
    assert consumers.read_notes(notes)[1]["was_cancelled"]


def test_while_no_process_can_be_made_ready_no_message_is_given_up(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    consume: Callable[..., RunningWorker],
    notes: Path,
) -> None:
    fill(clicks, notes, "0")

    worker = consume(consumers.obey, modules=["there_is_no_such_module"])

    assert worker.worker is not None
    pumps = worker.worker.serving.pumps
    wait_for(lambda: [p for p in pumps if p.source.holds_until > 0])
    first = [p.source.holds_until for p in pumps if p.source.holds_until > 0]
    wait_for(lambda: any(p.source.holds_until > first[0] + 2.5 for p in pumps))
    assert errors_of(ps, "g") == []
    assert committed(ps, "g") == "0-0"


def test_what_no_process_can_run_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidArgument, match="'later' is a coroutine function"):

        @penstock.consumer("clicks", "g", process=True)
        async def later(message: penstock.Message) -> None: ...

    with pytest.raises(InvalidArgument, match="'both' is a job already"):

        @penstock.consumer("clicks", "g", process=True)
        @penstock.job
        def both(message: penstock.Message) -> None: ...


def test_a_function_that_no_process_can_import_is_refused_at_the_start(
    ps: penstock.Penstock,
) -> None:
    @penstock.consumer("clicks", "g", process=True)
    def local(message: penstock.Message) -> None: ...

    with pytest.raises(HandlerNotFound, match="consumer 'local' is to run in a process"):
        penstock.Worker(ps.settings, [local])

    local.__module__ = "__main__"
    with pytest.raises(HandlerNotFound, match="__main__"):
        penstock.Worker(ps.settings, [local])
