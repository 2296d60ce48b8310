"""What every Python adapter shares: the payload, the record of a run, and the clock around a loop.

An adapter runs in its peer's environment, so this file uses the standard library alone. Its
sub-commands are `enqueue-one N`, `enqueue-bulk N`, `latency N`, `roundtrip N`, `roundtrips` (as
many as each line of its input says; not for asyncio) and `worker`; all but the last print one line
of JSON, or one for each line. `stopwatch.mjs` is the same for Node.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Literal

# In flight at once, where a library has no bulk call; and what goes in one trip at the raw limit.
BATCH_JOBS = 100
WARM_UP_JOBS = 100
PAYLOAD_BYTES = 100
RECORD_BYTES = 40
SAMPLE_TIMEOUT_S = 10
# How often a library looks for the result if it can only look.
LOOK_EVERY_S = 0.0005
RESULT = {"ok": True}

# call: one request of the library's own; in_flight: many single enqueues at once; none: a loop.
Bulk = Literal["call", "in_flight", "none"]


def jobs_a_call() -> int:
    """How many jobs one bulk call sends."""
    return int(os.environ.get("BENCH_CALL", "1000"))


def port() -> int:
    return int(os.environ["BENCH_PORT"])


def url() -> str:
    return f"redis://127.0.0.1:{port()}/0"


def setting() -> str:
    """Which of the peer's worker settings is asked for, such as `threads` or `2x8`."""
    return os.environ.get("BENCH_SETTING", "")


def keeps_results() -> bool:
    """Whether the run is about jobs, whose results are kept, or about tasks that have none."""
    return os.environ.get("BENCH_KIND") == "jobs"


def payload() -> str:
    """One hundred characters that begin with the instant they were made, in nanoseconds."""
    return f"{time.monotonic_ns():020d}".ljust(PAYLOAD_BYTES, "x")


class Recorder:
    """Appends one record per run of the handler: when it started, and when its job was made."""

    def __init__(self) -> None:
        self._file = -1
        self._result = RESULT if keeps_results() else None

    def record(self, task: str) -> dict[str, bool] | None:
        """Returns what the handler is to return."""
        started_at = time.monotonic_ns()
        if self._file < 0:
            # Opened on first use, so that a forked worker never shares what a parent opened.
            self._file = os.open(os.environ["BENCH_RECORDS"], os.O_WRONLY | os.O_APPEND)
        os.write(self._file, b"%020d%s" % (started_at, task[:20].encode()))
        return self._result


record = Recorder().record


def main(
    send: Callable[[str], object],
    send_many: Callable[[list[str]], object] | None,
    work: Callable[[], object],
    ask: Callable[[str], object] | None = None,
) -> None:
    """Run the sub-command of a library that is called without `await`.

    `ask` sends one job and returns its result.
    """
    verb, jobs = _arguments()
    if verb == "worker":
        work()
    elif verb == "latency":
        pace = Pace()
        for _ in range(jobs):
            send(payload())
            pace.wait_for_the_record()
        print(json.dumps({"jobs": jobs}))
    elif verb == "roundtrip" and ask is not None:
        _round_trips(jobs, ask)
    elif verb == "roundtrips" and ask is not None:
        for line in sys.stdin:
            _round_trips(int(line), ask)
    elif verb == "enqueue-bulk" and send_many is not None:
        send_many([payload() for _ in range(WARM_UP_JOBS)])
        with measured(jobs, bulk="call"):
            for size in batches(jobs, jobs_a_call()):
                send_many([payload() for _ in range(size)])
    else:
        for _ in range(WARM_UP_JOBS):
            send(payload())
        with measured(jobs, bulk="none"):
            for _ in range(jobs):
                send(payload())


def _round_trips(jobs: int, ask: Callable[[str], object]) -> None:
    trips = RoundTrips()
    for _ in range(jobs):
        trips.begin()
        trips.end(ask(payload()))
        time.sleep(trips.pause_s())
    trips.tell()


Send = Callable[[str], Awaitable[object]]
SendMany = Callable[[list[str]], Awaitable[object]]
Ask = Callable[[str], Awaitable[object]]


def main_async(
    producer: Callable[[], AbstractAsyncContextManager[tuple[Send, SendMany | None, Ask]]],
    work: Callable[[], object],
) -> None:
    """Run the sub-command of an asyncio library, on uvloop."""
    verb, jobs = _arguments()
    if verb == "worker":
        work()
        return

    async def produce() -> None:
        async with producer() as (send, send_many, ask):
            if verb == "roundtrip":
                await _ask(jobs, ask)
            else:
                await _produce(verb, jobs, send, send_many)

    import uvloop  # noqa: PLC0415 - only the asyncio peers' environments have it

    uvloop.run(produce())


