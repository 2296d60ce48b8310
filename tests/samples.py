"""One command of every script, and a world in which each of them has something to do."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING, Any

from penstock.codec.chunks import pack_chunk
from penstock.model.staging import Keep, Stage
from penstock.store.command import Command, Operation
from penstock.store.commands import checks, processes, queues, staging, tasks, workers
from penstock.store.script import scripts

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys

QUEUE = "mail"
SCRIPTS = {script.name: script for script in scripts("tasks", "queues", "workers", "batches")}
"""Every script that has a sample here, by name."""
LANE = "sample"
MINUTE_MS = 60_000
STAGES = [Stage(name, chunks=1, rows=1, largest=1) for name in ("s1", "s2", "s3")]


def sample_world(store: Store, keys: NamespaceKeys) -> int:
    """A queue with every kind of key in use; returns the first of two processes of `w1`.

    `w1` holds b"flaky" and b"a", `w2` waits for a wake-up, `w3` is condemned. b"b" and the unique
    b"once" are waiting, b"poison" is dead, b"flaky" has failed once. b"m" is decided and to be
    moved; what stages s2 and s3 hold is not decided. The lane of the samples has been in use, so
    that forgetting its last request too early shows.
    """
    queue = keys.queue(QUEUE)
    operations = (Operation(LANE, number) for number in count(1))
    run = store.run
    for worker in ("w1", "w2", "w3"):
        run(workers.start_worker(keys, next(operations), worker, MINUTE_MS, "{}"))
    run(queues.register_queue(keys, QUEUE, "i1"))
    for worker in ("w1", "w2"):
        run(workers.start_work(keys, worker, QUEUE, "tasks"))
        run(queues.join_queue(queue, next(operations), worker, "i1"))
    for task, max_failures in ((b"poison", 1), (b"flaky", None)):
        run(queues.configure_queue(queue, next(operations), {"max_failures": max_failures}))
        run(tasks.enqueue_tasks(queue, next(operations), [task]))
        claim = run(processes.start_tasks(queue, next(operations), "w1", 1))
        run(processes.fail_tasks(queue, next(operations), "w1", [claim.first_process]))
    run(tasks.enqueue_tasks(queue, next(operations), [b"a", b"b"]))
    run(tasks.enqueue_unique_task(queue, next(operations), b"once", b"=key", b"8 bytes."))
    claim = run(processes.start_tasks(queue, next(operations), "w1", 2))
    store.call(queue.idle, "SADD", queue.idle, "w2")
    run(workers.fail_worker(keys, "w3", 0))
    run(workers.pause_worker(keys, "w2", is_paused=True))
    for stage in STAGES:
        run(staging.stage_chunk(queue, "b", stage.name, 0, pack_chunk([b"m"]), 1000))
    keep = Keep("batch b1", MINUTE_MS)
    run(staging.decide_batch(queue, next(operations), "b1", 0, "tasks", STAGES[:1], keep=keep))
    return claim.first_process


def sample_commands(
    keys: NamespaceKeys, process: int, number: int = 100
) -> dict[str, Command[Any]]:
    """Script -> a command of it, with two of whatever it takes any number of."""
    queue = keys.queue(QUEUE)
    operation = Operation(LANE, number)
    held = [process, process + 1]
    commands: list[Command[Any]] = [
        workers.start_worker(keys, operation, "w4", MINUTE_MS, "{}"),
        workers.keep_worker_alive(keys, "w1", MINUTE_MS, 10, "{}"),
        workers.pause_worker(keys, "w1", is_paused=True),
        workers.list_paused_workers(keys),
        workers.start_work(keys, "w1", "other", "tasks"),
        workers.stop_work(keys, operation, "w1", QUEUE, "tasks"),
        workers.fail_worker(keys, "w1", MINUTE_MS),
        workers.forget_worker(keys, "w3"),
        workers.list_workers(keys),
        workers.list_work(keys, "w1"),
        queues.register_queue(keys, "other", "i2"),
        queues.unregister_queue(keys, "i1"),
        queues.list_queues(keys, "0"),
        queues.join_queue(queue, operation, "w4"),
        queues.leave_queue(queue, operation, "w1", is_lost=True),
        queues.pass_work(queue, "w2"),
        queues.pause_queue(queue, operation),
        queues.resume_queue(queue),
        queues.configure_queue(queue, operation, {"max_length": 10}),
        queues.delete_queue(queue, operation),
        queues.inspect_queue(queue, ["w1", "w2"]),
        tasks.enqueue_tasks(queue, operation, [b"x", b"y"]),
        tasks.enqueue_unique_task(queue, operation, b"x", b"=other", b"8 BYTES."),
        tasks.cancel_tasks(queue, operation, b"once"),
        tasks.retry_dead_tasks(queue, operation, 10),
        tasks.page_tasks(queue.ready, 0, 10),
        processes.start_tasks(queue, operation, "w1", 1, wait=True),
        processes.finish_tasks(queue, operation, "w1", held, [b"r1", b"r2"], 1, wait=True),
        processes.stop_tasks(queue, operation, "w1", held),
        processes.fail_tasks(queue, operation, "w1", held),
        processes.read_failures(queue, "w1", held),
        processes.find_processes(queue, "w1", b"a"),
        staging.stage_chunk(queue, "b", "s4", 0, pack_chunk([b"x"]), 1000),
        staging.decide_batch(queue, operation, "b2", 0, "tasks", STAGES[1:]),
        staging.move_tasks(queue),
        staging.drop_stages(queue, ["s1", "s2"]),
        checks.describe_key(queue.ready),
        checks.read_queue(queue, ["w1", "w2"], 1000),
        checks.mend_unique_key(queue, ["w1", "w2"], b"=key", b""),
        checks.forget_failures(queue, hashlib.sha1(b"flaky").hexdigest(), 1),
    ]
    return {command.script.name: command for command in commands}


def more_commands(keys: NamespaceKeys, process: int, number: int = 100) -> dict[str, Command[Any]]:
    """What the same scripts also do -> a command that makes them do it."""
    queue = keys.queue(QUEUE)
    operation = Operation(LANE, number)
    held = [process, process + 1]
    return {
        "finish and start nothing": processes.finish_tasks(queue, operation, "w1", held),
        "finish nothing and start": processes.finish_tasks(queue, operation, "w1", [], limit=1),
        "stop to the back": processes.stop_tasks(queue, operation, "w1", held, "back"),
        "leave in peace": queues.leave_queue(queue, operation, "w1", is_lost=False),
        "lift a maximum": queues.configure_queue(queue, operation, {"max_failures": None}),
        "register for a worker": queues.register_queue(keys, "other", "i2", joins=True),
        "resume a worker": workers.pause_worker(keys, "w2", is_paused=False),
    }
