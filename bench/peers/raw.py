"""The raw limits: what Python with hiredis and Redis can do at all, with nothing in between.

Run as `python -m bench.peers.raw` with BENCH_PORT set to an empty Redis; prints one line of JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import socket
import time
from typing import TYPE_CHECKING, Any

import hiredis
from bench.peers.adapters.stopwatch import BATCH_JOBS, payload, port, redis_usage
from bench.peers.harness import percentile

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

SECONDS_EACH = 1.0
SAMPLES = 300
WARM_UP_SAMPLES = 20
FILL_JOBS = 600_000
CLAIM = "return redis.call('RPOP', KEYS[1])"


# Its own type hints allow a command of one word only.
pack: Callable[..., bytes] = hiredis.pack_command


class Connected:
    """A socket and a parser: the least that a Python client can be."""

    def __init__(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port()))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def send(self, packed: bytes) -> None:
        self._socket.sendall(packed)

    def receive(self) -> Any:
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        return reply

    def request(self, *command: str | bytes | int) -> Any:
        self.send(pack(command))
        return self.receive()


def main() -> None:
    connection = Connected()
    results: dict[str, dict[str, float]] = {}
    for name, (trip, jobs) in _trips(connection).items():
        connection.request("FLUSHALL")
        if name.startswith("LMOVE"):
            _fill(connection, FILL_JOBS)
        results[name] = _measure(trip, jobs)
    connection.request("FLUSHALL")
    results["PUBLISH, received, one EVALSHA"] = _wake_up_latency(connection)
    print(json.dumps(results))


def _trips(connection: Connected) -> dict[str, tuple[Callable[[], None], int]]:
    """What to repeat, and how many jobs one repetition stands for."""
    body = payload()
    one = connection.request("SCRIPT", "LOAD", "return 1")
    push = connection.request("SCRIPT", "LOAD", "return redis.call('LPUSH', KEYS[1], ARGV[1])")

    def trip(*commands: tuple[str | bytes | int, ...]) -> Callable[[], None]:
        packed = b"".join(pack(command) for command in commands)

        def run() -> None:
            connection.send(packed)
            for _ in commands:
                reply = connection.receive()
                if isinstance(reply, hiredis.ReplyError):
                    raise reply

        return run

    def pack_and_push() -> None:
        connection.send(b"".join(pack(("LPUSH", "ready", body)) for _ in range(BATCH_JOBS)))
        for _ in range(BATCH_JOBS):
            connection.receive()

    move = ("LMOVE", "ready", "running", "RIGHT", "LEFT")
    return {
        "LPUSH, one by one": (trip(("LPUSH", "ready", body)), 1),
        "LPUSH, 100 a trip": (trip(*[("LPUSH", "ready", body)] * BATCH_JOBS), BATCH_JOBS),
        "LPUSH, 100 a trip, packed anew": (pack_and_push, BATCH_JOBS),
        "LMOVE+DEL, 100 jobs a trip": (trip(*[move, ("DEL", "running")] * BATCH_JOBS), BATCH_JOBS),
        "EVALSHA of nothing, one by one": (trip(("EVALSHA", one, 1, "ready")), 1),
        "EVALSHA of one LPUSH, one by one": (trip(("EVALSHA", push, 1, "ready", body)), 1),
    }


def _fill(connection: Connected, jobs: int) -> None:
    bodies = [payload()] * 1000
    for _ in range(jobs // 1000):
        connection.request("LPUSH", "ready", *bodies)


def _measure(trip: Callable[[], None], jobs_a_trip: int) -> dict[str, float]:
    for _ in range(20):
        trip()
    before, cpu, started_at = redis_usage(port()), time.process_time(), time.perf_counter()
    trips = 0
    # A claim from an empty list would cost less, so what was filled in is the end.
    most = FILL_JOBS // jobs_a_trip - 30
    while time.perf_counter() - started_at < SECONDS_EACH and trips < most:
        for _ in range(10):
            trip()
        trips += 10
    seconds, cpu_after = time.perf_counter() - started_at, time.process_time()
    redis_s = redis_usage(port())["cpu_s"] - before["cpu_s"]
    jobs = trips * jobs_a_trip
    return {
        "per_s": jobs / seconds,
        "client_us": (cpu_after - cpu) * 1e6 / jobs,
        "redis_us": redis_s * 1e6 / jobs,
    }


def _wake_up_latency(connection: Connected) -> dict[str, float]:
    """From before a PUBLISH to after the EVALSHA that its idle subscriber answers with."""
    ours, theirs = multiprocessing.Pipe()
    subscriber = multiprocessing.get_context("spawn").Process(
        target=_subscribe, args=(theirs,), daemon=True
    )
    subscriber.start()
    pauses = random.Random(1)
    try:
        _expect(ours, 20)
        for _ in range(WARM_UP_SAMPLES + SAMPLES):
            connection.request("PUBLISH", "wake", str(time.monotonic_ns()))
            time.sleep(0.003 + pauses.random() * 0.010)
        taken = _expect(ours, 20)[WARM_UP_SAMPLES:]
    finally:
        subscriber.kill()
        subscriber.join()
    return {"p50_ms": percentile(taken, 0.5), "p99_ms": percentile(taken, 0.99)}


def _expect(pipe: Connection, seconds: float) -> list[float]:
    if not pipe.poll(seconds):
        raise TimeoutError(f"the subscriber said nothing for {seconds:.0f} s")
    said: list[float] = pipe.recv()
    return said


def _subscribe(pipe: Connection) -> None:
    listening, working = Connected(), Connected()
    claim = working.request("SCRIPT", "LOAD", CLAIM)
    listening.request("SUBSCRIBE", "wake")
    pipe.send([])
    taken: list[float] = []
    while len(taken) < WARM_UP_SAMPLES + SAMPLES:
        sent_at = int(listening.receive()[2])
        working.request("EVALSHA", claim, 1, "ready")
        taken.append((time.monotonic_ns() - sent_at) / 1e6)
    pipe.send(taken)


if __name__ == "__main__":
    main()
