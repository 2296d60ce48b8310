"""The fault proxy does to a connection what was planned, once per plan, and nothing else."""

from __future__ import annotations

import hashlib
import select
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from tests.proxy import Delimiter, Fault, FaultProxy, arguments_of, match_command, match_script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUSH = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
PUSH_SHA = hashlib.sha1(PUSH.encode()).hexdigest()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", str(folder)]
    with subprocess.Popen([*command, "--save", "", "--logfile", "redis.log"]) as process:
        try:
            wait_until_ready(path)
            yield path
        finally:
            process.terminate()


@pytest.fixture
def redis(server: Path) -> Iterator[Redis]:
    """A connection that does not go through the proxy."""
    with Redis(unix_socket_path=str(server)) as client:
        client.flushall()
        client.script_flush()
        yield client


@pytest.fixture
def proxy(tmp_path: Path, server: Path, redis: Redis) -> Iterator[FaultProxy]:
    with FaultProxy(tmp_path, server, record=100) as proxy:
        yield proxy


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(request: pytest.FixtureRequest, proxy: FaultProxy) -> Iterator[Redis]:
    """A connection through the proxy that never retries."""
    with Redis(
        unix_socket_path=str(proxy.path),
        protocol=request.param,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=10,
    ) as client:
        yield client


@pytest.fixture
def wire(proxy: FaultProxy) -> Iterator[socket.socket]:
    """A bare connection through the proxy."""
    with connect(proxy) as wire:
        yield wire


def connect(proxy: FaultProxy) -> socket.socket:
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(10)
    wire.connect(str(proxy.path))
    return wire


def wait_until_ready(path: Path) -> None:
    retry = Retry(NoBackoff(), 0)
    deadline = time.monotonic() + 10
    with Redis(unix_socket_path=str(path), retry=retry) as client:
        while True:
            try:
                client.ping()
                return
            except RedisConnectionError:
                if time.monotonic() > deadline:
                    raise


def read_to_end(wire: socket.socket) -> bytes:
    received = b""
    while data := wire.recv(1 << 16):
        received += data
    return received


def is_silent(wire: socket.socket) -> bool:
    return select.select([wire], [], [], 0.05)[0] == []


def encode(*arguments: bytes) -> bytes:
    bulks = (b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments)
    return b"*%d\r\n%s" % (len(arguments), b"".join(bulks))


VALUES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":1\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$7\r\na\r\nb\r\nc\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n",
    b"%2\r\n+a\r\n*1\r\n:1\r\n+b\r\n~1\r\n,1.5\r\n",
    b"|1\r\n+ttl\r\n:3\r\n*1\r\n#t\r\n",
    b">2\r\n+invalidate\r\n_\r\n",
    b"=7\r\ntxt:a\r\n\r\n",
    b"!3\r\nERR\r\n",
    b"(12345678901234567890\r\n",
]


class TestDelimiter:
    def test_values_that_arrive_together_are_told_apart(self) -> None:
        delimiter = Delimiter()
        delimiter.feed(b"".join(VALUES))

        assert [delimiter.take_value() for _ in VALUES] == VALUES
        assert delimiter.take_value() is None

    @pytest.mark.parametrize("value", VALUES)
    def test_a_value_that_arrives_byte_by_byte_is_whole_only_at_its_last(
        self, value: bytes
    ) -> None:
        delimiter = Delimiter()
        taken = []
        for byte in value:
            delimiter.feed(bytes([byte]))
            taken.append(delimiter.take_value())

        assert taken == [None] * (len(value) - 1) + [value]

    def test_what_is_not_resp_is_refused(self) -> None:
        delimiter = Delimiter()
        delimiter.feed(b"GET / HTTP/1.1\r\n")

        with pytest.raises(ValueError, match=r"not RESP: b'GET / HTTP/1.1'"):
            delimiter.take_value()

    def test_arguments_may_hold_line_ends(self) -> None:
        assert arguments_of(encode(b"SET", b"", b"a\r\n$1\r\n")) == [b"SET", b"", b"a\r\n$1\r\n"]


