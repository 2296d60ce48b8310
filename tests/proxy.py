"""A proxy in front of Redis that loses, cuts, repeats and delays as a test planned it.

It speaks enough RESP to know which reply answers which request, so a test can say exactly what
goes wrong ("the script ran, its reply was lost, three times") and afterwards see that it did.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Self

Match = Callable[[list[bytes]], bool]
Address = str | Path | tuple[str, int]

_CREDENTIALS = struct.Struct("3i")
"""process, user and group"""

# After these the server speaks unasked, so replies can no longer be told from messages.
STREAMING = {b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR"}


class Fault(Enum):
    """What happens to one request. A cut loses the client's later requests on that connection."""

    LOSE_REPLY = "executed, then cut before the reply"
    LOSE_REQUEST = "cut, never executed"
    CUT_MID_REPLY = "executed, then cut after the first half of the reply"
    DUPLICATE = "executed twice; the first reply is returned once both are in"
    DELAY = "held back, then executed even if the client has hung up"
    BLACKHOLE = "never executed; the connection falls silent, and is cut at the end"


class FaultProxy:
    """Forwards to `upstream` from a Unix socket at `path` and, with `tcp`, a loopback `port`.

    Redis commands that change how many replies there are (CLIENT REPLY) are not supported. With
    `record`, the last so many requests are kept in `requests`. A mistake inside the proxy or in a
    `match` cuts that connection, and is raised when the proxy is closed.
    """

    def __init__(
        self,
        folder: Path,
        upstream: Address,
        *,
        tcp: bool = False,
        record: int = 0,
        name: str = "proxy.sock",
    ) -> None:
        self.path = folder / name
        self.port: int | None = None
        self._upstream = upstream
        self._tcp = tcp
        self._lock = threading.RLock()
        self._rules: list[Rule] = []
        self._requests: deque[list[bytes]] = deque(maxlen=record)
        self._failures: list[BaseException] = []
        self._connections: dict[asyncio.Task[None], _Connection] = {}

    @property
    def requests(self) -> list[list[bytes]]:
        """The last requests seen, oldest first, whether or not they were forwarded."""
        with self._lock:
            return list(self._requests)

    def plan(
        self,
        fault: Fault,
        times: int = 1,
        match: Match = lambda request: True,
        seconds: float | None = None,
    ) -> Rule:
        """Let `fault` befall the next `times` requests that match; earlier plans go first.

        `seconds` is how long DELAY and BLACKHOLE last; without it, until `release()`. A script the
        server did not know (NOSCRIPT) has not run, so it uses up no fault that needs execution.
        Inside MULTI only EXEC executes: plan for that.
        """
        rule = Rule(fault, times, match, seconds)
        with self._lock:
            self._rules.append(rule)
        return rule

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name=f"proxy {self.path}", daemon=True
        )
        self._thread.start()
        if started.exception() is not None:
            self._thread.join()
        started.result()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if kind is None and self._failures:
            raise self._failures[0]

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        servers: list[asyncio.Server] = []
        try:
            servers.append(await asyncio.start_unix_server(self._accept, self.path))
            if self._tcp:
                servers.append(await asyncio.start_server(self._accept, "127.0.0.1", 0))
                self.port = servers[-1].sockets[0].getsockname()[1]
            started.set_result(None)
            await self._stop.wait()
        except OSError as error:
            started.set_exception(error)
        finally:
            for server in servers:
                server.close()
            for task, connection in self._connections.items():
                task.cancel()
                connection.abort()
            await asyncio.gather(*self._connections, return_exceptions=True)
            self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stop.is_set():
            writer.transport.abort()
            return
        connection = _Connection(self._admit, reader, writer)
        task = asyncio.create_task(connection.run(self._upstream))
        self._connections[task] = connection
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)

    def _admit(self, request: list[bytes]) -> _Strike | None:
        with self._lock:
            self._requests.append(request)
            return next(filter(None, (rule._take(request) for rule in self._rules)), None)


