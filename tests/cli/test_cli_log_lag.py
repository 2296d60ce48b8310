"""`penstock log lag` and `penstock log seek`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from tests.cli.conftest import cells

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
    document = cli.json("log", "lag", "clicks")
    text = cli("log", "lag", "clicks").stdout

    [reader] = document["readers"]
    assert (reader["reader"], reader["messages"]) == ("sessions", 8)
    assert [(one["partition"], one["messages"]) for one in reader["partitions"]] == [(0, 3), (1, 5)]
    assert reader["seconds"] == max(one["seconds"] for one in reader["partitions"])
    assert [row[:3] for row in cells(text)[1:3]] == [["sessions", "0", "3"], ["sessions", "1", "5"]]
    assert "'sessions' is 8 messages behind; the oldest has waited" in text


def test_lag_of_one_group_leaves_out_the_others(cli: CommandLine, clicks: penstock.Log) -> None:
    clicks.mark("archive", {0: clicks.partition_info(0).last})

    document = cli.json("log", "lag", "clicks", "--group", "archive")

    assert [reader["reader"] for reader in document["readers"]] == ["archive"]
    said = cli("log", "lag", "clicks", "--group", "archive").stdout
    assert "'archive' has read everything" in said
    assert "sessions" not in said


def test_lag_of_a_group_that_is_not_there_is_an_error(
    cli: CommandLine, clicks: penstock.Log
) -> None:
    result = cli("log", "lag", "clicks", "--group", "sesions")

    assert result.exit_code == 1
    assert "no group 'sesions' reads log 'clicks' (those that do: sessions)" in result.stderr


def test_lag_of_a_log_that_is_not_there_is_an_error(cli: CommandLine) -> None:
    assert cli("log", "lag", "clicks").exit_code == 1
    assert "no log 'clicks'" in cli("log", "lag", "clicks").stderr


def test_lag_of_a_log_that_nobody_reads_says_so(cli: CommandLine, ps: penstock.Penstock) -> None:
    ps.log("clicks").append(b"x")

    assert cli.json("log", "lag", "clicks") == {"log": "clicks", "readers": []}
    assert cli("log", "lag", "clicks").stdout == "nobody has begun to read 'clicks'\n"


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