async def _ask(jobs: int, ask: Ask) -> None:
    trips = RoundTrips()
    for _ in range(jobs):
        trips.begin()
        trips.end(await ask(payload()))
        await asyncio.sleep(trips.pause_s())
    trips.tell()


async def _produce(verb: str, jobs: int, send: Send, send_many: SendMany | None) -> None:
    if verb == "latency":
        pace = Pace()
        for _ in range(jobs):
            await send(payload())
            pace.wait_for_the_record()
        print(json.dumps({"jobs": jobs}))
    elif verb == "enqueue-bulk":
        bulk: Bulk = "call" if send_many else "in_flight"

        async def send_batch(size: int) -> None:
            if send_many:
                await send_many([payload() for _ in range(size)])
            else:
                await asyncio.gather(*(send(payload()) for _ in range(size)))

        await send_batch(WARM_UP_JOBS)
        with measured(jobs, bulk=bulk):
            for size in batches(jobs, jobs_a_call() if send_many else BATCH_JOBS):
                await send_batch(size)
    else:
        for _ in range(WARM_UP_JOBS):
            await send(payload())
        with measured(jobs, bulk="none"):
            for _ in range(jobs):
                await send(payload())


def _arguments() -> tuple[str, int]:
    return sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0


def batches(jobs: int, most: int) -> Iterator[int]:
    """Sizes of the batches that make up `jobs`."""
    for start in range(0, jobs, most):
        yield min(most, jobs - start)


@contextmanager
def measured(jobs: int, bulk: Bulk) -> Iterator[None]:
    """Print, as JSON, what the loop inside cost the client and Redis, per job."""
    before, cpu_before, started_at = redis_usage(port()), time.process_time(), time.perf_counter()
    yield
    seconds, cpu_after = time.perf_counter() - started_at, time.process_time()
    after = redis_usage(port())
    print(
        json.dumps(
            {
                "jobs": jobs,
                "queued": jobs + WARM_UP_JOBS,
                "bulk": bulk,
                "seconds": seconds,
                "client_us": (cpu_after - cpu_before) * 1e6 / jobs,
                "redis_us": (after["cpu_s"] - before["cpu_s"]) * 1e6 / jobs,
                "bytes_per_job": (after["data_bytes"] - before["data_bytes"]) / jobs,
            }
        )
    )


class Pace:
    """Keeps a latency run at one job at a time, with uneven pauses between them."""

    def __init__(self) -> None:
        self._records = Path(os.environ["BENCH_RECORDS"])
        self._size = self._records.stat().st_size
        self._random = random.Random(1)

    def wait_for_the_record(self) -> None:
        """Return once one more record is there and the worker has had time to fall idle.

        The pause differs each time, so that a worker which polls is not met in step.
        """
        self._size += RECORD_BYTES
        deadline = time.monotonic() + SAMPLE_TIMEOUT_S
        time.sleep(uneven_pause_s(self._random))
        while self._records.stat().st_size < self._size:
            if time.monotonic() > deadline:
                raise TimeoutError(f"a job was not started within {SAMPLE_TIMEOUT_S:.0f} s")
            time.sleep(0.001)


class RoundTrips:
    """How long each job took from its making to its result, one at a time."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._began_at = 0.0
        self._taken_ms: list[float] = []

    def begin(self) -> None:
        self._began_at = time.perf_counter()

    def end(self, result: object) -> None:
        self._taken_ms.append((time.perf_counter() - self._began_at) * 1e3)
        if result != RESULT:
            raise ValueError(f"the result is {result!r}, but the handler returned {RESULT!r}")

    def pause_s(self) -> float:
        return uneven_pause_s(self._random)

    def tell(self) -> None:
        print(json.dumps({"ms": self._taken_ms}), flush=True)


def uneven_pause_s(source: random.Random) -> float:
    return 0.003 + source.random() * 0.010


def redis_usage(server_port: int) -> dict[str, float]:
    """CPU seconds, commands and bytes of data of the server so far, without a Redis library."""
    info = dict(
        line.split(":", 1)
        for line in request(server_port, "INFO everything").splitlines()
        if ":" in line
    )
    beside = ("mem_aof_buffer", "mem_clients_normal", "used_memory_scripts_eval")
    beside_bytes = sum(int(info.get(name, 0)) for name in beside)
    return {
        "cpu_s": float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
        "commands": float(info["total_commands_processed"]),
        "data_bytes": float(info["used_memory"]) - beside_bytes,
    }


def request(server_port: int, command: str) -> str:
    """One inline command on a connection of its own; returns the text of the reply."""
    with socket.create_connection(("127.0.0.1", server_port), timeout=10) as connection:
        connection.sendall(command.encode() + b"\r\n")
        reply = connection.makefile("rb")
        head = reply.readline().decode().strip()
        if head.startswith("$"):
            return reply.read(int(head[1:])).decode()
        return head[1:]