class Rule:
    """One planned fault; `hits` counts how often it has really happened, and `clients` has the
    process each time, if it came by the Unix socket.
    """

    def __init__(self, fault: Fault, times: int, match: Match, seconds: float | None) -> None:
        self.fault = fault
        self.hits = 0
        self.clients: list[int] = []
        self._left = times
        self._match = match
        self._seconds = seconds
        self._changed = threading.Condition()
        self._released: Future[None] = Future()

    def wait_for_hits(self, hits: int, timeout_s: float = 10) -> None:
        """Return once the fault has happened `hits` times; raises TimeoutError if it does not."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= hits, timeout_s):
                raise TimeoutError(f"{self.fault.name} happened {self.hits} times, not {hits}")

    def release(self) -> None:
        """End every DELAY or BLACKHOLE of this rule, those under way and those to come."""
        with suppress(InvalidStateError):
            self._released.set_result(None)

    def _take(self, request: list[bytes]) -> _Strike | None:
        with self._changed:
            if self._left == 0 or not self._match(request):
                return None
            self._left -= 1
            return _Strike(self)


class _Strike:
    """One use of a rule, which goes back to the rule unless it lands."""

    def __init__(self, rule: Rule) -> None:
        self.fault = rule.fault
        self.client: int | None = None
        """the process whose request it is"""
        self._rule = rule
        self._has_landed = False

    def land(self) -> None:
        with self._rule._changed:
            self._has_landed = True
            self._rule.hits += 1
            if self.client is not None:
                self._rule.clients.append(self.client)
            self._rule._changed.notify_all()

    async def last(self) -> None:
        # Unlike wait_for, wait leaves the future alone at the end; other connections may hold it.
        released = asyncio.wrap_future(self._rule._released)
        await asyncio.wait([released], timeout=self._rule._seconds)

    def give_back(self) -> None:
        with self._rule._changed:
            self._rule._left += not self._has_landed


def match_command(*names: bytes) -> Match:
    """Match these commands, whatever their arguments."""
    wanted = {name.upper() for name in names}
    return lambda request: request[0].upper() in wanted


def match_script(*scripts: str | bytes) -> Match:
    """Match any of these scripts, each given as its SHA1 or its text, by EVALSHA and by EVAL."""
    wanted = {_sha_of(script) for script in scripts}

    def match(request: list[bytes]) -> bool:
        match request:
            case [command, script, *_] if command.upper() in {b"EVAL", b"EVAL_RO"}:
                return hashlib.sha1(script).hexdigest().encode() in wanted
            case [command, sha, *_] if command.upper() in {b"EVALSHA", b"EVALSHA_RO"}:
                return sha.lower() in wanted
        return False

    return match


def _sha_of(script: str | bytes) -> bytes:
    text = script.encode() if isinstance(script, str) else script
    is_sha = len(text) == 40 and not text.lower().strip(b"0123456789abcdef")
    return text.lower() if is_sha else hashlib.sha1(text).hexdigest().encode()


class Delimiter:
    """Cuts a stream of RESP2 or RESP3 into values, byte for byte, however it arrives."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        # Nesting needs no stack: a value is complete when all it announced has been seen.
        self._outstanding = 1

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take_value(self) -> bytes | None:
        """The next whole value, or None until more is fed."""
        while self._outstanding:
            line_end = self._buffer.find(b"\r\n", self._position)
            if line_end < 0:
                return None
            kind, line = self._buffer[self._position], self._buffer[self._position + 1 : line_end]
            value_end = line_end + 2
            announced = 0
            if kind in b"$=!":
                value_end += int(line) + 2 if int(line) >= 0 else 0
            elif kind in b"*~>":
                announced = max(int(line), 0)
            elif kind == ord("%"):
                announced = 2 * int(line)
            elif kind == ord("|"):
                # Attributes precede the value they describe and do not stand for it.
                announced = 2 * int(line) + 1
            elif kind not in b"+-:_,#(":
                raise ValueError(f"not RESP: {bytes(self._buffer[self._position : line_end])!r}")
            if value_end > len(self._buffer):
                return None
            self._position = value_end
            self._outstanding += announced - 1
        return self._take(self._position)

    def take_rest(self) -> bytes:
        """Everything fed and not yet taken, whole or not."""
        return self._take(len(self._buffer))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._position, self._outstanding = 0, 1
        return taken


def arguments_of(raw: bytes) -> list[bytes]:
    """The arguments of one whole request."""
    if raw[:1] != b"*":
        raise ValueError(f"a request must be an array of bulk strings, not {raw[:40]!r}")
    position = raw.index(b"\r\n") + 2
    arguments = []
    while position < len(raw):
        start = raw.index(b"\r\n", position) + 2
        end = start + int(raw[position + 1 : start - 2])
        arguments.append(raw[start:end])
        position = end + 2
    return arguments


def _process_of(client: asyncio.StreamWriter) -> int | None:
    """Who has opened a connection; None if it did not come by a Unix socket of Linux."""
    connection = client.get_extra_info("socket")
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


class _Cut(Exception):
    """The connection ends here."""


