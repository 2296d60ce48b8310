"""`penstock worker list|show|fail|pause|resume`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import cells

if TYPE_CHECKING:
    from pathlib import Path

    import penstock
    from tests.cli.conftest import CommandLine


def test_no_workers_are_an_empty_list_and_a_hint(cli: CommandLine) -> None:
    assert cli.json("worker", "list") == []
    assert cli("worker", "list").stdout == "no workers; `penstock worker run` starts one\n"


def test_workers_are_listed_with_their_lease_and_queues(
    cli: CommandLine, ps: penstock.Penstock
) -> None:
    with ps.worker("w", lease_ms=60_000) as worker:
        worker.start_work("mail")
        worker.start_work("images")

        row = cli("worker", "list").stdout.splitlines()[2]
        (document,) = cli.json("worker", "list")

        assert row.split()[:2] == [worker.id, "alive"]
        assert str(os.getpid()) in row.split()
        assert row.rstrip().endswith("images, mail")
        assert document["id"] == worker.id
        assert document["is_alive"] is True
        assert 0 < document["lease_left_ms"] <= 60_000
        assert document["about"]["pid"] == os.getpid()
        assert document["queues"] == ["images", "mail"]


def test_one_worker_is_shown_with_what_it_holds(
    cli: CommandLine, ps: penstock.Penstock, queue: penstock.Queue
) -> None:
    queue.enqueue(b"a")
    with ps.worker("w", about={"note": "\x1b[31m[red]"}) as worker:
        worker.start_work("mail")
        worker.start_task("mail")

        shown = cli("worker", "show", worker.id).stdout
        document = cli.json("worker", "show", worker.id)

        lines = [line.split() for line in shown.splitlines()]
        assert lines[0] == [worker.id]
        assert ["state", "alive"] in lines
        assert ["note", "\\x1b[31m[red]"] in lines
        assert lines[-1] == ["mail", "1"]
        assert document["held"] == {"mail": 1}


def test_a_failed_worker_gives_its_tasks_back(
    cli: CommandLine, ps: penstock.Penstock, queue: penstock.Queue
) -> None:
    queue.enqueue_many([b"a", b"b"])
    with ps.worker("w") as worker:
        worker.start_work("mail")
        worker.start_task("mail")

        result = cli("worker", "fail", worker.id)

        assert result.exit_code == 0
        assert result.stdout == f"failed '{worker.id}'; 1 task went back\n"
        assert queue.page().tasks == [b"a", b"b"]
        assert cli.json("worker", "list") == []


def test_programs_learn_what_a_failed_worker_gave_back(
    cli: CommandLine, ps: penstock.Penstock
) -> None:
    with ps.worker("w") as worker:
        answer = cli.json("worker", "fail", worker.id)

        assert answer == {"worker": worker.id, "returned": 0, "dead": 0}


def test_a_paused_worker_is_marked(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("bob", lease_ms=60_000) as bob, ps.worker("ann", lease_ms=60_000) as ann:
        paused = cli("worker", "pause", "bob")

        rows = {row[0]: row[1:3] for row in cells(cli("worker", "list").stdout)}
        documents = {found["id"]: found for found in cli.json("worker", "list")}

        assert paused.stdout == (
            "paused 'bob': 1 worker of this name starts nothing more, what runs goes on\n"
        )
        assert (rows[bob.id], rows[ann.id][0]) == (["alive,", "paused"], "alive")
        assert documents[bob.id]["is_paused"] is documents[bob.id]["is_alive"] is True
        assert (documents[bob.id]["state"], documents[bob.id]["name"]) == ("alive", "bob")
        assert documents[ann.id]["is_paused"] is False
        assert ["state", "alive,", "paused"] in cells(cli("worker", "show", bob.id).stdout)
        assert cli.json("worker", "show", bob.id)["is_paused"] is True


def test_a_worker_with_stuck_slots_is_marked(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("w", about={"concurrency": 4, "stuck_slots": 3}) as worker:
        row = cells(cli("worker", "list").stdout)[1]
        shown = cells(cli("worker", "show", worker.id).stdout)

        assert " ".join(row).startswith(f"{worker.id} alive, 3 of 4 slots stuck ")
        assert "state alive, 3 of 4 slots stuck" in [" ".join(line) for line in shown]
        assert cli.json("worker", "show", worker.id)["stuck_slots"] == 3


def test_a_name_that_no_worker_has_can_be_paused_and_is_not_forgotten(cli: CommandLine) -> None:
    paused = cli("worker", "pause", "bbo")

    shown = cli("worker", "list").stdout
    [document] = cli.json("worker", "list")

    assert paused.stdout == (
        "paused 'bbo': no worker has this name now; one that starts under it will be paused\n"
    )
    assert shown.splitlines() == [
        "no workers; `penstock worker run` starts one",
        "paused, though no worker has the name now: bbo",
    ]
    assert (document["id"], document["name"], document["state"]) == (None, "bbo", "absent")
    assert (document["is_alive"], document["is_paused"]) == (False, True)


def test_resuming_says_what_was_done(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("bob") as worker:
        cli("worker", "pause", worker.id)
        cli("worker", "pause", "ann")

        resumed = cli("worker", "resume", worker.id)
        again = cli("worker", "resume", "bob")
        last = cli("worker", "resume", "ann")

        assert resumed.stdout == "resumed 'bob'\nalso paused: ann\n"
        assert again.stdout == "'bob' was not paused; nothing to resume\nalso paused: ann\n"
        assert last.stdout == "resumed 'ann'\n"
        assert cli.json("worker", "resume", "ann") == {"paused": []}
        assert [found["is_paused"] for found in cli.json("worker", "list")] == [False]


@pytest.mark.parametrize("command", ["show", "fail"])
def test_a_worker_that_is_not_registered_is_an_error(
    cli: CommandLine, namespace: str, command: str
) -> None:
    result = cli("worker", command, "nix")
    document = cli("worker", command, "nix", "--json")

    assert result.exit_code == document.exit_code == 1
    assert result.stderr == (
        f"penstock: no worker 'nix' is registered in namespace '{namespace}'; "
        "`penstock worker list` shows those that are\n"
    )
    assert json.loads(document.stdout)["error"]["code"] == "worker_not_found"


def test_a_module_that_cannot_be_imported_is_one_line(cli: CommandLine) -> None:
    result = cli("worker", "run", "no_such_module_at_all", "-q", "mail")

    assert result.exit_code == 1
    assert result.stderr.startswith(
        "penstock: there is no module 'no_such_module_at_all' to import;"
    )
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("app.py", "run `penstock worker run app`\n"),
        ("shop/app.py", "run `penstock worker run shop.app`\n"),
        ("./shop/app.py", "run `penstock worker run shop.app`\n"),
        ("{folder}/shop/app", "run `penstock worker run shop.app`\n"),
        ("../elsewhere/app.py", "run `penstock worker run app` in '{folder.parent}/elsewhere'\n"),
    ],
)
def test_a_file_in_place_of_a_module_is_told_the_name_of_the_module(
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    advice: str,
) -> None:
    (tmp_path / "app.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    given = given.format(folder=tmp_path)

    result = cli("worker", "run", given)

    assert result.exit_code == 1
    assert result.stderr == (
        f"penstock: '{given}' is a file, and a worker imports a module by its dotted name; "
        + advice.format(folder=tmp_path)
    )
    sys.modules.pop("app", None)


def test_a_heartbeat_slower_than_the_lease_is_a_mistake(cli: CommandLine) -> None:
    result = cli("worker", "run", "app", "--lease-ms", "100", "--heartbeat-ms", "100")

    assert result.exit_code == 2
    assert "--heartbeat-ms must be less than --lease-ms" in result.stderr
