"""The raw limits of jobs with a record: a field of a hash, an entry of a list, no promises.

Run as `python -m bench.peers.raw_jobs` with BENCH_PORT set to an empty Redis; prints one line of
JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from typing import TYPE_CHECKING

import hiredis
from bench.peers.adapters.stopwatch import (
    BATCH_JOBS,
    RESULT,
    payload,
    port,
    redis_usage,
    uneven_pause_s,
)
from bench.peers.harness import percentile
from bench.peers.raw import SAMPLES, WARM_UP_SAMPLES, Connected, pack
from bench.peers.sheets import RAW_ROUND_TRIP, RAW_RUN, RAW_SEND

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = tuple[str, ...]
    Step = Callable[[Connected, range], None]

JOBS = 60_000
PATIENCE_S = 20
ENCODED_RESULT = json.dumps(RESULT)


def main() -> None:
    connection = Connected()
    # Redis keeps something for every command that it has once seen.
    _send(connection, range(BATCH_JOBS))
    _run(connection, range(BATCH_JOBS))
    connection.request("FLUSHALL")
    results = {RAW_SEND: _measure(connection, _send), RAW_RUN: _measure(connection, _run)}
    # Running jobs adds none.
    del results[RAW_RUN]["bytes_per_job"]
    connection.request("FLUSHALL")
    results[RAW_ROUND_TRIP] = _round_trips(connection)
    print(json.dumps(results))


def _send(connection: Connected, numbers: range) -> None:
    _trip(connection, [command for number in numbers for command in _new_job(str(number))])


def _run(connection: Connected, numbers: range) -> None:
    """Two trips: start the jobs and end them. Their order is known, so no reply is read."""
    names = [str(number) for number in numbers]
    _trip(connection, [command for name in names for command in _started(name)])
    _trip(connection, [command for name in names for command in _ended(name)])


def _new_job(name: str) -> list[Command]:
    return [("HSET", "jobs", name, f'{{"task":"{payload()}"}}'), ("LPUSH", "ready", name)]


def _started(name: str) -> list[Command]:
    return [("LMOVE", "ready", "running", "RIGHT", "LEFT"), ("HGET", "jobs", name)]


def _ended(name: str) -> list[Command]:
    return [("HSET", "results", name, ENCODED_RESULT), ("RPOP", "running")]


def _trip(connection: Connected, commands: list[Command]) -> None:
    connection.send(b"".join(pack(command) for command in commands))
    for _ in commands:
        reply = connection.receive()
        if isinstance(reply, hiredis.ReplyError):
            raise reply


def _measure(connection: Connected, step: Step) -> dict[str, float]:
    """Of `JOBS` jobs, sent or run by the hundred, the commands packed as they are needed."""
    before, cpu, started_at = redis_usage(port()), time.process_time(), time.perf_counter()
    for start in range(0, JOBS, BATCH_JOBS):
        step(connection, range(start, start + BATCH_JOBS))
    seconds, cpu_after = time.perf_counter() - started_at, time.process_time()
    after = redis_usage(port())
    return {
        "per_s": JOBS / seconds,
        "client_us": (cpu_after - cpu) * 1e6 / JOBS,
        "redis_us": (after["cpu_s"] - before["cpu_s"]) * 1e6 / JOBS,
        "bytes_per_job": (after["data_bytes"] - before["data_bytes"]) / JOBS,
    }


def _round_trips(connection: Connected) -> dict[str, float]:
    """From before a job is written to after its result was read, its worker idle."""
    worker = multiprocessing.get_context("spawn").Process(target=_work, daemon=True)
    worker.start()
    pauses, taken = random.Random(1), []
    try:
        for number in range(WARM_UP_SAMPLES + SAMPLES):
            began_at = time.perf_counter()
            _trip(connection, _new_job(str(number)))
            if connection.request("BRPOP", f"result:{number}", PATIENCE_S) is None:
                raise TimeoutError(f"no result for {PATIENCE_S} s")
            taken.append((time.perf_counter() - began_at) * 1e3)
            time.sleep(uneven_pause_s(pauses))
    finally:
        worker.kill()
        worker.join()
    taken = taken[WARM_UP_SAMPLES:]
    return {"p50_ms": percentile(taken, 0.5), "p99_ms": percentile(taken, 0.99)}


def _work() -> None:
    connection = Connected()
    wait = ("BLMOVE", "ready", "running", "RIGHT", "LEFT", PATIENCE_S)
    for _ in range(WARM_UP_SAMPLES + SAMPLES):
        name = connection.request(*wait).decode()
        connection.request("HGET", "jobs", name)
        _trip(connection, [*_ended(name), ("LPUSH", f"result:{name}", ENCODED_RESULT)])


if __name__ == "__main__":
    main()
