"""`penstock demo --only pipeline` on real processes, and what it says if a count is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.client.fsck import Report
from penstock.demo.orders.generate import write_orders
from penstock.demo.orders.outcome import Joined, find_disagreements
from penstock.demo.orders.view import Steps
from penstock.model.violations import Violation
from tests.servers import wait_for
from tests.spark.conftest import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
FEW = ("--orders", "300", "--lease-ms", "900")
GOOD = Joined(rows=3, orders=3, done=2, dead=1, failed_before=1, on_spark=1, paid=500)
PLACES = ["orders 1-0", "orders 2-0", "orders 3-0"]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo makes its folders; short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        yield Path(folder)


@pytest.mark.xdist_group("own spark")
@pytest.mark.timeout(TIMEOUT_S)
def test_the_example_takes_each_order_from_a_file_to_the_report(temporary: Path) -> None:
    kept = temporary / "kept"
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "orders.py"), *FEW, "--folder", kept, "--json"],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        timeout=TIMEOUT_S - 10,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    outcome = json.loads(ended.stdout)["pipeline"]
    assert outcome["disagreements"] == []
    assert outcome["orders"] == outcome["sent"] == outcome["done"] + outcome["dead"] == 300
    assert outcome["dead"] == outcome["letters"] > 0
    assert outcome["failed_before"] > 0
    assert outcome["on_spark"] > 0
    assert outcome["archived"] == outcome["attempts"] > 300
    assert "<svg" in Path(outcome["report"]).read_text()
    assert list(temporary.iterdir()) == [kept]


@pytest.mark.xdist_group("own spark")
@pytest.mark.timeout(TIMEOUT_S)
def test_an_interrupted_pipeline_leaves_nothing_behind(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "demo", "--only", "pipeline", *FEW],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert any("as Parquet" in line for line in demo.stdout)
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)

    assert demo.returncode == 130
    assert len(started) > 2
    wait_for(lambda: not any(is_alive(process) for process in started))
    assert list(temporary.iterdir()) == []


def is_alive(process: psutil.Process) -> bool:
    """Not so an orphan that nobody has reaped yet."""
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def test_a_folder_with_something_in_it_is_refused(temporary: Path) -> None:
    (temporary / "mine").write_text("precious")

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "penstock", "demo", "--only", "pipeline"),
            *("--folder", str(temporary)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert f"the folder {temporary} is not empty; name a new one" in ended.stderr
    assert (temporary / "mine").read_text() == "precious"


def test_each_step_is_said_when_it_begins_and_how_far_it_is_only_sometimes() -> None:
    lines = StringIO()
    view = Steps(Console(file=lines, width=80))

    with view:
        view.begin("Spark joins the results")
        view.show("orders sent", 1, 9)
        view.tell("9 orders sent")

    said = [line.partition(" s  ")[2] for line in lines.getvalue().splitlines()]
    assert said == ["Spark joins the results ...", "9 orders sent"]


def test_on_a_terminal_a_step_has_a_bar() -> None:
    screen = StringIO()
    view = Steps(Console(file=screen, width=80, force_terminal=True))

    with view:
        view.begin("Spark joins the results")

    assert "Spark joins the results" in screen.getvalue()


def test_the_same_seed_makes_the_same_orders(tmp_path: Path) -> None:
    write_orders(tmp_path / "one", 500)
    write_orders(tmp_path / "two", 500)

    one, two = pq.read_table(tmp_path / "one"), pq.read_table(tmp_path / "two")

    assert one.equals(two)
    assert sorted(one["order_id"].to_pylist()) == list(range(1, 501))
    assert set(one["card"].to_pylist()) == {"good", "busy", "expired"}


def test_counts_that_agree_are_a_success() -> None:
    assert find_disagreements(3, 3, GOOD, 1, set(PLACES), PLACES, Report()) == ()


@pytest.mark.parametrize(
    ("joined", "letters", "in_lake", "said"),
    [
        (GOOD._replace(rows=4), 1, PLACES, "3 orders have 4 jobs, of 3 different orders"),
        (GOOD._replace(done=1), 1, PLACES, "2 jobs of 3 have ended"),
        (GOOD, 0, PLACES, "1 orders were refused, but 0 letters written"),
        (GOOD, 1, PLACES[:2], "1 attempts are not in the lake"),
        (GOOD, 1, [*PLACES, "orders 4-0"], "1 attempts in the lake were never made"),
        (GOOD, 1, [*PLACES, PLACES[0]], "1 attempts are in the lake more than once"),
    ],
)
def test_a_wrong_count_is_told(joined: Joined, letters: int, in_lake: list[str], said: str) -> None:
    assert find_disagreements(3, 3, joined, letters, set(PLACES), in_lake, Report()) == (said,)


def test_a_broken_invariant_is_told() -> None:
    report = Report(violations=[Violation("I1", "orders", "a job is in two places")])

    found = find_disagreements(3, 3, GOOD, 1, set(PLACES), PLACES, report)

    assert found == ("I1: a job is in two places",)
