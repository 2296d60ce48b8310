"""An archive is killed at all moments and started again, and two of them run at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import psutil  # type: ignore[import-untyped]
import pytest

import penstock
from penstock.model.jobs import Report
from penstock.spark.history_lake import Lake
from penstock.store.keys import NamespaceKeys
from tests.contract.job_workers import Hand
from tests.servers import wait_for
from tests.spark.history_worlds import copy_last_entry, places_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.spark.history_lake import TableName
    from tests.servers import RedisServer

pytestmark = [pytest.mark.xdist_group("own spark"), pytest.mark.timeout(600)]

ENTRIES = 30_000
PATIENCE_S = 240


def test_no_attempt_is_lost_or_archived_twice(
    own_server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    places = _fill_history(own_server, namespace)
    lake = tmp_path / "history"
    archive = _archive_command(own_server, namespace, lake, "--once")
    table = lake / "attempts"

    _kill_when(archive, lambda: _commits(table) > 1)
    assert _commits(table) > 1
    ended = subprocess.run(archive, capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == 0, ended.stderr
    assert _places_by_pyarrow(lake) == places
    assert _places_by_duckdb(lake) == places


@pytest.mark.long
@pytest.mark.parametrize("victims", ["everything", "driver", "java", "python workers"])
@pytest.mark.parametrize("kind", ["history", "log"])
def test_whatever_is_killed_in_whichever_window_nothing_is_lost_or_archived_twice(
    own_server: RedisServer, namespace: str, tmp_path: Path, kind: str, victims: str
) -> None:
    source = SOURCES[kind]
    places = source.fill(own_server, namespace)
    lake = tmp_path / "history"
    archive = _archive_command(own_server, namespace, lake, "--once", source=source)
    table = lake / source.table
    stored = lake / "_penstock" / "checkpoint" / source.folder / "commits"
    said: list[str] = []
    chance = random.Random(victims)
    for window in ("written", "committed", "stored", "random"):
        # With those before, as Redis forgets what is in the lake.
        places |= source.add(own_server, namespace, 10_000)
        begun_with = _files(table), _commits(table), _stored(stored)
        moment = time.monotonic() + chance.uniform(5, 30)
        windows = {
            "written": lambda: _files(table) > begun_with[0],  # noqa: B023
            "committed": lambda: _commits(table) > max(1, begun_with[1]),  # noqa: B023
            "stored": lambda: _stored(stored) > begun_with[2],  # noqa: B023
            "random": lambda: time.monotonic() > moment,  # noqa: B023
        }
        said.append(_kill_when(archive, windows[window], _VICTIMS[victims]))
    ended = subprocess.run(archive, capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == 0, ended.stderr
    assert places.total() == ENTRIES + 4 * 10_000
    assert _places_by_pyarrow(lake, source) == places
    assert _places_by_duckdb(lake, source) == places
    assert _places_by_spark(lake, source) == places
    if victims in ("java", "python workers"):
        assert any(f"penstock: the {source.title} could not be" in each for each in said)


@pytest.mark.long
def test_an_archive_that_comes_back_after_another_has_taken_over_gives_way(
    own_server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    _fill_history(own_server, namespace)
    lake = tmp_path / "history"
    command = _archive_command(own_server, namespace, lake)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        with (tmp_path / f"said-{len(started)}").open("w") as said:
            process = subprocess.Popen(
                command, stdout=said, stderr=said, start_new_session=True, text=True
            )
        started.append(process)
        return process

    def is_archived() -> bool:
        known = _places_in(own_server, namespace)
        return _commits(lake / "attempts") > 1 and _places_by_pyarrow(lake) == known

    try:
        first = start()
        wait_for(is_archived, PATIENCE_S)
        os.killpg(first.pid, signal.SIGSTOP)
        _add_entries(own_server, namespace, 1000)
        second = start()
        wait_for(is_archived, PATIENCE_S)
        os.killpg(first.pid, signal.SIGCONT)
        _add_entries(own_server, namespace, 1000)
        wait_for(lambda: any(each.poll() is not None for each in started), PATIENCE_S)
        wait_for(is_archived, PATIENCE_S)
        (winner,) = (each for each in started if each.poll() is None)
        os.killpg(winner.pid, signal.SIGTERM)
        winner.wait(PATIENCE_S)
    finally:
        for each in started:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()

    loser = first if winner is second else second
    said = " ".join((tmp_path / f"said-{started.index(loser)}").read_text().split())
    assert (winner.returncode, loser.returncode) == (0, 1)
    assert "could not be archived: another archive goes on with the same checkpoint" in said
    assert is_archived()


def _archive_command(
    server: RedisServer,
    namespace: str,
    lake: Path,
    *options: str,
    source: Source | None = None,
) -> list[str]:
    option = (source or SOURCES["history"]).option
    archive = [sys.executable, "-m", "penstock", "spark", "archive", option, "mail", *options]
    archive += ["--to", str(lake), "--master", "local[2]"]
    return [*archive, "--url", server.url, "--namespace", namespace]


def _fill_history(server: RedisServer, namespace: str) -> Counter[str]:
    """Many copies of one entry; returns the place of each."""
    with penstock.connect(server.url, namespace=namespace) as ps:
        ps.jobs("mail").add("email")
        hand = Hand(ps)
        hand.report(*(Report(job.process, "done", 20, 10) for job in hand.take(1)))
    return _add_entries(server, namespace, ENTRIES - 1)


def _add_entries(server: RedisServer, namespace: str, entries: int) -> Counter[str]:
    """Copies of the last one; returns the places of all there are."""
    return copy_last_entry(server.client, _history_key(namespace), entries)


def _places_in(server: RedisServer, namespace: str) -> Counter[str]:
    return places_in(server.client, _history_key(namespace))


def _history_key(namespace: str) -> str:
    return NamespaceKeys(namespace).queue("mail").history


def _everything(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _driver(process: psutil.Process) -> list[psutil.Process]:
    return [process]


def _java(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if child.name() == "java"]


def _python_workers(process: psutil.Process) -> list[psutil.Process]:
    """Those that run tasks, and the one that starts them."""
    children = process.children(recursive=True)
    return [child for child in children if child.name().startswith("python")]


_VICTIMS = {
    "everything": _everything,
    "driver": _driver,
    "java": _java,
    "python workers": _python_workers,
}


def _kill_when(
    command: list[str],
    condition: Callable[[], bool],
    victims: Callable[[psutil.Process], list[psutil.Process]] = _everything,
) -> str:
    """Start a command, and kill some of its processes as soon as something is so. Returns what it
    has said in the end.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        deadline = time.monotonic() + 240
        while not condition() and process.poll() is None:
            assert time.monotonic() < deadline, "the archive wrote nothing"
            time.sleep(0.005)
        if process.poll() is None:
            for victim in victims(psutil.Process(process.pid)):
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
        _, said = process.communicate(timeout=240)
        return " ".join(said.split())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _files(table: Path) -> int:
    """Those of dead writers and those that are not complete included."""
    return len(list(table.rglob("*.parquet*")))


