"""A request that is sent again has one effect, whichever half of it was lost.

Each script runs once undisturbed, and once with the network failing at that very script in each of
several ways, always in a queue of its own that has everything in it. On a clock that stands still,
answers and everything left in Redis must be the same.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.errors import ProtocolError
from penstock.model.claims import Claim
from penstock.store.command import Operation
from penstock.store.commands import log_groups, logs, queues, workers
from penstock.store.keys import NamespaceKeys
from penstock.store.script import SIMULATED
from tests.kinds import LANE, QUEUE, SAMPLES, each_kind, each_sample
from tests.proxy import Fault, FaultProxy, match_script
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.command import Command
    from tests.servers import RedisServer

    Outcome = tuple[object, dict[str, object]]

FAULTS = [
    (Fault.LOSE_REPLY, 1),
    (Fault.LOSE_REPLY, 2),
    (Fault.LOSE_REPLY, 3),
    (Fault.LOSE_REQUEST, 1),
    (Fault.LOSE_REQUEST, 3),
    (Fault.CUT_MID_REPLY, 1),
    (Fault.DUPLICATE, 1),
]
FAULT_NAMES = [f"{fault.name}-{times}" for fault, times in FAULTS]
# fmt: off
ONLY_READ = {
    "tasks": {
        "describe_key", "find_processes", "inspect_queue", "list_paused_workers", "list_queues",
        "list_work", "list_workers", "page_tasks", "read_failures", "read_queue",
    },
    "jobs": {
        "count_jobs", "explain_job", "find_cancelled", "find_handed", "list_running",
        "list_schedules", "page_jobs", "read_history", "read_job_lists", "read_jobs", "read_rules",
        "scan_jobs", "read_totals", "tally_jobs", "describe_history", "step_history",
    },
    "logs": {"count_lag", "describe_partition", "describe_range", "describe_log", "check_reading"},
}
SAME_WHEN_DONE_TWICE = {
    "tasks": {
        "drop_stages", "fail_worker", "forget_failures", "forget_worker", "keep_worker_alive",
        "mend_unique_key", "move_tasks", "pass_work", "pause_worker", "register_queue",
        "resume_queue", "stage_chunk", "start_work", "unregister_queue",
    },
    "jobs": {
        "mend_count", "mend_job", "mend_line", "mend_page", "mend_trace", "pass_jobs",
    },
    "logs": {
        "commit_offset", "delete_partition", "mark_partition", "note_group", "open_partition",
        "keep_member", "own_partition", "disown_partitions", "pause_reading", "prepare_stages",
        "decide_append", "drop_prepared", "move_messages", "note_death", "try_message",
    },
}
ANSWERED_ONCE = {
    "tasks": {"drop_stages", "forget_failures", "keep_worker_alive", "move_tasks"},
    "jobs": {"mend_count"},
    "logs": {"delete_partition", "drop_prepared", "note_death"},
}
"""Of those, what answers how much it has changed; there is no more to change the second time."""
# fmt: on
NOW_MS = 1_800_000_000_000


class World:
    """A queue with everything in it, on a clock that stands still."""

    def __init__(self, server: RedisServer, url: str, namespace: str, kind: str) -> None:
        self._kind = kind
        self.keys = NamespaceKeys(namespace)
        self.queue = self.keys.queue(QUEUE)
        self.store = Store(parse_url(url), retry_for_s=20.0, dialect=SIMULATED)
        self._client: Any = server.client
        self._stored = Stored(server, namespace)
        self._client.set(self.keys.simulated_clock, NOW_MS)
        self._processes = SAMPLES[kind].fill(self.store, self.keys)

    def run(self, name: str, number: int = 100) -> object:
        """What the answer promises: a claim that is repeated does not know when to look again, a
        repair not whether it has changed something, and places are the server's own.
        """
        answer = self.store.run(self.command(name, number))
        if isinstance(answer, Claim):
            return answer.word, answer.first_process, answer.found, answer.refused
        if name == "read_history":
            return [replace(attempt, place="") for attempt in answer]
        if name in ("describe_history", "step_history"):
            return len(answer)
        return None if name in ANSWERED_ONCE[self._kind] else answer

    def command(self, name: str, number: int = 100) -> Command[Any]:
        return SAMPLES[self._kind].commands(self.keys, self._processes, number)[name]

    def run_next(self, name: str) -> None:
        """The next request of the same lane, where that of the sample is remembered."""
        operation = Operation(LANE, 101)
        part = self.queue.partition(0)
        if self.command(name).keys[0] == self.keys.memory(LANE):
            self.store.run(workers.stop_work(self.keys, operation, "w1", "none", "tasks"))
        elif self.command(name).keys[0] == part.memory(LANE):
            self.store.run(log_groups.forget_group(part, operation, "others"))
        elif self._kind == "logs":
            self.store.run(logs.delete_log(self.queue, operation))
        else:
            self.store.run(queues.configure_queue(self.queue, operation, {"keep_count": 5}))

    def look(self) -> dict[str, object]:
        """Everything that is stored, without what the server itself numbers by its own clock."""
        found: dict[str, Any] = {
            key.replace(self.keys.namespace, "namespace"): value
            for key, value in self._stored.everything().items()
        }
        history = f"{{namespace:{QUEUE}}}:history"
        if history in found:
            found[history] = [fields for _, fields in found[history]]
        return found

    def close(self) -> None:
        self.store.close()
        self._client.delete(self.keys.simulated_clock)


@pytest.fixture
def proxy(server: RedisServer, namespace: str) -> Iterator[FaultProxy]:
    with FaultProxy(server.folder, server.socket, record=1000, name=f"{namespace}.sock") as proxy:
        yield proxy


@pytest.fixture
def disturbed(server: RedisServer, proxy: FaultProxy, namespace: str, kind: str) -> Iterator[World]:
    with closing(World(server, f"unix://{proxy.path}", namespace, kind)) as world:
        yield world


@pytest.fixture
def world(server: RedisServer, namespace: str, kind: str) -> Iterator[World]:
    """One in which nothing goes wrong."""
    with closing(World(server, server.url, namespace, kind)) as world:
        yield world


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], Outcome]:
    return {}


@pytest.fixture
def undisturbed(
    server: RedisServer, outcomes: dict[tuple[str, str], Outcome], kind: str, name: str
) -> Outcome:
    """What the command answers and leaves when nothing goes wrong; the same beside every fault."""
    if (kind, name) not in outcomes:
        with closing(World(server, server.url, f"test-{uuid.uuid4().hex[:12]}", kind)) as world:
            outcomes[kind, name] = world.run(name), world.look()
    return outcomes[kind, name]


@pytest.mark.parametrize(("fault", "times"), FAULTS, ids=FAULT_NAMES)
@each_sample(lambda kind, samples: samples.scripts)
def test_a_script_has_one_effect_however_the_network_fails(
    kind: str,
    name: str,
    fault: Fault,
    times: int,
    proxy: FaultProxy,
    disturbed: World,
    undisturbed: Outcome,
) -> None:
    script = SAMPLES[kind].scripts[name]
    rule = proxy.plan(fault, times, match_script(script.text(SIMULATED)))

    answer = disturbed.run(name)

    assert rule.hits == times
    assert (answer, disturbed.look()) == undisturbed


@each_sample(lambda kind, samples: samples.more)
def test_whatever_else_a_script_does_it_does_once(
    kind: str, name: str, proxy: FaultProxy, disturbed: World, undisturbed: Outcome
) -> None:
    script = disturbed.command(name).script
    rule = proxy.plan(Fault.LOSE_REPLY, 2, match_script(script.text(SIMULATED)))

    answer = disturbed.run(name)

    assert rule.hits == 2
    assert (answer, disturbed.look()) == undisturbed


@each_sample(lambda kind, samples: [*samples.scripts, *samples.more])
def test_a_copy_that_arrives_late_changes_nothing(kind: str, name: str, world: World) -> None:
    world.run(name)
    before = world.look()

    world.run(name)

    assert world.look() == before


@each_sample(lambda kind, samples: samples.numbered)
def test_a_copy_that_arrives_after_the_next_request_of_its_lane_changes_nothing(
    kind: str, name: str, world: World
) -> None:
    world.run(name)
    world.run_next(name)
    before = world.look()

    with pytest.raises(ProtocolError, match="superseded"):
        world.run(name)

    assert world.look() == before


@each_kind
def test_every_script_that_writes_has_a_number_or_says_the_same_twice(kind: str) -> None:
    samples = SAMPLES[kind]

    unnumbered = samples.scripts.keys() - samples.numbered

    assert unnumbered == ONLY_READ[kind] | SAME_WHEN_DONE_TWICE[kind]


@each_sample(lambda kind, samples: sorted(ONLY_READ[kind]))
def test_a_script_that_only_reads_changes_nothing(kind: str, name: str, world: World) -> None:
    before = world.look()

    world.run(name)

    assert world.look() == before
