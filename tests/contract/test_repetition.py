"""Same request twice, one effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ProtocolError
from penstock.store.command import Command, Operation
from penstock.store.commands import processes, queues, tasks, workers
from tests.conftest import EVERY_VERSION
from tests.samples import SCRIPTS, sample_commands, sample_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored, Value

pytestmark = pytest.mark.stores(*EVERY_VERSION)

NUMBERED = [
    name
    for name, script in SCRIPTS.items()
    if any(argument.name == "operation" for argument in script.arguments)
]
UNNUMBERED = [name for name in SCRIPTS if name not in NUMBERED]


def raw(command: Command[Any]) -> Command[Any]:
    """The same command, answering with the reply as it came."""
    return command._replace(decode=lambda reply: reply)


def without_times(everything: dict[str, Value]) -> dict[str, object]:
    """Leases and registrations move on with the clock; who has one does not."""
    return {
        key: set(value)
        if isinstance(value, dict) and key.endswith(("workers", "condemned", "queues"))
        else value
        for key, value in everything.items()
    }


@pytest.mark.parametrize("name", NUMBERED)
def test_a_numbered_request_sent_again_gets_the_same_answer_and_changes_nothing(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, name: str
) -> None:
    command = raw(sample_commands(names, sample_world(ps.store, names))[name])
    untouched = stored.everything()
    answer = ps.store.run(command)
    before = stored.everything()

    again = ps.store.run(command)

    assert before != untouched
    assert again == answer
    assert stored.everything() == before


@pytest.mark.parametrize("name", NUMBERED)
def test_a_request_older_than_the_last_of_its_lane_changes_nothing(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, name: str
) -> None:
    process = sample_world(ps.store, names)
    ps.store.run(sample_commands(names, process, number=102)[name])
    before = stored.everything()

    with pytest.raises(ProtocolError, match="superseded"):
        ps.store.run(sample_commands(names, process, number=101)[name])

    assert stored.everything() == before


@pytest.mark.parametrize("name", UNNUMBERED)
def test_a_request_without_a_number_can_be_sent_again_as_it_is(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, name: str
) -> None:
    command = sample_commands(names, sample_world(ps.store, names))[name]
    ps.store.run(command)
    before = without_times(stored.everything())

    ps.store.run(command)

    assert without_times(stored.everything()) == before


REFUSED_ON_NOTHING: dict[str, Callable[[QueueKeys, Operation], Command[Any]]] = {
    "enqueue": lambda keys, operation: tasks.enqueue_tasks(keys, operation, [b"a"]),
    "enqueue_unique": lambda keys, operation: tasks.enqueue_unique_task(
        keys, operation, b"a", b"=k", b"8 bytes."
    ),
    "join": lambda keys, operation: queues.join_queue(keys, operation, "w1"),
    "pause": queues.pause_queue,
    "configure": lambda keys, operation: queues.configure_queue(keys, operation, {"max_length": 1}),
    "start": lambda keys, operation: processes.start_tasks(keys, operation, "w1", 1),
    "delete": queues.delete_queue,
}


@pytest.mark.parametrize("refused", REFUSED_ON_NOTHING)
def test_a_late_copy_of_a_refused_request_is_refused_as_well(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    keys: QueueKeys,
    stored: Stored,
    refused: str,
) -> None:
    command = raw(REFUSED_ON_NOTHING[refused](keys, Operation("lane", 1)))
    answer = ps.store.run(command)
    sample_world(ps.store, names)
    before = stored.everything()

    again = ps.store.run(command)

    assert again == answer
    assert stored.everything() == before


def test_a_repeated_request_tells_nobody_again(
    ps: penstock.Penstock, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    command = tasks.enqueue_tasks(keys, Operation("lane", 1), [b"a"], "i1")
    ear = listen(keys.work)
    ps.store.run(command)

    ps.store.run(command)

    assert ear.hear_the_rest() == [b"1"]


def test_tasks_of_a_repeated_start_that_were_taken_away_are_not_handed_out_again(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, operations: Iterator[Operation]
) -> None:
    sample_world(ps.store, names)
    command = processes.start_tasks(keys, Operation("starts", 1), "w1", 1)
    ps.store.run(command)
    ps.store.run(queues.leave_queue(keys, next(operations), "w1", is_lost=True))

    claim = ps.store.run(command)

    assert claim.word == "not_working"


def test_a_start_that_found_nothing_keeps_older_requests_of_its_lane_from_coming_back(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    old = tasks.enqueue_tasks(keys, Operation("lane", 1), [b"a"], "i1")
    ps.store.run(old)
    ps.store.run(queues.pause_queue(keys, Operation("w1", 1)))
    ps.store.run(queues.join_queue(keys, Operation("w1", 2), "w1"))
    ps.store.run(processes.start_tasks(keys, Operation("lane", 2), "w1", 1, wait=True))

    with pytest.raises(ProtocolError, match="superseded"):
        ps.store.run(old)

    assert stored[keys.ready] == [b"a"]


def test_a_worker_that_was_forgotten_is_not_registered_by_a_late_copy(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    command = workers.start_worker(names, Operation("lane", 1), "w1", 60_000, "{}")
    ps.store.run(command)
    ps.fail_worker("w1")

    ps.store.run(command)

    assert names.workers not in stored