class TestMatching:
    @pytest.mark.parametrize("script", [PUSH, PUSH.encode(), PUSH_SHA, PUSH_SHA.upper()])
    def test_a_script_is_matched_by_sha_and_by_text(self, script: str | bytes) -> None:
        match = match_script("return 1", script)

        assert match([b"EVALSHA", PUSH_SHA.encode(), b"0"])
        assert match([b"eval", PUSH.encode(), b"0"])
        assert not match([b"EVAL", PUSH_SHA.encode(), b"0"])
        assert not match([b"EVALSHA", b"0" * 40, b"0"])
        assert not match([b"PING"])

    def test_a_command_is_matched_in_any_case(self) -> None:
        assert match_command(b"get", b"SET")([b"set", b"k", b"v"])
        assert not match_command(b"get")([b"GETDEL", b"k"])


class TestPassThrough:
    def test_a_pipeline_comes_back_in_order(self, client: Redis, proxy: FaultProxy) -> None:
        with client.pipeline(transaction=False) as pipeline:
            for number in range(1000):
                pipeline.echo(str(number))
            replies = pipeline.execute()

        assert replies == [b"%d" % number for number in range(1000)]
        assert proxy.requests[-1] == [b"ECHO", b"999"]
        assert len(proxy.requests) == 100

    def test_a_transaction_and_nested_replies_come_back(self, client: Redis) -> None:
        with client.pipeline(transaction=True) as pipeline:
            pipeline.hset("hash", mapping={"a": "1"})
            pipeline.hgetall("hash")
            pipeline.eval("return {1, {2, {'three'}}}", 0)
            replies = pipeline.execute()

        assert replies == [1, {b"a": b"1"}, [1, [2, [b"three"]]]]

    def test_two_megabytes_go_both_ways(self, client: Redis) -> None:
        payload = b"\r\n*3\r\n" * 350_000
        client.set("big", payload)

        assert client.get("big") == payload

    def test_a_long_reply_of_many_small_values_comes_back(self, client: Redis) -> None:
        client.rpush("list", *range(100_000))

        assert client.lrange("list", 0, -1) == [b"%d" % number for number in range(100_000)]

    def test_a_request_may_come_byte_by_byte(self, wire: socket.socket) -> None:
        for byte in encode(b"ECHO", b"a\r\nb"):
            wire.sendall(bytes([byte]))
        wire.shutdown(socket.SHUT_WR)

        assert read_to_end(wire) == b"$4\r\na\r\nb\r\n"

    def test_an_empty_request_does_not_shift_the_replies(self, wire: socket.socket) -> None:
        wire.sendall(b"*0\r\n" + encode(b"ECHO", b"a") + b"*-1\r\n" + encode(b"ECHO", b"b"))
        wire.shutdown(socket.SHUT_WR)

        assert read_to_end(wire) == b"$1\r\na\r\n$1\r\nb\r\n"

    def test_messages_reach_a_subscriber(self, client: Redis, redis: Redis) -> None:
        with client.pubsub() as pubsub:  # type: ignore[no-untyped-call]
            pubsub.subscribe("news", "other")
            pubsub.psubscribe("n*")
            confirmations = [pubsub.get_message(timeout=10) for _ in range(3)]
            redis.publish("news", "hello")
            messages = [pubsub.get_message(timeout=10) for _ in range(2)]

        assert [message and message["data"] for message in confirmations] == [1, 2, 3]
        assert [message and message["data"] for message in messages] == [b"hello", b"hello"]

    def test_requests_before_a_subscription_keep_their_replies(self, wire: socket.socket) -> None:
        wire.sendall(encode(b"ECHO", b"a") + encode(b"SUBSCRIBE", b"c") + encode(b"PING"))
        wire.shutdown(socket.SHUT_WR)

        assert read_to_end(wire) == (
            b"$1\r\na\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"
        )

    def test_pushes_the_client_did_not_ask_for_match_no_request(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.CUT_MID_REPLY, match=match_command(b"ECHO"))
        wire.sendall(encode(b"HELLO", b"3") + encode(b"CLIENT", b"TRACKING", b"on", b"BCAST"))
        received = b""
        while not received.endswith(b"+OK\r\n"):
            received += wire.recv(1 << 16)
        redis.set("k", "v")
        pushed = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
        received = wire.recv(len(pushed), socket.MSG_WAITALL)
        wire.sendall(encode(b"ECHO", b"abcd"))

        assert received == pushed
        assert read_to_end(wire) == b"$4\r\na"
        assert rule.hits == 1

    def test_tcp_works_on_both_sides(self, tmp_path: Path, server: Path) -> None:
        with (
            FaultProxy(tmp_path, server, tcp=True, name="near.sock") as near,
            FaultProxy(tmp_path, ("127.0.0.1", near.port or 0), name="far.sock") as far,
            Redis(unix_socket_path=str(far.path)) as client,
        ):
            assert client.echo("a") == b"a"

    def test_a_client_that_hangs_up_leaves_nothing_blocked(
        self, wire: socket.socket, redis: Redis
    ) -> None:
        wire.sendall(encode(b"CLIENT", b"ID") + encode(b"BLPOP", b"empty", b"0"))
        number = int(wire.recv(100)[1:])
        wire.close()

        deadline = time.monotonic() + 10
        while redis.client_list(client_id=[str(number)]):
            assert time.monotonic() < deadline

    def test_a_server_that_hangs_up_is_noticed(self, wire: socket.socket, redis: Redis) -> None:
        wire.sendall(encode(b"CLIENT", b"ID"))
        number = int(wire.recv(100)[1:])
        redis.client_kill_filter(_id=str(number))

        assert wire.recv(1) == b""


