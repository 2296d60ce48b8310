"""Which Redis client library costs least for what penstock sends: one EVALSHA per round trip.

Run it in an environment that has the libraries to compare; a library that is missing is named
and its row says 'not installed'.

    pip install packaging redis hiredis uvloop coredis valkey-glide valkey-glide-sync
    python bench/client_libraries.py [--json] [--rounds N]

A private redis-server (AOF everysec, temporary directory) listens on a Unix socket and on a
loopback port. Every client lives in a process of its own, and the rounds are interleaved, so a
busy moment of the machine falls on all of them; every figure is the median of the rounds. CPU
time is the figure to trust on a shared machine, round trips per second the one to doubt.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from packaging.requirements import Requirement

SCRIPT = "redis.call('LPUSH', KEYS[1], ARGV[1]) return {'ok', 1}"
DIGEST = hashlib.sha1(SCRIPT.encode()).hexdigest()
KEY = b"{bench}:ready"
TIMEOUT_S = 5

Args = Sequence[bytes]
SyncCall = Callable[[Args], Any]
AsyncCall = Callable[[Args], Awaitable[Any]]


@dataclass(frozen=True)
class Address:
    transport: str  # 'unix' or 'tcp'
    path: str
    port: int


@dataclass(frozen=True)
class Workload:
    name: str
    args: tuple[bytes, ...]
    calls: int
    in_flight: int = 1


@dataclass(frozen=True)
class Contestant:
    """One way to talk to Redis; exactly one of `open_sync` and `open_async` is set."""

    name: str
    distributions: tuple[str, ...]
    imports: str
    open_sync: Callable[[Address], AbstractContextManager[SyncCall]] | None = None
    open_async: Callable[[Address], AbstractAsyncContextManager[AsyncCall]] | None = None
    uses_uvloop: bool = False
    has_unix_sockets: bool = True


@dataclass(frozen=True)
class Sample:
    """What one measurement of one workload cost, per round trip."""

    trips_per_s: float
    client_us: float
    server_us: float


@dataclass(frozen=True)
class Footprint:
    versions: str
    import_ms: float
    installed_mb: float
    dependencies: int


WORKLOADS = (
    Workload("one at a time", (b"x" * 100,), calls=2_000),
    Workload("100 in flight", (b"x" * 100,), calls=5_000, in_flight=100),
    Workload("1,000 arguments", (b"x" * 100,) * 1_000, calls=100),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare Redis client libraries by what they cost")
    parser.add_argument("--json", action="store_true", help="print every sample as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="rounds per figure, at least 5")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        serve_measurements(options.child)
        return
    if options.rounds < 5:
        parser.error("a median needs at least 5 rounds")
    # Without this a SIGTERM would skip the `finally` blocks and leave the server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    present = [contestant for contestant in CONTESTANTS if not missing_from(contestant)]
    for name in sorted({name for c in CONTESTANTS for name in missing_from(c)}):
        print(f"{name} is not installed; its rows are skipped", file=sys.stderr)
    load_before = os.getloadavg()[0]
    with private_server() as (address, version):
        samples = measure_all(present, address, options.rounds)
    footprints = {c.name: footprint_of(c, options.rounds) for c in present}
    machine = (
        f"Redis {version}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after, "
        f"median of {options.rounds} interleaved rounds"
    )
    if options.json:
        print(json.dumps(as_json(machine, samples, footprints), indent=1))
    else:
        print_report(machine, samples, footprints)


# --- the rounds ---------------------------------------------------------------------------------

Samples = dict[tuple[str, str, str], list[Sample]]  # by client, transport and workload


def measure_all(contestants: Sequence[Contestant], address: Address, rounds: int) -> Samples:
    """Ask every client's process for every workload, once per round, in a turning order."""
    samples: Samples = {}
    with contextlib.ExitStack() as stack:
        children = {c.name: stack.enter_context(child_process(c.name)) for c in contestants}
        for turn in range(rounds):
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
            shift = turn * 3 % max(1, len(contestants))
            order = [*contestants[shift:], *contestants[:shift]]
            for index, workload in enumerate(WORKLOADS):
                for transport in ("tcp", "unix"):
                    for contestant in order:
                        if not applies(contestant, workload, transport):
                            continue
                        sample = ask(children[contestant.name], address, transport, index)
                        key = (contestant.name, transport, workload.name)
                        samples.setdefault(key, []).append(sample)
    return samples


