"""`penstock job log|tail` and `--wait`: what is told while jobs run."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.store.keys import NamespaceKeys
from penstock.worker.handlers import collect_handlers
from tests.running_worker import RunningWorker, stopped_in_the_end
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    from penstock.store.keys import QueueKeys
    from tests.cli.conftest import CommandLine
    from tests.contract.job_workers import Hand
    from tests.servers import RedisServer


class Background:
    """A command in a thread of its own."""

    def __init__(self, cli: CommandLine, *arguments: str) -> None:
        self._result: list[Result] = []
        self._thread = threading.Thread(target=lambda: self._result.append(cli(*arguments)))
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Result:
        self._thread.join(20)
        assert not self.is_running, "the command did not end"
        return self._result[0]


@pytest.fixture
def listens(server: RedisServer, keys: QueueKeys) -> Callable[[], bool]:
    """Whether somebody listens to the events of the queue."""
    return lambda: server.command("PUBSUB", "NUMSUB", keys.events)[1] == 1


@penstock.job(queue="mail", type="double")
def double(number: int) -> int:
    return 2 * number


@penstock.job(queue="mail", type="hello")
def hello() -> bytes:
    return b"\xff hello"


@penstock.job(queue="mail", type="refuse")
def refuse() -> None:
    raise ValueError("not \x1b[31mtoday")


@pytest.fixture
def running_worker(ps: penstock.Penstock) -> Iterator[None]:
    with stopped_in_the_end() as started:
        handlers = collect_handlers([double, hello, refuse])
        started.append(RunningWorker(ps.settings, handlers).start())
        yield


@pytest.mark.usefixtures("running_worker")
def test_a_result_is_waited_for_and_printed(cli: CommandLine) -> None:
    result = cli("job", "send", "mail", "double", '{"number": 21}', "--wait", "20")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == "done: 42"


@pytest.mark.usefixtures("running_worker")
def test_programs_get_the_result_that_they_wait_for(cli: CommandLine) -> None:
    doubled = cli.json("job", "send", "mail", "double", "[[21]]", "--wait", "20")
    greeted = cli.json("job", "send", "mail", "hello", "--wait", "20")

    assert doubled["result"] == 42
    assert greeted["result"] == {"base64": "/yBoZWxsbw=="}


@pytest.mark.usefixtures("running_worker")
def test_a_job_that_fails_while_it_is_waited_for_is_an_error(cli: CommandLine) -> None:
    result = cli("job", "send", "mail", "refuse", "--wait", "20")
    document = cli("job", "send", "mail", "refuse", "--wait", "20", "--json")

    assert result.exit_code == document.exit_code == 1
    assert "is dead (failed): builtins.ValueError: not \\x1b[31mtoday" in result.stderr
    assert json.loads(document.stdout)["error"]["code"] == "job_failed"


def test_the_log_of_a_job_is_shown_with_times(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    assert cli("job", "log", job.id).stdout == f"job {job.id} has written nothing to its log\n"
    hand.note(hand.take_one(), None, b"first", b"second\nline")

    lines = cli("job", "log", job.id).stdout.splitlines()

    assert [line.split(maxsplit=2)[2] for line in lines] == ["first", "second\\nline"]
    assert [line["line"] for line in cli.json("job", "log", job.id)] == ["first", "second\nline"]


def test_a_log_is_followed_until_the_job_has_ended(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    taken = hand.take_one()
    hand.note(taken, None, b"first")
    followed = Background(cli, "job", "log", job.id, "--follow", "--json")

    hand.note(taken, None, b"again", b"again")
    hand.note(taken, None, b"again")
    assert followed.is_running
    hand.fail(taken)

    lines = [json.loads(line)["line"] for line in followed.result().stdout.splitlines()]
    assert lines == ["first", "again", "again", "again"]
    assert followed.result().exit_code == 0


def test_a_followed_log_loses_no_line_that_is_still_kept(
    cli: CommandLine, server: RedisServer, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    taken = hand.take_one()
    hand.note(taken, None, *(b"%d" % number for number in range(990)))
    followed = Background(cli, "job", "log", job.id, "--follow", "--json")
    channel = hand.keys.ending_channel(job._number)
    wait_for(lambda: server.command("PUBSUB", "NUMSUB", channel)[1] == 1)

    hand.note(taken, None, *(b"%d" % number for number in range(990, 1050)))
    hand.finish(taken)

    lines = [json.loads(line)["line"] for line in followed.result().stdout.splitlines()]
    assert lines == [str(number) for number in range(1050)]


def test_what_happens_to_a_job_is_told_line_by_line(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand, listens: Callable[[], bool]
) -> None:
    tail = Background(cli, "job", "tail", "-q", "mail", "--limit", "7")
    wait_for(listens)

    job = mail.add("email", attempts=2)
    first = hand.take_one()
    hand.note(first, 50, data="half")
    hand.fail(first, "\x1bno")
    second = hand.take_one()
    hand.reject(second, "rejected")
    job.remove()

    lines = [line.split(maxsplit=1)[1] for line in tail.result().stdout.splitlines()]
    assert lines == [
        f"enqueued  {job.id} email",
        f"started   {job.id} email (attempt 1, hand)",
        f'progress  {job.id} email 50 % "half"',
        f"retried   {job.id} email: ValueError: \\x1bno",
        f"started   {job.id} email (attempt 2, hand)",
        f"dead      {job.id} email (rejected)",
        f"removed   {job.id} email",
    ]


def test_programs_get_events_as_documents(
    cli: CommandLine, mail: penstock.Jobs, hand: Hand, listens: Callable[[], bool]
) -> None:
    kinds = ("--kind", "progress", "--kind", "retried", "--kind", "dead")
    tail = Background(cli, "job", "tail", "-q", "mail", *kinds, "--limit", "3", "--json")
    wait_for(listens)

    job = mail.add("email", attempts=2)
    first = hand.take_one()
    hand.note(first, 50, data=[1])
    hand.fail(first, "no")
    hand.fail(hand.take_one(), "no")

    def told(kind: str, attempt: int, worker: str, **detail: Any) -> dict[str, Any]:
        about = {"queue": "mail", "id": job.id, "type": "email"}
        return {"kind": kind, **about, "attempt": attempt, "worker": worker, **detail}

    events = [json.loads(line) for line in tail.result().stdout.splitlines()]
    assert all(event.pop("at") > 1.7e9 for event in events)
    assert events == [
        told("progress", 0, "hand", percent=50.0, data=[1]),
        told("retried", 1, "", error={"type": "ValueError", "message": "no"}),
        told("dead", 2, "hand", reason="failed"),
    ]


def test_all_queues_of_jobs_are_heard_at_once(
    cli: CommandLine,
    server: RedisServer,
    ps: penstock.Penstock,
    namespace: str,
) -> None:
    for name in ("a", "b"):
        ps.jobs(name).add("email")
    ps.queue("plain").enqueue(b"task")
    channels = [NamespaceKeys(namespace).queue(name).events for name in ("a", "b")]
    tail = Background(cli, "job", "tail", "--limit", "2")
    wait_for(lambda: server.command("PUBSUB", "NUMSUB", *channels)[1::2] == [1, 1])

    sent = [ps.jobs(name).add("email") for name in ("a", "b")]

    lines = [line.split(maxsplit=1)[1] for line in tail.result().stdout.splitlines()]
    assert sorted(lines) == [f"enqueued  {job.queue} {job.id} email" for job in sent]


def test_silence_ends_the_tail(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")

    result = cli("job", "tail", "--timeout", "0.05")

    assert (result.exit_code, result.stdout) == (0, "")


def test_without_a_queue_of_jobs_there_is_nothing_to_hear(cli: CommandLine, namespace: str) -> None:
    result = cli("job", "tail")

    assert result.exit_code == 1
    assert f"there is no queue of jobs in namespace '{namespace}'" in result.stderr