@dataclass
class _Expected:
    """A forwarded request that waits for its reply, or for both when it was sent twice."""

    strike: _Strike | None
    copies: int
    starts_stream: bool
    replies: list[bytes] = field(default_factory=list)


class _Connection:
    def __init__(
        self,
        admit: Callable[[list[bytes]], _Strike | None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._admit = admit
        self._client_reader, self._client = reader, writer
        self._writers = [writer]
        self._expected: deque[_Expected] = deque()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._is_audible = asyncio.Event()
        self._is_audible.set()

    async def run(self, upstream: Address) -> None:
        try:
            if isinstance(upstream, tuple):
                self._server_reader, self._server = await asyncio.open_connection(*upstream)
            else:
                self._server_reader, self._server = await asyncio.open_unix_connection(upstream)
            self._writers.append(self._server)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward_requests())
                group.create_task(self._forward_replies())
        except* (_Cut, OSError):
            pass
        finally:
            for writer in self._writers:
                writer.close()
            for writer in self._writers:
                with suppress(OSError):
                    await writer.wait_closed()

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _forward_requests(self) -> None:
        delimiter, is_streaming = Delimiter(), False
        while data := await self._client_reader.read(1 << 16):
            delimiter.feed(data)
            while not is_streaming and (raw := delimiter.take_value()) is not None:
                is_streaming = await self._forward_request(raw)
            if is_streaming:
                self._server.write(delimiter.take_rest())
            await self._server.drain()
        # Redis closes its side in turn, once it has executed what came before.
        self._server.write_eof()

    async def _forward_request(self, raw: bytes) -> bool:
        request = arguments_of(raw)
        if not request:  # Redis answers an empty request with nothing.
            return False
        if [word.upper() for word in request[:2]] == [b"CLIENT", b"REPLY"]:
            raise ValueError("the proxy cannot match replies after CLIENT REPLY; do not use it")
        starts_stream = request[0].upper() in STREAMING
        strike = self._admit(request)
        if strike is None:
            self._send(raw, _Expected(None, 1, starts_stream))
            return starts_stream
        strike.client = _process_of(self._client)
        try:
            # Requests sent before the unlucky one still get their replies.
            await self._all_answered.wait()
            await self._befall(strike, raw, starts_stream)
        finally:
            strike.give_back()
        return starts_stream

    async def _befall(self, strike: _Strike, raw: bytes, starts_stream: bool) -> None:
        match strike.fault:
            case Fault.LOSE_REQUEST:
                strike.land()
                raise _Cut
            case Fault.BLACKHOLE:
                self._is_audible.clear()
                strike.land()
                await strike.last()
                raise _Cut
            case Fault.DELAY:
                strike.land()
                await strike.last()
                self._send(raw, _Expected(None, 1, starts_stream))
            case Fault.LOSE_REPLY | Fault.CUT_MID_REPLY | Fault.DUPLICATE:
                copies = 2 if strike.fault is Fault.DUPLICATE else 1
                self._send(raw * copies, _Expected(strike, copies, starts_stream))
                await self._all_answered.wait()

    def _send(self, raw: bytes, expected: _Expected) -> None:
        self._expected.append(expected)
        self._all_answered.clear()
        self._server.write(raw)

    async def _forward_replies(self) -> None:
        delimiter, is_streaming = Delimiter(), False
        while data := await self._server_reader.read(1 << 16):
            await self._is_audible.wait()
            delimiter.feed(data)
            while not is_streaming and (raw := delimiter.take_value()) is not None:
                is_streaming = self._forward_reply(raw)
            if is_streaming:
                self._client.write(delimiter.take_rest())
            await self._client.drain()
        await self._is_audible.wait()
        raise _Cut

    def _forward_reply(self, raw: bytes) -> bool:
        """Pass on one value from the server; true if only a stream follows it."""
        expected = self._expected[0] if self._expected else None
        if expected is None or (raw[:1] == b">" and not expected.starts_stream):
            self._client.write(raw)  # The server spoke unasked.
            return False
        expected.replies.append(raw)
        if len(expected.replies) < expected.copies:
            return False
        reply = expected.replies[0]
        if expected.strike is not None and not reply.startswith(b"-NOSCRIPT"):
            expected.strike.land()
            if expected.strike.fault is Fault.CUT_MID_REPLY:
                self._client.write(reply[: len(reply) // 2])
            if expected.strike.fault is not Fault.DUPLICATE:
                raise _Cut
        self._client.write(reply)
        self._expected.popleft()
        if not self._expected:
            self._all_answered.set()
        return expected.starts_stream