def applies(contestant: Contestant, workload: Workload, transport: str) -> bool:
    if transport == "unix" and not contestant.has_unix_sockets:
        return False
    return workload.in_flight == 1 or contestant.open_async is not None


@contextlib.contextmanager
def child_process(name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__)), "--child", name]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def ask(
    child: subprocess.Popen[str], address: Address, transport: str, workload_index: int
) -> Sample:
    assert child.stdin is not None and child.stdout is not None
    asked = {"path": address.path, "port": address.port, "transport": transport}
    child.stdin.write(json.dumps({"address": asked, "workload": workload_index}) + "\n")
    child.stdin.flush()
    answer = child.stdout.readline()
    if not answer:
        raise SystemExit(f"the measuring process {child.args!r} ended; its error is above")
    return Sample(**json.loads(answer))


def serve_measurements(name: str) -> None:
    """The life of a child: one measurement per line of stdin, until stdin closes."""
    contestant = next(c for c in CONTESTANTS if c.name == name)
    # glibc gives the top of a small heap back to the kernel after every large command and faults
    # it in again, which made the client that imports least look slow. A real program's heap has
    # room below its top, and so has this one.
    heap = [bytes(64_000) for _ in range(500)]
    del heap[:-1]
    for line in sys.stdin:
        asked = json.loads(line)
        address = Address(**asked["address"])
        workload = WORKLOADS[asked["workload"]]
        if contestant.open_sync is not None:
            sample = measure_sync(contestant.open_sync, address, workload)
        else:
            assert contestant.open_async is not None
            with asyncio.Runner(loop_factory=loop_factory(contestant)) as runner:
                sample = runner.run(measure_async(contestant.open_async, address, workload))
        print(json.dumps(asdict(sample)), flush=True)


def loop_factory(contestant: Contestant) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not contestant.uses_uvloop:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = load("uvloop").new_event_loop
    return factory


def measure_sync(
    open_sync: Callable[[Address], AbstractContextManager[SyncCall]],
    address: Address,
    workload: Workload,
) -> Sample:
    with open_sync(address) as call:
        for _ in range(20):
            check(call(workload.args))
        with Meter(address, workload.calls) as meter:
            for _ in range(workload.calls):
                check(call(workload.args))
    return meter.sample


async def measure_async(
    open_async: Callable[[Address], AbstractAsyncContextManager[AsyncCall]],
    address: Address,
    workload: Workload,
) -> Sample:
    async def call_often(call: AsyncCall, times: int) -> None:
        for _ in range(times):
            check(await call(workload.args))

    async def call_all(call: AsyncCall, times: int) -> None:
        each = times // workload.in_flight
        await asyncio.gather(*(call_often(call, each) for _ in range(workload.in_flight)))

    async with open_async(address) as call:
        # The warm-up has the same width, so that a pool has opened its connections before.
        await call_all(call, 20 * workload.in_flight)
        with Meter(address, workload.calls) as meter:
            await call_all(call, workload.calls)
    return meter.sample


def check(reply: Any) -> None:
    if list(reply) != [b"ok", 1]:
        raise SystemExit(f"expected the reply [b'ok', 1], got {reply!r}")


class Meter:
    """Wall time, this process's CPU time with all its threads, and the server's, per call."""

    sample: Sample

    def __init__(self, address: Address, calls: int) -> None:
        self._address = address
        self._calls = calls

    def __enter__(self) -> Meter:
        admin_command(self._address, "DEL", KEY.decode())
        self._server_s = server_cpu_s(self._address)
        self._client_s = client_cpu_s()
        self._started_at = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        wall_s = time.perf_counter() - self._started_at
        client_s = client_cpu_s() - self._client_s
        server_s = server_cpu_s(self._address) - self._server_s
        self.sample = Sample(
            trips_per_s=self._calls / wall_s,
            client_us=client_s / self._calls * 1e6,
            server_us=server_s / self._calls * 1e6,
        )


def client_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# --- the private server -------------------------------------------------------------------------


