"""What a worker counts of the logs that it reads, and tells with its heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock
from penstock.worker.handlers import collect_handlers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker


def append(ps: penstock.Penstock, count: int) -> penstock.Log:
    log = ps.log("clicks")
    log.append_many([b"%d" % number for number in range(count)])
    return log


def told(ps: penstock.Penstock, name: str) -> Any:
    found = [info.about.get(name) for info in ps.workers()]
    return found[0] if found else None


def test_messages_are_counted_as_processed_failed_and_retried(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    log = append(ps, 20)

    @penstock.consumer("clicks", "g", batch=10, attempts=2, backoff=0.01)
    def consumer(messages: list[penstock.Message]) -> None:
        if any(message.body == b"13" for message in messages):
            raise ValueError("thirteen")

    start_worker(collect_handlers([consumer]), heartbeat_ms=50)

    wait_for(lambda: (told(ps, "logs") or {}).get("processed") == 19)
    wait_for(lambda: told(ps, "partitions")[0]["committed"] == log.partition_info(0).last)
    counted = told(ps, "logs")
    # The second batch was tried twice as a whole, then message by message.
    assert (counted["failed"], counted["retried"]) == (1, 10 + 10)
    assert counted["rebalances"] == 1
    assert counted["connecting"]["times"] == 1
    assert counted["running"]["times"] == 1 + 2 + 10
    assert counted["committing"]["times"] >= 1
    assert counted["running"]["longest_s"] >= counted["running"]["mean_s"] > 0


def test_of_single_messages_only_the_one_that_failed_is_retried(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    append(ps, 5)
    tried: list[bytes] = []

    @penstock.consumer("clicks", "g", attempts=3, backoff=0.01)
    def consumer(message: penstock.Message) -> None:
        tried.append(message.body)
        if message.body == b"2" and tried.count(b"2") < 3:
            raise ValueError("not yet")

    start_worker(collect_handlers([consumer]), heartbeat_ms=50)

    wait_for(lambda: (told(ps, "logs") or {}).get("processed") == 5)
    assert (told(ps, "logs")["failed"], told(ps, "logs")["retried"]) == (0, 2)


def test_partitions_are_told_with_epoch_position_and_state(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    log = append(ps, 3)

    @penstock.consumer("clicks", "g", attempts=1, on_failure="stop")
    def consumer(message: penstock.Message) -> None:
        if message.body == b"1":
            raise ValueError("no")

    start_worker(collect_handlers([consumer]), heartbeat_ms=50)

    wait_for(lambda: [one["state"] for one in told(ps, "partitions") or []] == ["stands still"])
    wait_for(lambda: told(ps, "partitions")[0]["committed"] != "0-0")
    first, second, _ = log.page(0)
    assert told(ps, "partitions") == [
        {
            "log": "clicks",
            "group": "g",
            "partition": 0,
            "epoch": log.partition_info(0).readers[0].epoch,
            "position": first.id,
            "committed": first.id,
            "state": "stands still",
            "problem": f"message {second.id} failed 1 times",
        }
    ]
    assert told(ps, "partitions_owned") == 1


def test_a_worker_without_consumers_tells_nothing_of_logs(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    running = start_worker({"mail": lambda task: None}, heartbeat_ms=50)

    assert running.worker is not None
    assert running.worker.news() == {}
    assert told(ps, "logs") is None