class TestFaults:
    def test_a_lost_reply_was_executed_once(
        self, client: Redis, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.LOSE_REPLY, match=match_command(b"RPUSH"))

        with pytest.raises(RedisConnectionError):
            client.rpush("list", "a")

        assert rule.hits == 1
        assert redis.lrange("list", 0, -1) == [b"a"]
        assert client.rpush("list", "b") == 2
        assert rule.hits == 1

    def test_a_lost_request_was_not_executed(
        self, client: Redis, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.LOSE_REQUEST, match=match_command(b"RPUSH"))

        with pytest.raises(RedisConnectionError):
            client.rpush("list", "a")

        assert rule.hits == 1
        assert redis.exists("list") == 0

    def test_a_reply_cut_in_the_middle_was_executed_once(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.CUT_MID_REPLY)
        wire.sendall(encode(b"RPUSH", b"list", b"a"))

        assert read_to_end(wire) == b":1"
        assert rule.hits == 1
        assert redis.llen("list") == 1

    def test_a_client_calls_half_a_reply_a_lost_connection(
        self, client: Redis, proxy: FaultProxy, redis: Redis
    ) -> None:
        redis.set("big", b"x" * 2_000_000)
        rule = proxy.plan(Fault.CUT_MID_REPLY, match=match_command(b"GET"))

        with pytest.raises(RedisConnectionError):
            client.get("big")

        assert rule.hits == 1

    def test_a_duplicate_is_executed_twice_and_answered_once(
        self, client: Redis, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.DUPLICATE, match=match_command(b"RPUSH"))

        assert client.rpush("list", "a") == 1
        assert rule.hits == 1
        assert redis.lrange("list", 0, -1) == [b"a", b"a"]
        assert client.echo("in step") == b"in step"

    def test_a_cut_in_a_pipeline_keeps_earlier_replies_and_loses_later_requests(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        proxy.plan(Fault.LOSE_REPLY, match=lambda request: request[-1] == b"b")
        wire.sendall(b"".join(encode(b"RPUSH", b"list", letter) for letter in (b"a", b"b", b"c")))

        assert read_to_end(wire) == b":1\r\n"
        assert redis.lrange("list", 0, -1) == [b"a", b"b"]

    def test_a_delayed_request_is_executed_after_its_time(
        self, client: Redis, proxy: FaultProxy
    ) -> None:
        rule = proxy.plan(Fault.DELAY, match=match_command(b"ECHO"), seconds=0.05)
        began = time.monotonic()

        assert client.echo("a") == b"a"
        assert time.monotonic() - began >= 0.05
        assert rule.hits == 1

    def test_a_delayed_request_arrives_although_its_client_is_gone(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.DELAY)
        wire.sendall(encode(b"RPUSH", b"list", b"late"))
        rule.wait_for_hits(1)
        wire.close()
        assert redis.exists("list") == 0

        rule.release()

        assert redis.blpop(["list"], timeout=10) is not None

    def test_a_black_hole_is_silent_until_released(
        self, proxy: FaultProxy, redis: Redis, wire: socket.socket
    ) -> None:
        rule = proxy.plan(Fault.BLACKHOLE, match=match_command(b"RPUSH"))
        wire.sendall(encode(b"ECHO", b"a") + encode(b"RPUSH", b"list", b"a") + encode(b"PING"))
        rule.wait_for_hits(1)
        assert wire.recv(100) == b"$1\r\na\r\n"
        assert is_silent(wire)

        rule.release()

        assert read_to_end(wire) == b""
        assert redis.exists("list") == 0

    def test_a_client_times_out_in_a_black_hole(self, proxy: FaultProxy) -> None:
        rule = proxy.plan(Fault.BLACKHOLE, match=match_command(b"ECHO"))
        never = Retry(NoBackoff(), 0)
        with Redis(unix_socket_path=str(proxy.path), socket_timeout=0.5, retry=never) as client:
            with pytest.raises(RedisTimeoutError):
                client.echo("a")

            assert rule.hits == 1
            assert client.echo("b") == b"b"

    def test_a_black_hole_ends_with_its_time(self, wire: socket.socket, proxy: FaultProxy) -> None:
        proxy.plan(Fault.BLACKHOLE, seconds=0.01)
        wire.sendall(encode(b"PING"))

        assert read_to_end(wire) == b""

    def test_a_black_hole_hides_that_the_server_hung_up(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.BLACKHOLE, match=match_command(b"PING"))
        wire.sendall(encode(b"CLIENT", b"ID") + encode(b"PING"))
        number = int(wire.recv(100)[1:])
        rule.wait_for_hits(1)
        redis.client_kill_filter(_id=str(number))
        redis.ping()
        assert is_silent(wire)

        rule.release()

        assert wire.recv(1) == b""


class TestRules:
    def test_the_first_matching_rule_wins_until_it_is_used_up(
        self, proxy: FaultProxy, redis: Redis
    ) -> None:
        first = proxy.plan(Fault.LOSE_REQUEST, times=2, match=match_command(b"RPUSH"))
        second = proxy.plan(Fault.LOSE_REPLY, times=1, match=match_command(b"RPUSH"))
        hits = []
        for _ in range(4):
            with connect(proxy) as wire:
                wire.sendall(encode(b"RPUSH", b"list", b"a"))
                wire.shutdown(socket.SHUT_WR)
                hits.append((read_to_end(wire), first.hits, second.hits))

        assert hits == [(b"", 1, 0), (b"", 2, 0), (b"", 2, 1), (b":2\r\n", 2, 1)]

    def test_a_rule_is_shared_fairly_by_many_connections(
        self, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.LOSE_REPLY, times=50, match=match_command(b"RPUSH"))
        answered: list[bytes] = []

        def push() -> None:
            for _ in range(10):
                with connect(proxy) as wire:
                    wire.sendall(encode(b"RPUSH", b"list", b"a"))
                    wire.shutdown(socket.SHUT_WR)
                    answered.append(read_to_end(wire))

        threads = [threading.Thread(target=push) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert rule.hits == 50
        assert answered.count(b"") == 50
        assert redis.llen("list") == 80

    def test_waiting_for_a_fault_that_does_not_happen_fails(self, proxy: FaultProxy) -> None:
        rule = proxy.plan(Fault.DELAY, match=match_command(b"RPUSH"))

        with pytest.raises(TimeoutError, match="DELAY happened 0 times, not 1"):
            rule.wait_for_hits(1, timeout_s=0.01)

    @pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.CUT_MID_REPLY, Fault.DUPLICATE])
    def test_a_script_the_server_does_not_know_uses_up_no_fault(
        self, fault: Fault, client: Redis, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(fault, match=match_script(PUSH))

        with pytest.raises(NoScriptError):
            client.evalsha(PUSH_SHA, 1, "list", "a")
        assert rule.hits == 0
        with connect(proxy) as wire:
            wire.sendall(encode(b"EVAL", PUSH.encode(), b"1", b"list", b"a"))
            wire.shutdown(socket.SHUT_WR)
            read_to_end(wire)

        assert rule.hits == 1
        assert redis.llen("list") == {Fault.DUPLICATE: 2}.get(fault, 1)

    def test_a_fault_whose_connection_died_first_is_still_to_come(
        self, wire: socket.socket, proxy: FaultProxy, redis: Redis
    ) -> None:
        rule = proxy.plan(Fault.LOSE_REPLY, match=match_command(b"BLPOP"))
        wire.sendall(encode(b"CLIENT", b"ID") + encode(b"BLPOP", b"list", b"0"))
        number = int(wire.recv(100)[1:])
        redis.client_kill_filter(_id=str(number))
        assert wire.recv(1) == b""
        assert rule.hits == 0

        redis.rpush("list", "a")
        with connect(proxy) as second:
            second.sendall(encode(b"BLPOP", b"list", b"0"))
            assert read_to_end(second) == b""

        assert rule.hits == 1
        assert redis.llen("list") == 0


class TestLife:
    def test_a_closed_proxy_leaves_nothing_behind(self, tmp_path: Path, server: Path) -> None:
        threads = threading.active_count()
        with FaultProxy(tmp_path, server) as proxy:
            rule = proxy.plan(Fault.BLACKHOLE)
            wire = connect(proxy)
            idle = connect(proxy)
            wire.sendall(encode(b"PING"))
            rule.wait_for_hits(1)

        with wire, idle:
            assert wire.recv(1) == b""
            assert idle.recv(1) == b""
        assert threading.active_count() == threads
        assert list(tmp_path.iterdir()) == []
        rule.release()

    def test_an_upstream_that_is_down_looks_like_a_cut(self, tmp_path: Path) -> None:
        with FaultProxy(tmp_path, tmp_path / "nobody.sock") as proxy, connect(proxy) as wire:
            assert wire.recv(1) == b""

    def test_a_folder_that_does_not_exist_is_an_error(self, tmp_path: Path, server: Path) -> None:
        with pytest.raises(FileNotFoundError), FaultProxy(tmp_path / "missing", server):
            pass

    def test_a_mistake_in_a_match_is_raised_at_the_end(self, tmp_path: Path, server: Path) -> None:
        with (
            pytest.raises(ExceptionGroup, match="unhandled errors") as caught,
            FaultProxy(tmp_path, server) as proxy,
        ):
            proxy.plan(Fault.DELAY, match=lambda request: request[7] == b"")
            with connect(proxy) as wire:
                wire.sendall(encode(b"PING"))
                assert wire.recv(1) == b""

        assert caught.group_contains(IndexError)


def test_the_default_client_of_redis_py_repeats_what_was_executed(
    proxy: FaultProxy, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis.retry.sleep", lambda seconds: None)
    rule = proxy.plan(Fault.LOSE_REPLY, times=3, match=match_script(PUSH))
    with Redis(unix_socket_path=str(proxy.path)) as client:
        pushed = client.eval(PUSH, 1, "list", "a")

    assert pushed == 4
    assert rule.hits == 3
    assert redis.lrange("list", 0, -1) == [b"a"] * 4