@contextlib.contextmanager
def private_server() -> Iterator[tuple[Address, str]]:
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("no redis-server on the PATH; install one to run this comparison")
    with tempfile.TemporaryDirectory(prefix="clients-") as directory:
        address = Address("unix", str(Path(directory) / "redis.sock"), free_port())
        settings = {
            "bind": "127.0.0.1",
            "port": str(address.port),
            "unixsocket": address.path,
            "dir": directory,
            "appendonly": "yes",
            "appendfsync": "everysec",
            # A rewrite or a snapshot in the middle of a round would be charged to one client.
            "auto-aof-rewrite-percentage": "0",
            "save": "",
        }
        flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
        server = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL)
        try:
            wait_until_up(server, address)
            admin_command(address, "SCRIPT", "LOAD", SCRIPT)
            yield address, info(address, "server")["redis_version"]
        finally:
            server.terminate()
            server.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_up(server: subprocess.Popen[bytes], address: Address) -> None:
    give_up_at = time.monotonic() + 10
    while server.poll() is None and time.monotonic() < give_up_at:
        with contextlib.suppress(OSError):
            if admin_command(address, "PING") == "PONG":
                return
        time.sleep(0.05)
    raise SystemExit("the private redis-server did not answer within 10 seconds")


def server_cpu_s(address: Address) -> float:
    cpu = info(address, "cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


def info(address: Address, section: str) -> dict[str, str]:
    lines = admin_command(address, "INFO", section).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def admin_command(address: Address, *words: str) -> str:
    """One command on a fresh connection, without any library under test."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(address.path)
        encoded = [word.encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
        connection.sendall(b"*%d\r\n%s" % (len(parts), b"".join(parts)))
        with connection.makefile("rb") as replies:
            head = replies.readline().decode().rstrip()
            if head.startswith("$"):
                return replies.read(int(head[1:])).decode()
            if head.startswith("-"):
                raise SystemExit(f"the private redis-server refused {words[0]}: {head[1:]}")
            return head[1:]


# --- the clients --------------------------------------------------------------------------------


def load(module: str) -> Any:
    """Import a library only in the process that measures it."""
    return importlib.import_module(module)


def redis_place(address: Address) -> dict[str, Any]:
    """The address as redis-py and coredis name it."""
    if address.transport == "unix":
        return {"unix_socket_path": address.path}
    return {"host": "127.0.0.1", "port": address.port}


@contextlib.contextmanager
def redis_py(address: Address, **options: Any) -> Iterator[SyncCall]:
    with load("redis").Redis(**redis_place(address), **options) as client:
        yield lambda args: client.evalsha(DIGEST, 1, KEY, *args)


def redis_py_without_retries(address: Address) -> AbstractContextManager[SyncCall]:
    no_retry = load("redis.retry").Retry(load("redis.backoff").NoBackoff(), 0)
    return redis_py(address, retry=no_retry)


@contextlib.contextmanager
def redis_py_connection(address: Address) -> Iterator[SyncCall]:
    module = load("redis.connection")
    if address.transport == "unix":
        connection = module.UnixDomainSocketConnection(path=address.path)
    else:
        connection = module.Connection(host="127.0.0.1", port=address.port)
    connection.connect()

    def call(args: Args) -> Any:
        connection.send_packed_command(connection.pack_command("EVALSHA", DIGEST, 1, KEY, *args))
        return connection.read_response()

    yield call
    connection.disconnect()


@contextlib.asynccontextmanager
async def redis_py_async(address: Address) -> AsyncIterator[AsyncCall]:
    async with load("redis.asyncio").Redis(**redis_place(address)) as client:
        yield lambda args: client.evalsha(DIGEST, 1, KEY, *args)


@contextlib.asynccontextmanager
async def coredis(address: Address) -> AsyncIterator[AsyncCall]:
    async with load("coredis").Redis(**redis_place(address)) as client:

        async def call(args: Args) -> Any:
            return await client.evalsha(DIGEST, keys=[KEY], args=args)

        yield call


def glide_options(module: Any, address: Address) -> Any:
    return module.GlideClientConfiguration(
        [module.NodeAddress("127.0.0.1", address.port)], request_timeout=TIMEOUT_S * 1000
    )


@contextlib.contextmanager
def glide_sync(address: Address) -> Iterator[SyncCall]:
    module = load("glide_sync")
    client = module.GlideClient.create(glide_options(module, address))
    script = module.Script(SCRIPT)
    yield lambda args: client.invoke_script(script, keys=[KEY], args=list(args))
    client.close()


@contextlib.asynccontextmanager
async def glide_async(address: Address) -> AsyncIterator[AsyncCall]:
    module = load("glide")
    client = await module.GlideClient.create(glide_options(module, address))
    script = module.Script(SCRIPT)
    yield lambda args: client.invoke_script(script, keys=[KEY], args=list(args))
    await client.close()


@contextlib.contextmanager
def hiredis_socket(address: Address, *, kernel_timeout: bool) -> Iterator[SyncCall]:
    """hiredis on a blocking socket; the timeout is Python's (a poll per call) or the kernel's."""
    hiredis = load("hiredis")
    pack, failure = hiredis.pack_command, hiredis.ReplyError
    reader = hiredis.Reader()
    with connected_socket(address) as connection:
        if kernel_timeout:
            limit = struct.pack("ll", TIMEOUT_S, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        else:
            connection.settimeout(TIMEOUT_S)

        def call(args: Args) -> Any:
            connection.sendall(pack((b"EVALSHA", DIGEST, 1, KEY, *args)))
            while (reply := reader.gets()) is False:
                received = connection.recv(65536)
                if not received:
                    raise ConnectionError("the private redis-server closed the connection")
                reader.feed(received)
            if isinstance(reply, failure):
                raise reply
            return reply

        yield call


def hiredis_socket_timeout(address: Address) -> AbstractContextManager[SyncCall]:
    return hiredis_socket(address, kernel_timeout=False)


def hiredis_kernel_timeout(address: Address) -> AbstractContextManager[SyncCall]:
    return hiredis_socket(address, kernel_timeout=True)


def connected_socket(address: Address) -> socket.socket:
    if address.transport == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.path)
        return connection
    connection = socket.create_connection(("127.0.0.1", address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextlib.asynccontextmanager
async def hiredis_protocol(
    address: Address, factory: Callable[[], HiredisCalls] | None = None
) -> AsyncIterator[AsyncCall]:
    loop = asyncio.get_running_loop()
    protocol = (factory or HiredisProtocol)()
    if address.transport == "unix":
        transport, _ = await loop.create_unix_connection(lambda: protocol, address.path)
    else:
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", address.port)
    yield protocol.call
    transport.close()


def hiredis_buffered_protocol(address: Address) -> AbstractAsyncContextManager[AsyncCall]:
    return hiredis_protocol(address, HiredisBufferedProtocol)


class HiredisCalls(asyncio.BaseProtocol):
    """One connection for any number of calls in flight; replies come in the order of the calls."""

    def __init__(self) -> None:
        hiredis = load("hiredis")
        self._pack, self._failure = hiredis.pack_command, hiredis.ReplyError
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._loop = asyncio.get_running_loop()

    async def call(self, args: Args) -> Any:
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(reply)
        self._transport.write(self._pack((b"EVALSHA", DIGEST, 1, KEY, *args)))
        async with asyncio.timeout(TIMEOUT_S):
            return await reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def deliver_replies(self) -> None:
        while (reply := self._reader.gets()) is not False:
            waiting = self._waiting.popleft()
            if waiting.done():  # its caller gave up; the reply still had to be read
                continue
            if isinstance(reply, self._failure):
                waiting.set_exception(reply)
            else:
                waiting.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(exc or ConnectionError("the connection was closed"))


class HiredisProtocol(HiredisCalls, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self.deliver_replies()


class HiredisBufferedProtocol(HiredisCalls, asyncio.BufferedProtocol):
    """Reads into its own buffer, where asyncio else allocates 256 KiB for every read.

    In a process with a small heap, unlike the measuring ones, that allocation doubled the cost.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray(65536)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.feed(self._buffer, 0, nbytes)
        self.deliver_replies()


REDIS = ("redis", "hiredis")
CONTESTANTS = (
    Contestant("redis-py", REDIS, "redis", open_sync=redis_py),
    Contestant("redis-py, retries off", REDIS, "redis", open_sync=redis_py_without_retries),
    Contestant("redis-py Connection", REDIS, "redis.connection", open_sync=redis_py_connection),
    Contestant(
        "glide sync",
        ("valkey-glide-sync",),
        "glide_sync",
        open_sync=glide_sync,
        has_unix_sockets=False,
    ),
    Contestant(
        "hiredis, settimeout", ("hiredis",), "socket, hiredis", open_sync=hiredis_socket_timeout
    ),
    Contestant(
        "hiredis, SO_RCVTIMEO", ("hiredis",), "socket, hiredis", open_sync=hiredis_kernel_timeout
    ),
    Contestant("redis-py asyncio", REDIS, "redis.asyncio", open_async=redis_py_async),
    Contestant(
        "redis-py asyncio, uvloop",
        (*REDIS, "uvloop"),
        "uvloop, redis.asyncio",
        open_async=redis_py_async,
        uses_uvloop=True,
    ),
    Contestant("coredis", ("coredis",), "coredis", open_async=coredis),
    Contestant(
        "coredis, uvloop",
        ("coredis", "uvloop"),
        "uvloop, coredis",
        open_async=coredis,
        uses_uvloop=True,
    ),
    Contestant("glide", ("valkey-glide",), "glide", open_async=glide_async, has_unix_sockets=False),
    Contestant("hiredis, asyncio", ("hiredis",), "asyncio, hiredis", open_async=hiredis_protocol),
    Contestant(
        "hiredis, asyncio, buffered",
        ("hiredis",),
        "asyncio, hiredis",
        open_async=hiredis_buffered_protocol,
    ),
    Contestant(
        "hiredis, uvloop",
        ("hiredis", "uvloop"),
        "uvloop, hiredis",
        open_async=hiredis_protocol,
        uses_uvloop=True,
    ),
)


# --- what a library weighs ----------------------------------------------------------------------


def missing_from(contestant: Contestant) -> list[str]:
    return [name for name in contestant.distributions if not is_installed(name)]


def is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def footprint_of(contestant: Contestant, rounds: int) -> Footprint:
    needed = closure(contestant.distributions)
    return Footprint(
        versions=" ".join(
            f"{name} {importlib.metadata.version(name)}" for name in contestant.distributions
        ),
        import_ms=statistics.median(import_cpu_ms(contestant.imports) for _ in range(rounds)),
        installed_mb=sum(size_of(name) for name in needed) / 1e6,
        dependencies=len(needed) - 1,
    )


def import_cpu_ms(modules: str) -> float:
    """CPU time of the import in a fresh interpreter with warm caches."""
    code = f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def closure(distributions: Sequence[str]) -> set[str]:
    """These distributions and all they require here, extras included where asked for."""
    found: set[tuple[str, str]] = set()
    open_ends = [(name, "") for name in distributions]
    while open_ends:
        name, extra = open_ends.pop()
        if (name, extra) in found or not is_installed(name):
            continue
        found.add((name, extra))
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted = requirement.name.lower().replace("_", "-")
                open_ends.extend((wanted, each) for each in ("", *requirement.extras))
    return {name for name, _ in found}


def size_of(distribution: str) -> int:
    files = importlib.metadata.files(distribution) or ()
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())


