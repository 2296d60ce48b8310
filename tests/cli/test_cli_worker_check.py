"""`penstock worker check`: the exit status is for supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine


def test_a_living_worker_is_well_by_id_and_by_name(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("nightly") as worker:
        by_id = cli("worker", "check", worker.id)
        by_name = cli.json("worker", "check", "--name", "nightly")

    assert (by_id.exit_code, by_id.stdout) == (0, f"'{worker.id}' is well\n")
    assert by_name == {"is_well": True, "workers": {worker.id: ""}}


def test_a_worker_that_has_left_is_not_well(cli: CommandLine, ps: penstock.Penstock) -> None:
    with ps.worker("nightly") as worker:
        pass

    result = cli("worker", "check", worker.id)
    by_name = cli("worker", "check", "--name", "nightly")

    assert result.exit_code == by_name.exit_code == 1
    assert "start it again" in result.stderr
    assert "no worker of name 'nightly'" in by_name.stderr


def test_a_worker_that_is_not_heard_of_is_not_well(cli: CommandLine, ps: penstock.Penstock) -> None:
    worker = ps.worker("nightly", lease_ms=50, heartbeat_ms=20)
    worker.start()
    worker.heartbeat.stop()
    wait_for(lambda: [info.is_alive for info in ps.workers()] == [False])

    result = cli("worker", "check", worker.id)

    assert result.exit_code == 1
    assert "has not been heard of since its lease ended" in result.stdout


def test_a_worker_is_not_well_if_all_its_slots_are_stuck(
    cli: CommandLine, ps: penstock.Penstock
) -> None:
    with ps.worker("w", about={"concurrency": 2, "stuck_slots": 2}) as worker:
        assert cli("worker", "check", worker.id).exit_code == 1
        assert "all its 2 slots" in cli("worker", "check", worker.id).stdout
        with ps.worker("w", about={"concurrency": 2, "stuck_slots": 1}):
            assert cli("worker", "check", "--name", "w").exit_code == 0


def test_an_id_or_a_name_has_to_be_given(cli: CommandLine) -> None:
    assert cli("worker", "check").exit_code == 2
    assert cli("worker", "check", "a", "--name", "b").exit_code == 2
