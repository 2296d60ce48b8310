"""A request about jobs that is sent again has one effect, whichever half of it was lost.

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
from penstock.model.jobs import JobClaim
from penstock.store.command import Operation
from penstock.store.commands import queues
from penstock.store.keys import NamespaceKeys
from penstock.store.script import SIMULATED
from tests.job_samples import (
    HELD,
    LANE,
    QUEUE,
    SCRIPTS,
    more_job_commands,
    sample_job_commands,
    sample_job_world,
)
from tests.proxy import Fault, FaultProxy, match_script
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
MORE = list(more_job_commands(NamespaceKeys("ns"), dict.fromkeys(HELD, 0)))
SAMPLES = [*SCRIPTS, *MORE]
NUMBERED = [name for name, script in SCRIPTS.items() if script.keys[0].name == "memory"]
# fmt: off
ONLY_READ = {
    "count_jobs", "explain_job", "find_cancelled", "find_handed", "list_running",
    "list_schedules", "page_jobs", "read_history", "read_job_lists", "read_jobs", "read_rules",
    "scan_jobs", "read_totals", "tally_jobs", "describe_history", "step_history",
}
SAME_WHEN_DONE_TWICE = {
    "mend_count", "mend_job", "mend_line", "mend_page", "mend_trace", "pass_jobs",
}
# fmt: on
NOW_MS = 1_800_000_000_000


class World:
    """A queue with everything in it, on a clock that stands still."""

    def __init__(self, server: RedisServer, url: str, namespace: str) -> None:
        self.keys = NamespaceKeys(namespace)
        self.queue = self.keys.queue(QUEUE)
        self.store = Store(parse_url(url), retry_for_s=20.0, dialect=SIMULATED)
        self._client: Any = server.client
        self._stored = Stored(server, namespace)
        self._client.set(self.keys.simulated_clock, NOW_MS)
        self._processes = sample_job_world(self.store, self.keys)

    def run(self, name: str, number: int = 100) -> object:
        """What the answer promises: a claim that is repeated does not know when to look again, a
        repair not whether it has changed something, and places are the server's own.
        """
        answer = self.store.run(self.command(name, number))
        if isinstance(answer, JobClaim):
            return answer.word, answer.jobs, answer.refused
        if name == "read_history":
            return [replace(attempt, place="") for attempt in answer]
        if name in ("describe_history", "step_history"):
            return len(answer)
        return None if name in SAME_WHEN_DONE_TWICE else answer

    def command(self, name: str, number: int = 100) -> Command[Any]:
        samples = sample_job_commands(self.keys, self._processes, number)
        return (samples | more_job_commands(self.keys, self._processes, number))[name]

    def look(self) -> dict[str, object]:
        """Everything that is stored, without what the server itself numbers by its own clock."""
        found: dict[str, Any] = {
            key.replace(self.keys.namespace, "namespace"): value
            for key, value in self._stored.everything().items()
        }
        history = self.queue_key("history")
        found[history] = [fields for _, fields in found[history]]
        return found

    def queue_key(self, kind: str) -> str:
        return f"{{namespace:{QUEUE}}}:{kind}"

    def close(self) -> None:
        self.store.close()
        self._client.delete(self.keys.simulated_clock)


@pytest.fixture
def proxy(server: RedisServer, namespace: str) -> Iterator[FaultProxy]:
    with FaultProxy(server.folder, server.socket, record=1000, name=f"{namespace}.sock") as proxy:
        yield proxy


@pytest.fixture
def disturbed(server: RedisServer, proxy: FaultProxy, namespace: str) -> Iterator[World]:
    with closing(World(server, f"unix://{proxy.path}", namespace)) as world:
        yield world


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {}


@pytest.fixture
def undisturbed(server: RedisServer, outcomes: dict[str, Outcome]) -> Callable[[str], Outcome]:
    """What a command answers and leaves when nothing goes wrong; the same beside every fault."""

    def outcome(name: str) -> Outcome:
        if name not in outcomes:
            with closing(World(server, server.url, f"twin-{uuid.uuid4().hex[:12]}")) as world:
                outcomes[name] = world.run(name), world.look()
        return outcomes[name]

    return outcome


@pytest.fixture
def twin(server: RedisServer) -> Iterator[World]:
    with closing(World(server, server.url, f"twin-{uuid.uuid4().hex[:12]}")) as world:
        yield world


@pytest.mark.parametrize(("fault", "times"), FAULTS, ids=FAULT_NAMES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_one_effect_however_the_network_fails(
    name: str,
    fault: Fault,
    times: int,
    proxy: FaultProxy,
    disturbed: World,
    undisturbed: Callable[[str], Outcome],
) -> None:
    rule = proxy.plan(fault, times, match_script(SCRIPTS[name].text(SIMULATED)))

    answer = disturbed.run(name)

    assert rule.hits == times
    assert (answer, disturbed.look()) == undisturbed(name)


@pytest.mark.parametrize("name", MORE)
def test_whatever_else_a_script_does_it_does_once(
    name: str, proxy: FaultProxy, disturbed: World, undisturbed: Callable[[str], Outcome]
) -> None:
    script = disturbed.command(name).script
    rule = proxy.plan(Fault.LOSE_REPLY, 2, match_script(script.text(SIMULATED)))

    answer = disturbed.run(name)

    assert rule.hits == 2
    assert (answer, disturbed.look()) == undisturbed(name)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_copy_that_arrives_late_changes_nothing(name: str, twin: World) -> None:
    twin.run(name)
    before = twin.look()

    twin.run(name)

    assert twin.look() == before


@pytest.mark.parametrize("name", NUMBERED)
def test_a_copy_that_arrives_after_the_next_request_of_its_lane_changes_nothing(
    name: str, twin: World
) -> None:
    twin.run(name)
    twin.store.run(queues.configure_queue(twin.queue, Operation(LANE, 101), {"keep_count": 5}))
    before = twin.look()

    with pytest.raises(ProtocolError, match="superseded"):
        twin.run(name)

    assert twin.look() == before


def test_every_script_that_writes_has_a_number_or_says_the_same_twice() -> None:
    unnumbered = {name for name in SCRIPTS if name not in NUMBERED}

    assert unnumbered == ONLY_READ | SAME_WHEN_DONE_TWICE


@pytest.mark.parametrize("name", sorted(ONLY_READ))
def test_a_script_that_only_reads_changes_nothing(name: str, twin: World) -> None:
    before = twin.look()

    twin.run(name)

    assert twin.look() == before
