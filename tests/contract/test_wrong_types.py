"""A key that holds something else is found before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.store.command import Operation
from penstock.store.commands import processes
from penstock.store.keys import KEY_TYPES, QUEUE_KEY_TYPES, TASK_KEY_TYPES
from tests.samples import LANE, QUEUE, SCRIPTS, sample_commands, sample_world
from tests.stored import part_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import NamespaceKeys
    from tests.stored import Stored

EVERY_KEY = [
    pytest.param(name, position, id=f"{name}-{key.name}")
    for name, script in SCRIPTS.items()
    for position, key in enumerate(script.keys)
    if key.type != "any"
]


@pytest.mark.parametrize(("name", "position"), EVERY_KEY)
def test_a_key_of_the_wrong_type_is_reported_and_nothing_is_changed(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, name: str, position: int
) -> None:
    command = sample_commands(names, sample_world(ps.store, names))[name]
    key = command.keys[position]
    plant = "RPUSH" if QUEUE_KEY_TYPES.get(part_of(key)) == "string" else "SET"
    ps.store.call(key, "DEL", key)
    ps.store.call(key, plant, key, "something else")
    before = stored.everything()

    with pytest.raises(StoreError, match="holds a value of another type"):
        ps.store.run(command)

    assert stored.everything() == before


def test_finishing_nothing_and_starting_more_checks_what_is_running_too(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    sample_world(ps.store, names)
    queue = names.queue(QUEUE)
    running = queue.running("w1")
    ps.store.call(running, "DEL", running)
    ps.store.call(running, "SET", running, "something else")
    before = stored.everything()

    with pytest.raises(StoreError, match="holds a value of another type"):
        ps.store.run(processes.finish_tasks(queue, Operation(LANE, 100), "w1", [], limit=1))

    assert stored.everything() == before


@pytest.mark.parametrize("kind", ["tasks", "jobs"])
def test_a_request_that_met_one_leaves_its_lane_to_the_next(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, kind: str
) -> None:
    """Or there would be a memory for each request that follows one which was refused."""
    send: dict[str, Callable[[str], object]] = {
        "tasks": lambda queue: ps.queue(queue).enqueue(b"task"),
        "jobs": lambda queue: ps.jobs(queue).add("email"),
    }
    ps.store.call(names.queue("broken").meta, "SET", names.queue("broken").meta, "something else")
    for _ in range(3):
        with pytest.raises(StoreError, match="holds a value of another type"):
            send[kind]("broken")
        send[kind](QUEUE)

    memories = [key for key in stored.types() if f":{QUEUE}}}:memory:" in key]
    assert len(memories) == 1


def test_every_key_has_the_type_that_the_headers_give(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    headers = {key.name: key.type for script in SCRIPTS.values() for key in script.keys}
    del headers["tasks"], headers["key"]  # stand for any of several
    del headers["types"]  # left behind by a queue of jobs

    sample_world(ps.store, names)

    assert {part_of(key): kind for key, kind in stored.types().items()} == headers
    assert headers == KEY_TYPES | QUEUE_KEY_TYPES | TASK_KEY_TYPES
