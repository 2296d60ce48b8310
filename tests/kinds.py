"""Samples of every kind of queue. What is tested of each kind asks here, so a new kind gets those
tests by being listed in `SAMPLES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from penstock.store.keys import NamespaceKeys
from tests import job_samples, log_samples, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.connection.store import Store
    from penstock.model.queues import KindName
    from penstock.store.command import Command
    from penstock.store.script import Script

QUEUE = samples.QUEUE
LANE = samples.LANE
assert (QUEUE, LANE) == (job_samples.QUEUE, job_samples.LANE)
assert (QUEUE, LANE) == (log_samples.LOG, log_samples.LANE)

Commands = dict[str, "Command[Any]"]


@dataclass(frozen=True)
class Samples:
    """A queue with everything in it, and commands that have something to do there."""

    scripts: dict[str, Script]
    """those that have a sample here, by name"""
    fill: Callable[[Store, NamespaceKeys], Any]
    """makes the queue, and says what processes its worker holds, as the commands take them"""
    of_scripts: Callable[[NamespaceKeys, Any, int], Commands]
    """script -> a command of it"""
    of_more: Callable[[NamespaceKeys, Any, int], Commands]
    """what the same scripts also do -> a command that makes them do it"""
    no_processes: Any
    """processes that are none, for commands that are never sent"""

    @property
    def numbered(self) -> list[str]:
        """The scripts that remember what they have answered."""
        return [name for name, it in self.scripts.items() if it.keys[0].name == "memory"]

    @property
    def more(self) -> list[str]:
        """The names of what the same scripts also do."""
        return list(self.of_more(NamespaceKeys("ns"), self.no_processes, 100))

    def commands(self, keys: NamespaceKeys, processes: Any, number: int = 100) -> Commands:
        """Every sample, by name; those that are numbered have this number."""
        scripts = self.of_scripts(keys, processes, number)
        return scripts | self.of_more(keys, processes, number)


SAMPLES = {
    "tasks": Samples(
        scripts=samples.SCRIPTS,
        fill=samples.sample_world,
        of_scripts=samples.sample_commands,
        of_more=samples.more_commands,
        no_processes=0,
    ),
    "jobs": Samples(
        scripts=job_samples.SCRIPTS,
        fill=job_samples.sample_job_world,
        of_scripts=job_samples.sample_job_commands,
        of_more=job_samples.more_job_commands,
        no_processes=dict.fromkeys(job_samples.HELD, 0),
    ),
    "logs": Samples(
        scripts=log_samples.SCRIPTS,
        fill=log_samples.sample_log_world,
        of_scripts=log_samples.sample_log_commands,
        of_more=log_samples.more_log_commands,
        no_processes=log_samples.NO_LOG,
    ),
}
"""By kind. What is about all queues, workers and batches is among the samples of tasks."""

each_kind = pytest.mark.parametrize("kind", list(SAMPLES))
QUEUE_KINDS: list[KindName] = ["tasks", "jobs"]
"""Those whose queues workers join; of a log they share the partitions."""
each_queue_kind = pytest.mark.parametrize("kind", QUEUE_KINDS)


def each_sample(choose: Callable[[str, Samples], Iterable[str]]) -> pytest.MarkDecorator:
    """Run a test for the chosen samples of every kind, as `kind` and `name`."""
    return pytest.mark.parametrize(
        ("kind", "name"),
        [
            pytest.param(kind, name, id=f"{kind}-{name}")
            for kind, of_kind in SAMPLES.items()
            for name in choose(kind, of_kind)
        ],
    )
