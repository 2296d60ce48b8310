"""What the scripts store and say, byte for byte: it changes only together with the layout."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock.codec.attempts import pack_error
from penstock.codec.heads import pack_head
from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.model.job_options import JobOptions
from penstock.model.jobs import JobError
from penstock.store.command import Operation
from penstock.store.commands import jobs, processes, queues, tasks
from penstock.store.keys import NamespaceKeys
from penstock.store.script import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisServer

NOW_MS = 1_800_000_000_000
JOB = 1_234_567_890_123_456_789
ERROR = pack_error(JobError("ValueError", "no", ""))
PLAIN = pack_head(JobOptions(type="email"))
FULL = pack_head(
    JobOptions(
        type="email",
        priority=-10,
        attempts=3,
        timeout_ms=1_500,
        expires_ms=60_000,
        tenant="acme",
        key="smtp",
        unique=b"=once",
        unique_mode="done",
        backoff="5",
        tags=("red", "blue"),
    ),
    ("alice", "bob"),
)


class World:
    """One queue of jobs and one of tasks, on a clock that stands still, and all that is said."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        keys = NamespaceKeys(namespace)
        self.queue, self.tasks = keys.queue("jobs"), keys.queue("tasks")
        self.client: Any = server.client
        self.client.set(keys.simulated_clock, NOW_MS)
        self.store = Store(parse_url(server.url), dialect=SIMULATED)
        self._number = 0

    def run(self, command: Any, *arguments: Any, **named: Any) -> Any:
        self._number += 1
        operation = Operation("lane", self._number)
        is_of_tasks = command.__module__ in (tasks.__name__, processes.__name__, queues.__name__)
        queue = self.tasks if is_of_tasks else self.queue
        return self.store.run(command(queue, operation, *arguments, **named))

    def send(self, head: bytes) -> None:
        self.run(jobs.send_jobs, [jobs.Group(head, 0, 0, 0, [(JOB, b"data")])], "i1")

    def report(self, process: int, outcome: str, payload: bytes) -> None:
        self.run(jobs.report_jobs, "w1", [(process, outcome, 20, 10, 1000, "", payload)])

    def key(self, part: str) -> bytes:
        """The only key of the queue of jobs that has this word after its tag."""
        (found,) = self.client.keys(f"{self.queue.meta.removesuffix('meta')}{part}*")
        return bytes(found)

    def hear(self, channel: str) -> Iterator[bytes]:
        """What is said on a channel from now on."""
        listener = self.client.pubsub()
        listener.subscribe(channel)
        assert listener.get_message(timeout=10)["type"] == "subscribe"
        return (message["data"] for message in listener.listen())


@pytest.fixture
def world(server: RedisServer, namespace: str) -> Iterator[World]:
    made = World(server, namespace)
    with closing(made.store):
        yield made


# fmt: off
HEAD = (
    "0000ffc8" "05656d61696c"  # flags, type
    "fffffff6" "0003" "000005dc" "00000000ea60"  # priority, attempts, timeout, expiry
    "0461636d65" "04736d7470" "053d6f6e6365" "0135"  # tenant, limit key, unique key, backoff
    "000872656400626c7565" "0009616c69636500626f62"  # tags, words
)
# fmt: on
NOW, NEVER = "01a3185c5000", "000000000000"
FIRST, PROCESS = "000000000001", "06651728988001"
"""the number of a job, and of its process"""
ID, WORKER, DATA = "13" + str(JOB).encode().hex(), "027731", b"data".hex()
LAYOUT = "03"


def test_a_record(world: World) -> None:
    world.send(FULL)

    assert FULL.hex() == HEAD
    assert world.client.hget(world.key("jobs"), JOB).hex() == (
        LAYOUT + NOW + FIRST + "0041" + HEAD + DATA
    )


def test_facts(world: World) -> None:
    world.run(jobs.join_jobs, "w1", None, "i1")
    world.send(FULL)
    claim = world.run(jobs.start_jobs, "w1", 1)
    running = world.client.hget(world.key("facts"), JOB).hex()
    world.report(claim.found[0].process, "final", ERROR)

    assert running == (
        f"{LAYOUT}7500{FIRST}{NOW}{FIRST}00000000{NOW}{NOW}{NOW}{NEVER}{PROCESS}00000004"
        f"{WORKER}000041{HEAD}"
    )
    assert world.client.hget(world.key("facts"), JOB).hex() == (
        f"{LAYOUT}7802{FIRST}{NOW}{FIRST}00010000{NOW}{NOW}{NOW}{NOW}{PROCESS}00000004"
        f"{WORKER}066661696c65640041{HEAD}{ERROR.hex()}"
    )


def test_an_attempt_and_its_entry_in_the_history(world: World) -> None:
    world.run(jobs.join_jobs, "w1", None, "i1")
    world.send(FULL)
    claim = world.run(jobs.start_jobs, "w1", 1)
    world.report(claim.found[0].process, "failed", ERROR)
    history = world.client.xrange(world.key("history"))

    assert world.client.lrange(world.key("attempts"), 0, -1)[0].hex() == (
        f"0001{NOW}{NOW}066661696c6564{WORKER}{ERROR.hex()}"
    )
    assert history[0][1][b"attempt"].hex() == (
        f"{LAYOUT}0001{NEVER}00000004{NOW}{ID}05656d61696c0461636d65{WORKER}066661696c6564"
        f"023230023130fffffff6{NOW}730a{b'ValueError'.hex()}"
    )


def test_a_message_that_hands_a_job_over(world: World) -> None:
    world.run(jobs.join_jobs, "w1", None, "i1")
    world.run(jobs.start_jobs, "w1", 1, wait=True, offer=1)
    heard = world.hear(world.queue.hand + "w1")
    world.send(PLAIN)

    assert next(heard).hex() == f"{PROCESS}{ID}{LAYOUT}{NOW}{FIRST}000a0000000005656d61696c{DATA}"


def test_a_notice_and_an_event(world: World) -> None:
    world.run(jobs.join_jobs, "w1", None, "i1")
    events, notices = world.hear(world.queue.events), world.hear(world.queue.ending_channel(JOB))
    world.send(FULL)
    claim = world.run(jobs.start_jobs, "w1", 1)
    world.report(claim.found[0].process, "done", b"7")

    assert [next(events).hex() for _ in range(3)] == [
        f"08656e717565756564{ID}{NOW}000005656d61696c00",
        f"0773746172746564{ID}{NOW}000005656d61696c{WORKER}",
        f"04646f6e65{ID}{NOW}000005656d61696c{WORKER}",
    ]
    assert next(notices).hex() == f"{ID}64790037"


def test_a_task_and_that_it_is_done(world: World) -> None:
    world.run(queues.join_queue, "w1", "i2")
    heard = world.hear(world.tasks.done)
    world.run(tasks.enqueue_unique_task, b"task", b"=once", b"8 bytes.")
    claim = world.run(processes.start_tasks, "w1", 1)
    stored = world.client.hvals(world.tasks.running("w1"))
    world.run(processes.finish_tasks, "w1", [claim.first_process], [b"result"])

    assert stored[0].hex() == "00ff70656e73746f636bff00053d6f6e6365382062797465732e7461736b"
    assert next(heard).hex() == f"0002773100000004{b'task'.hex()}{b'result'.hex()}"
