"""`penstock bench`: every figure comes out and makes sense; how fast is not a test's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.bench.figures import MEASURES, RATIOS, count_steps, medians, ratios
from penstock.bench.sizes import choose_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.bench.figures import Values
    from tests.servers import RedisServer

BENCH = [sys.executable, "-m", "penstock", "bench", "--quick", "--scale", "0.01", "--rounds", "1"]
SPEEDS = (
    *("raw_evalsha", "raw_lpush", "raw_lmove_del"),
    *("enqueue_one_by_one", "enqueue_hundreds", "enqueue_all_at_once"),
)
GROWTH = {"enqueue_us", "enqueue_server_us", "start_finish_us", "start_finish_server_us"}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the benchmark makes its folder; short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield Path(folder)


def run_bench(temporary: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*BENCH, *options],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        timeout=100,
        check=False,
    )


def test_all_figures_come_out_as_json(temporary: Path) -> None:
    ended = run_bench(temporary, "--json")

    assert ended.returncode == 0, ended.stderr
    results: dict[str, Any] = json.loads(ended.stdout)
    figures = results["figures"]
    assert set(figures) == set(MEASURES)
    for name in SPEEDS:
        assert set(figures[name]) == {"per_s", "client_us", "server_us"}
        assert all(value > 0 for value in figures[name].values())
    for name in ("drain_sync", "drain_async"):
        assert set(figures[name]) == {"per_s", "worker_us", "server_us"}
        assert figures[name]["per_s"] > 0
    for name in ("pick_up", "raw_wake"):
        assert 0 < figures[name]["p50_ms"] <= figures[name]["p99_ms"]
        assert figures[name]["samples"] == 10
    assert figures["memory"]["bytes_per_task"] > 100
    assert figures["raw_list_memory"]["bytes_per_task"] > 100
    assert figures["idle"]["commands_per_s"] >= 0
    assert set(results["ratios"]) == set(RATIOS)
    assert all(ratio > 0 for ratio in results["ratios"].values())
    assert all(set(row) == GROWTH for row in results["by_backlog"].values())
    assert set(results["by_payload"]) == {"100", "1024", "10240", "102400"}
    assert results["setup"]["is_private"] is True
    assert results["setup"]["aof"] is True
    assert list(temporary.iterdir()) == []


def test_people_get_tables_and_a_given_server_is_left_clean(
    own_server: RedisServer, temporary: Path
) -> None:
    ended = run_bench(temporary, "--url", own_server.url)

    assert ended.returncode == 0, ended.stderr
    text = ended.stdout.decode()
    assert "the given server" in text
    assert "enqueue, one by one" in text
    assert "idle worker, commands/s" in text
    # What remembers the last requests goes by itself.
    left = [key for key in own_server.client.keys("*") if b":memory:" not in key]
    assert left == []


def test_more_than_one_server_is_refused(temporary: Path) -> None:
    ended = run_bench(temporary, "--json", "--url", "redis+cluster://localhost:1")

    assert ended.returncode == 1
    assert json.loads(ended.stdout)["error"]["code"] == "invalid_argument"


def test_a_median_needs_every_round() -> None:
    assert medians([{"a": 3.0, "b": 1.0}, {"a": 1.0, "b": None}, {"a": 2.0, "b": 1.0}]) == {
        "a": 2.0,
        "b": None,
    }


def test_a_ratio_says_how_much_of_the_limit_is_reached() -> None:
    figures: dict[str, Values] = {name: {value: 10.0} for name, (value, _) in RATIOS.items()}
    figures |= {limit: {value: 20.0} for value, limit in RATIOS.values()}

    assert set(ratios(figures).values()) == {0.5}


def test_the_quick_sizes_stop_at_a_hundred_thousand() -> None:
    assert choose_sizes(is_quick=True).backlogs == (1_000, 10_000, 100_000)
    assert choose_sizes(is_quick=False).backlogs[-1] == 1_000_000
    assert choose_sizes(is_quick=True).samples >= 300
    assert count_steps(choose_sizes(is_quick=True), rounds=3) == 3 * len(MEASURES) + 7