# --- the report ---------------------------------------------------------------------------------


def print_report(machine: str, samples: Samples, footprints: dict[str, Footprint]) -> None:
    print(machine)
    for transport in ("tcp", "unix"):
        for workload in WORKLOADS:
            print(f"\n{transport}, {workload.name}\n")
            print(f"{'client':26} {'trips/s':>9} {'client us':>10} {'server us':>10}")
            for contestant in CONTESTANTS:
                if applies(contestant, workload, transport):
                    taken = samples.get((contestant.name, transport, workload.name))
                    print(f"{contestant.name:26} {figures(taken)}")
    print(f"\n{'client':26} {'import ms':>9} {'MB':>6} {'dependencies':>12}  versions")
    for contestant in CONTESTANTS:
        weight = footprints.get(contestant.name)
        if weight is None:
            print(f"{contestant.name:26} not installed")
        else:
            print(
                f"{contestant.name:26} {weight.import_ms:9.1f} {weight.installed_mb:6.1f} "
                f"{weight.dependencies:12}  {weight.versions}"
            )


def figures(taken: list[Sample] | None) -> str:
    if taken is None:
        return "not installed"
    middle = median_of(taken)
    return f"{middle.trips_per_s:9,.0f} {middle.client_us:10.1f} {middle.server_us:10.1f}"


def median_of(taken: list[Sample]) -> Sample:
    return Sample(
        trips_per_s=statistics.median(sample.trips_per_s for sample in taken),
        client_us=statistics.median(sample.client_us for sample in taken),
        server_us=statistics.median(sample.server_us for sample in taken),
    )


def as_json(machine: str, samples: Samples, footprints: dict[str, Footprint]) -> dict[str, Any]:
    return {
        "machine": machine,
        "not_installed": [c.name for c in CONTESTANTS if c.name not in footprints],
        "footprints": {name: asdict(weight) for name, weight in footprints.items()},
        "measurements": [
            {
                "client": client,
                "transport": transport,
                "workload": workload,
                "median": asdict(median_of(taken)),
                "samples": [asdict(sample) for sample in taken],
            }
            for (client, transport, workload), taken in samples.items()
        ],
    }


if __name__ == "__main__":
    main()
