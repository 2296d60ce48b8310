"""`penstock log lag` and `penstock log seek`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.cli.group_pace import measure
from tests.cli.conftest import cells
from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    """Two partitions of five messages; group `sessions` has read two of the first."""
    log = ps.log("clicks", partitions=2)
    for partition in (0, 1):
        log.append_many([penstock.NewMessage(b"%d" % n, partition=partition) for n in range(5)])
    group = log.group("sessions")
    group.join()
    second = log.page(0, limit=2)[-1]
    group.commit(0, group.take(0, "w1").epoch, second.id)
    group.take(1, "w2")
    return log


def offsets(log: penstock.Log) -> list[str]:
    return [part.readers[0].offset for part in log.info().partitions]


def test_lag_is_in_messages_and_seconds_by_partition(
    cli: CommandLine, clicks: penstock.Log
) -> None:
    document = cli.json("log", "lag", "clicks", "--over", "0")
    text = cli("log", "lag", "clicks", "--over", "0").stdout

    [reader] = document["readers"]
    assert (reader["reader"], reader["messages"]) == ("sessions", 8)
    assert [(one["partition"], one["messages"]) for one in reader["partitions"]] == [(0, 3), (1, 5)]
    assert [one["offset"] for one in reader["partitions"]] == offsets(clicks)
    assert reader["seconds"] == max(one["seconds"] for one in reader["partitions"])
    assert [row[:4] for row in cells(text)[1:3]] == [
        ["sessions", "0", offsets(clicks)[0], "3"],
        ["sessions", "1", offsets(clicks)[1], "5"],
    ]
    assert "'sessions' is 8 messages behind; the oldest has waited" in text


def test_lag_of_one_group_leaves_out_the_others(cli: CommandLine, clicks: penstock.Log) -> None:
    clicks.mark("archive", {0: clicks.partition_info(0).last})

    document = cli.json("log", "lag", "clicks", "--over", "0", "--group", "archive")

    assert [reader["reader"] for reader in document["readers"]] == ["archive"]
    said = cli("log", "lag", "clicks", "--over", "0", "--group", "archive").stdout
    assert "'archive' has read everything" in said
    assert "sessions" not in said


def test_lag_of_a_group_that_is_not_there_is_an_error(
    cli: CommandLine, clicks: penstock.Log
) -> None:
    result = cli("log", "lag", "clicks", "--over", "0", "--group", "sesions")

    assert result.exit_code == 1
    assert "no group 'sesions' reads log 'clicks' (those that do: sessions)" in result.stderr


def test_lag_of_a_log_that_is_not_there_is_an_error(cli: CommandLine) -> None:
    assert cli("log", "lag", "clicks", "--over", "0").exit_code == 1
    assert "no log 'clicks'" in cli("log", "lag", "clicks", "--over", "0").stderr


def test_lag_of_a_log_that_nobody_reads_says_so(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.log("clicks").append(b"x")

    assert cli.json("log", "lag", "clicks", "--over", "0") == {"log": "clicks", "readers": []}
    assert (
        cli("log", "lag", "clicks", "--over", "0").stdout == "nobody has begun to read 'clicks'\n"
    )


def test_rates_come_of_two_looks(clicks: penstock.Log) -> None:
    group = clicks.group("sessions")
    workers = {"w1", "w2"}

    def meanwhile(_: float) -> None:
        clicks.append_many([penstock.NewMessage(b"x", partition=1)] * 20)
        clicks.mark("late", {0: "1-0"})
        group.commit(1, group.take(1, "w2.0").epoch, clicks.page(1, limit=4)[-1].id)
        deadline = clicks.partition_info(0).now + 0.02
        wait_for(lambda: clicks.partition_info(0).now > deadline)

    info, found, paces = measure(clicks, workers, 1.0, meanwhile)

    assert sum(lag.messages for lag in found if lag.reader == "sessions") == 3 + 21
    assert list(paces) == ["sessions"]
    assert info.partitions[1].added == 25
    seen = paces["sessions"]
    assert seen.arriving / seen.handled == pytest.approx(20 / 4)


def test_programs_get_rates_and_people_a_sentence(cli: CommandLine, clicks: penstock.Log) -> None:
    clicks.mark("archive", {0: "1-0"})

    archive, sessions = cli.json("log", "lag", "clicks", "--over", "0.01")["readers"]
    text = cli("log", "lag", "clicks", "--over", "0.01").stdout

    assert archive["arriving"] == sessions["arriving"] == sessions["handled"] == 0
    assert "0.0 a second arrive, 0.0 a second are handled" in text
    assert "workers needed" in text.splitlines()[-1]
    [unmeasured, _] = cli.json("log", "lag", "clicks", "--over", "0")["readers"]
    assert unmeasured["arriving"] is None


def test_seek_to_the_ends(cli: CommandLine, clicks: penstock.Log) -> None:
    ahead = cli("log", "seek", "clicks", "sessions", "--to", "latest")
    ends = [part.last for part in clicks.info().partitions]
    assert ahead.stdout == "'sessions' goes on from latest; 0 messages to read in all\n"
    assert offsets(clicks) == ends

    back = cli.json("log", "seek", "clicks", "sessions", "--to", "earliest", "--partition", "1")
    assert back["lag"] == 5
    assert offsets(clicks) == [ends[0], "0-0"]


def test_seek_to_a_time(cli: CommandLine, clicks: penstock.Log) -> None:
    past = cli.json("log", "seek", "clicks", "sessions", "--to", "2001-01-01T00:00Z")
    future = cli.json("log", "seek", "clicks", "sessions", "--to", "2200-01-01T00:00Z")

    assert (past["lag"], future["lag"]) == (10, 0)


def test_seek_to_a_message_of_a_partition(cli: CommandLine, clicks: penstock.Log) -> None:
    fourth = clicks.page(1, limit=4)[-1].id

    found = cli.json("log", "seek", "clicks", "sessions", "--to", fourth, "--partition", "1")

    assert found == {
        "log": "clicks",
        "group": "sessions",
        "to": fourth,
        "partition": 1,
        "lag": 3 + 1,
    }


def test_seek_refuses_what_it_cannot_do(cli: CommandLine, clicks: penstock.Log) -> None:
    clicks.mark("archive", {0: "1-0"})
    before = clicks.info().partitions

    def said(*arguments: str) -> tuple[int, str]:
        result = cli("log", "seek", "clicks", *arguments)
        return result.exit_code, result.stderr

    status, text = said("sessions", "--to", "1-0")
    assert (status, "give --partition too" in text) == (2, True)
    status, text = said("sessions", "--to", "yesterday")
    assert (status, "not a time" in text) == (2, True)
    status, text = said("nobody", "--to", "latest")
    assert (status, "no group 'nobody'" in text) == (1, True)
    status, text = said("archive", "--to", "latest")
    assert (status, "this is for groups of consumers" in text) == (1, True)
    status, text = said("sessions", "--to", "latest", "--partition", "7")
    assert (status, "has partitions 0 to 1" in text) == (1, True)
    assert [part.readers for part in clicks.info().partitions] == [p.readers for p in before]
