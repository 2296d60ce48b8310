"""`penstock worker dump`: what a worker told of the logs that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.worker.log_counters import LogCounters
from tests.cli.conftest import cells

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine

OWNED = {
    "log": "clicks",
    "group": "sessions",
    "partition": 3,
    "epoch": 1700000000123,
    "position": "7-0",
    "committed": "5-0",
    "state": "stands still",
    "problem": "message 8-0 failed 3 times",
}


def counters() -> dict[str, object]:
    made = LogCounters(processed=41, failed=2, retried=5, rebalances=3)
    made.committing.add(0.002)
    made.committing.add(0.004)
    return made.document()


def test_dump_has_counters_and_partitions(cli: CommandLine, ps: penstock.Penstock) -> None:
    about = {"logs": counters(), "partitions": [OWNED], "partitions_owned": 1}
    with ps.worker("reader", about=about) as worker:
        document = cli.json("worker", "dump", worker.id)
        text = cli("worker", "dump", worker.id).stdout
        shown = cli("worker", "show", worker.id).stdout

    assert document == {"id": worker.id, "is_alive": True, **about}
    table = cells(text)
    assert ["processed", "41"] in table
    assert "committing  2 times, 3.0 ms each, 4.0 ms at most" in text
    row = ["clicks", "sessions", "3", "1700000000123", "7-0", "5-0", "stands", "still"]
    assert row in table
    assert "clicks sessions partition 3 stands still: message 8-0 failed 3 times" in text
    assert "processed" not in shown


def test_dump_of_a_worker_without_logs_says_so(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("reader") as worker:
        assert "has told nothing of logs" in cli("worker", "dump", worker.id).stdout
        assert cli.json("worker", "dump", worker.id)["logs"] is None


def test_dump_of_a_worker_that_is_not_there_is_an_error(cli: CommandLine) -> None:
    result = cli("worker", "dump", "nobody")

    assert result.exit_code == 1
    assert "`penstock worker list` shows those that are" in result.stderr