def _stored(commits: Path) -> int:
    """How many batches Spark has noted as stored."""
    return len([path for path in commits.glob("*") if path.name.isdigit()])


def _commits(table: Path) -> int:
    """How many there are; the first makes the table."""
    return len(list((table / "_delta_log").glob("*.json")))


def _fill_log(server: RedisServer, namespace: str) -> Counter[str]:
    return _add_messages(server, namespace, ENTRIES)


def _add_messages(server: RedisServer, namespace: str, messages: int) -> Counter[str]:
    """Messages in two partitions; returns the places of all there are."""
    with penstock.connect(server.url, namespace=namespace) as ps:
        log = ps.log("mail", partitions=2)
        log.append_many(b"%d" % number for number in range(messages))
        return Counter(f"{message.partition}:{message.id}" for message in log.read())


@dataclass(frozen=True)
class Source:
    """What is archived, and what it becomes."""

    option: str
    title: str
    table: TableName
    folder: str
    """of its checkpoint"""
    columns: tuple[str, ...]
    """what tells rows apart"""
    fill: Callable[[RedisServer, str], Counter[str]]
    add: Callable[[RedisServer, str, int], Counter[str]]


HISTORY = Source(
    *("-q", "history of queue 'mail'", "attempts", "mail", ("place",)), _fill_history, _add_entries
)
LOG = Source(
    *("--log", "messages of log 'mail'", "messages", "log=mail"),
    *(("partition", "offset"), _fill_log, _add_messages),
)
SOURCES = {"history": HISTORY, "log": LOG}


def _places_by_pyarrow(lake: Path, source: Source = HISTORY) -> Counter[str]:
    dataset = Lake(lake).table(source.table).open().to_pyarrow_dataset()
    rows = dataset.to_table(columns=list(source.columns)).to_pylist()
    return Counter(":".join(map(str, row.values())) for row in rows)


def _places_by_duckdb(lake: Path, source: Source = HISTORY) -> Counter[str]:
    dataset = Lake(lake).table(source.table).open().to_pyarrow_dataset()
    columns = ", ".join(f"lake.{name}" for name in source.columns)
    rows = duckdb.connect().register("lake", dataset).sql(f"SELECT {columns} FROM lake")
    return Counter(":".join(map(str, row)) for row in rows.fetchall())


def _places_by_spark(lake: Path, source: Source = HISTORY) -> Counter[str]:
    program = (
        "import sys, penstock.spark as ps\n"
        "lake, table, *columns = sys.argv[1:]\n"
        "rows = ps.lake(lake, table, spark=ps.session('local[2]')).select(*columns)\n"
        "for row in rows.toArrow().to_pylist(): print(*row.values(), sep=':')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(lake), source.table, *source.columns],
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(done.stdout.split())
