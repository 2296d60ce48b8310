"""What penstock says about jobs when something is wrong with their workers."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell

APP = """
    import pathlib
    import time

    import penstock


    @penstock.job(queue="mail")
    def wait():
        pathlib.Path("begun").touch()
        time.sleep(60)


    @penstock.job(queue="mail")
    def nap():
        time.sleep(0.005)


    @penstock.job(queue="mail")
    def child():
        return "grown"


    @penstock.job(queue="mail")
    def parent():
        return child.send().result(1)
"""


def explain(shell: Shell, job: str) -> tuple[list[str], str]:
    """The codes of the reasons, and their texts."""
    reasons = shell.json("job", "explain", job, "-q", "mail")["reasons"]
    return [reason["code"] for reason in reasons], "; ".join(reason["text"] for reason in reasons)


def test_explain_and_queue_list_do_not_count_a_killed_worker(shell: Shell) -> None:
    shell.write("app", APP)
    lease = ("--lease-ms", "1000", "--heartbeat-ms", "300")
    worker = shell.start("worker", "run", "app", "-q", "mail", *lease)
    lost = shell.json("job", "send", "mail", "wait")["id"]
    wait_for((shell.folder / "begun").exists)
    os.killpg(worker.pid, signal.SIGKILL)
    ready = shell.json("job", "send", "mail", "wait")["id"]

    wait_for(lambda: "no_living_worker" in explain(shell, ready)[0])

    assert "`penstock worker run MODULE -q mail` starts one" in explain(shell, ready)[1]
    codes, text = explain(shell, lost)
    assert codes == ["worker_lapsed"]
    assert "the next living worker gives the job back" in text
    [queue] = shell.json("queue", "list")
    assert (queue["workers"], len(queue["lapsed_workers"])) == (0, 1)


def test_a_job_that_waits_for_its_child_at_one_slot_says_why_that_cannot_end(
    shell: Shell,
) -> None:
    shell.write("app", APP)
    shell.start("worker", "run", "app", "-q", "mail", "-c", "1")
    job = shell.json("job", "send", "mail", "parent")["id"]

    wait_for(lambda: shell.json("job", "show", job, "-q", "mail")["state"] == "dead")

    message = shell.json("job", "show", job, "-q", "mail")["error"]["message"]
    assert f"job {job} waits for it and keeps a slot meanwhile" in message
    assert f"taken by job {job}; if one of them waits for the result of this one" in message


def test_what_a_worker_holds_and_has_not_begun_is_not_said_to_run(shell: Shell) -> None:
    def held() -> bool:
        shown.update(shell.json("queue", "show", "mail"))
        return bool(shown["running"] + shown.get("prefetched", 0) > 2)

    shell.write("app", APP)
    shell.python("-c", "import app; app.nap.send_many([()] * 20_000)")
    shown: dict[str, Any] = {}

    shell.start("worker", "run", "app", "-q", "mail", "-c", "2")
    wait_for(held)

    assert shown["running"] == 2
