"""Logs beside the bare server, in one process: append in batches beside pipelined XADD, and reading
beside XRANGE. The other side is hiredis, packed and parsed, with the garbage collector off.
`consume` is a worker with a consumer of 500 at a time, from its first batch to its last; the share
of commits is the time until they were answered, in which the worker does other things.

    python bench/log_figures.py [--messages 200000] [--bytes 100] [--partitions 1]
                                [--zookeeper private]
"""

from __future__ import annotations

import argparse
import gc
import socket
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

import hiredis

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 5
_PIPELINE = 500
_PAGE = 500
_PATIENCE_S = 120.0


def _packed(command: tuple[str | bytes, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed


class Bare:
    """A connection that sends packed commands and parses the replies, and nothing else."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader()

    def exchange(self, packed: bytes, replies: int) -> list[Any]:
        self._socket.sendall(packed)
        found: list[Any] = []
        while len(found) < replies:
            self._reader.feed(self._socket.recv(1 << 20))
            while (reply := self._reader.gets()) is not False:
                found.append(reply)
        return found

    def append(self, key: str, bodies: list[bytes]) -> None:
        for start in range(0, len(bodies), _PIPELINE):
            batch = bodies[start : start + _PIPELINE]
            packed = [_packed(("XADD", key, "*", "b", body)) for body in batch]
            self.exchange(b"".join(packed), len(batch))

    def read(self, key: str) -> int:
        place, count = b"-", 0
        while True:
            command = ("XRANGE", key, place, "+", "COUNT", str(_PAGE))
            [entries] = self.exchange(_packed(command), 1)
            if not entries:
                return count
            count += len(entries)
            place = b"(" + entries[-1][0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=200_000)
    options.add_argument("--bytes", type=int, default=100)
    options.add_argument("--partitions", type=int, default=1)
    options.add_argument("--zookeeper", help="coordinates the consumers, instead of Redis")
    given = options.parse_args()
    bodies = [b"x" * given.bytes] * given.messages
    with penstock.connect(namespace="log-figures", zookeeper=given.zookeeper) as client:
        path = client.settings.address.endpoints[0].path
        assert path is not None, "the private server is reached through a socket of its own"
        bare = Bare(path)
        for name in ("raw", "clicks"):
            client.log(name).delete()
        measure(client, bare, bodies, given.partitions)
        client.log("clicks").delete()


def measure(client: penstock.Penstock, bare: Bare, bodies: list[bytes], partitions: int) -> None:
    raw = "{log-figures:raw}:bare"
    log = client.log("clicks", partitions)

    def pages() -> int:
        count = 0
        for number in range(partitions):
            place = "0-0"
            while found := log.page(number, after=place, limit=_PAGE):
                count += len(found)
                for message in found:
                    message.body  # noqa: B018
                place = found[-1].id
        return count

    figures: dict[str, list[float]] = {}

    def timed(name: str, act: Callable[[], object]) -> None:
        gc.collect()
        gc.disable()
        began = time.perf_counter()
        act()
        figures.setdefault(name, []).append(len(bodies) / (time.perf_counter() - began))
        gc.enable()

    shares: list[float] = []
    for number in range(_ROUNDS):
        bare.exchange(_packed(("DEL", raw)), 1)
        log.delete()
        log.configure(partitions=partitions)
        timed("bare XADD", lambda: bare.append(raw, bodies))
        timed("append_many", lambda: log.append_many(bodies))
        timed("bare XRANGE", lambda: bare.read(raw))
        timed("page", pages)
        timed("read", lambda: sum(1 for _ in log.read()))
        took_s, commits_s = consume(client, f"round-{number}", len(bodies))
        figures.setdefault("consume", []).append(len(bodies) / took_s)
        shares.append(commits_s / took_s)
    bare.exchange(_packed(("DEL", raw)), 1)
    for name, rates in figures.items():
        base = figures["bare XADD" if "ppend" in name else "bare XRANGE"]
        base = figures["bare XADD"] if name == "bare XADD" else base
        ratio = statistics.median(a / b for a, b in zip(rates, base, strict=True))
        print(f"{name:12} {statistics.median(rates):>12,.0f} /s   {ratio:.2f} of bare")
    print(f"commits took {statistics.median(shares):.1%} of the time of consuming")


def consume(client: penstock.Penstock, group: str, count: int) -> tuple[float, float]:
    """How long a worker took for all messages, and how long its commits took."""
    times: list[float] = []
    left = [count]
    is_read, stop = threading.Event(), threading.Event()

    @penstock.consumer("clicks", group, batch=_PAGE)
    def read(messages: list[penstock.Message]) -> None:
        times.append(time.perf_counter())
        for message in messages:
            message.body  # noqa: B018
        left[0] -= len(messages)
        if left[0] <= 0:
            times.append(time.perf_counter())
            is_read.set()

    gc.collect()
    gc.disable()
    worker = threading.Thread(
        target=penstock.serve,
        args=(client, [read]),
        kwargs={"stop": stop, "heartbeat_ms": 100, "concurrency": 1, "name": group},
    )
    worker.start()
    if not is_read.wait(_PATIENCE_S):
        raise TimeoutError("the worker did not read everything")
    gc.enable()
    time.sleep(1.0)  # so that it has told of its last commit
    [about] = [one.about for one in client.workers() if one.name == group]
    stop.set()
    worker.join()
    commits: dict[str, float] = about["logs"]["committing"]  # type: ignore[index]
    return times[-1] - times[0], commits["times"] * commits["mean_s"]


if __name__ == "__main__":
    main()
