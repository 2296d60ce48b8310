"""`penstock group list|show|pause|resume|errors|replay`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import penstock
from tests.cli.conftest import cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import CommandLine


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    log = ps.log("clicks", partitions=2)
    for partition in (0, 1):
        log.append_many([penstock.NewMessage(b"%d" % n, partition=partition) for n in range(3)])
    return log


@pytest.fixture
def epoch(clicks: penstock.Log, ps: penstock.Penstock) -> Iterator[int]:
    """Of a member named after a living worker, which has read one message of partition 0."""
    group = clicks.group("sessions")
    group.join()
    worker = ps.worker(name="reader")
    worker.start()
    taken = group.take(0, f"{worker.id}.0")
    group.commit(0, taken.epoch, clicks.page(0, limit=1)[0].id)
    yield taken.epoch
    worker.stop()


def give_up(log: penstock.Log, epoch: int) -> penstock.Message:
    message = log.page(0, limit=2)[1]
    log.group("sessions").note_error(0, epoch, message, "ValueError: no", 3)
    return message


def test_no_groups_are_an_empty_list_and_a_hint(cli: CommandLine, clicks: penstock.Log) -> None:
    assert cli.json("group", "list") == []
    assert cli("group", "list").stdout == "no groups; a worker with a consumer is in one\n"


def test_groups_are_listed_with_what_they_have_to_do(
    cli: CommandLine, ps: penstock.Penstock, clicks: penstock.Log, epoch: int
) -> None:
    ps.queue("mail").enqueue(b"x")
    ps.log("views").append(b"x")
    ps.log("views").group("audit").join()
    clicks.mark("archive", {0: "1-0"})

    found = cli.json("group", "list")

    assert [(one["log"], one["group"], one["workers"], one["messages"]) for one in found] == [
        ("clicks", "sessions", 1, 2),
        ("views", "audit", 0, 0),
    ]
    assert [one["group"] for one in cli.json("group", "list", "clicks")] == ["sessions"]
    assert cells(cli("group", "list", "clicks").stdout)[1][:4] == ["clicks", "sessions", "1", "2"]
    assert cli("group", "list", "nothing").exit_code == 1


def test_show_has_owner_epoch_offset_and_lag_of_each_partition(
    cli: CommandLine, clicks: penstock.Log, epoch: int
) -> None:
    give_up(clicks, epoch)
    clicks.group("sessions").pause(1)

    owned, untouched = cli.json("group", "show", "clicks", "sessions", "--over", "0.01")[
        "partitions"
    ]

    assert owned.pop("seconds") >= 0
    assert owned.pop("owner").startswith("reader.")
    assert owned == {
        "partition": 0,
        "worker": "alive",
        "epoch": epoch,
        "offset": clicks.page(0, limit=1)[0].id,
        "messages": 2,
        "is_paused": False,
        "errors": 1,
        "crashes": 0,
    }
    assert untouched == {
        **dict.fromkeys(("owner", "epoch", "offset", "messages", "seconds")),
        **{"partition": 1, "worker": "", "is_paused": True, "errors": 0, "crashes": 0},
    }
    text = cli("group", "show", "clicks", "sessions", "--over", "0.01").stdout
    for part in ("alive", str(epoch), "paused", "crashes", "0.0 a second arrive"):
        assert part in text, part


def test_an_owner_whose_worker_has_left_is_gone(
    cli: CommandLine, ps: penstock.Penstock, clicks: penstock.Log
) -> None:
    worker = ps.worker(name="reader")
    worker.start()
    clicks.group("sessions").take(0, f"{worker.id}.0")
    worker.stop()

    found = cli.json("group", "show", "clicks", "sessions", "--over", "0.01")

    assert (found["workers"], found["partitions"][0]["worker"]) == (0, "gone")


def test_pause_and_resume_all_partitions_or_one(
    cli: CommandLine, clicks: penstock.Log, epoch: int
) -> None:
    about = "clicks", "sessions"
    assert cli.json("group", "pause", *about)["paused"] == [0, 1]
    said = cli("group", "resume", *about, "--partition", "1")
    assert said.stdout.splitlines() == [
        "resumed 'sessions' in partition 1",
        "still paused in 1 partition: 0",
    ]
    assert clicks.group("sessions").paused() == [0]
    assert cli("group", "resume", *about).stdout == "resumed 'sessions'\n"
    assert cli("group", "pause", *about, "--partition", "1").exit_code == 0
    assert clicks.group("sessions").paused() == [1]


@pytest.mark.parametrize("command", ["show", "pause", "resume", "errors", "replay"])
def test_a_group_that_is_not_there_is_an_error(
    cli: CommandLine, clicks: penstock.Log, epoch: int, command: str
) -> None:
    clicks.mark("archive", {0: "1-0"})

    absent = cli("group", command, "clicks", "sesions")
    other = cli("group", command, "clicks", "archive", "--json")

    assert absent.exit_code == other.exit_code == 1
    assert "no group 'sesions' reads log 'clicks'" in absent.stderr
    assert json.loads(other.stdout)["error"]["code"] == "wrong_kind"
    assert clicks.group("sesions").paused() == []


@pytest.mark.parametrize("command", ["pause", "resume", "errors", "replay"])
def test_a_partition_that_is_not_there_is_an_error(
    cli: CommandLine, clicks: penstock.Log, epoch: int, command: str
) -> None:
    result = cli("group", command, "clicks", "sessions", "--partition", "2")

    assert result.exit_code == 1
    assert "has partitions 0 to 1" in result.stderr


def test_errors_have_the_reason_and_can_be_replayed(
    cli: CommandLine, clicks: penstock.Log, epoch: int
) -> None:
    message = give_up(clicks, epoch)
    about = "clicks", "sessions"

    document = json.loads(cli("group", "errors", *about, "--json").stdout)
    assert document.pop("failed_at") > 0
    assert document == {
        "partition": 0,
        "id": message.id,
        "attempts": 3,
        "reason": "ValueError: no",
        "key": None,
        "headers": {},
        "body": "1",
    }
    assert "ValueError: no" in cli("group", "errors", *about).stdout
    assert cli("group", "errors", *about, "--partition", "1").stdout == (
        "'sessions' has given up no messages\n"
    )
    assert cli.json("group", "replay", *about, "--partition", "1")["replayed"] == 0

    replayed = cli("group", "replay", *about)

    assert replayed.stdout == "1 message for 'sessions' to handle once more\n"
    assert clicks.group("sessions").count_errors() == 0
    assert [m.body for m in clicks.page(0)] == [b"0", b"1", b"2", b"1"]


def test_no_more_errors_are_shown_than_asked_for(
    cli: CommandLine, clicks: penstock.Log, epoch: int
) -> None:
    for _ in range(3):
        give_up(clicks, epoch)

    shown = cli("group", "errors", "clicks", "sessions", "--limit", "2", "--json").stdout

    assert len(shown.splitlines()) == 2
