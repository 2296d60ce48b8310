"""Limits that are in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hostile.shell import Shell


def test_a_worker_whose_payload_limit_was_raised_returns_a_large_result(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def draw() -> str:
            return "." * (2 << 20)
        """,
    )
    job = shell.json("job", "send", "mail", "draw")["id"]

    worked = shell.run("worker", "run", "app", "--until-empty", "--max-payload", "4M")

    assert worked.returncode == 0, worked.stderr.decode()
    assert shell.json("job", "show", job, "-q", "mail")["state"] == "done"
