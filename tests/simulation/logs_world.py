"""The server of a simulation of logs, and what is in a partition after each command about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.fsck import read_log
from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.model.log_invariants import log_violations
from penstock.model.logs import Message
from penstock.model.snapshot import Snapshot
from penstock.store.commands.logs import open_readers
from penstock.store.script import SIMULATED
from tests.simulation.programs import Reading
from tests.simulation.server import Scripts, Server, Violated

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.model.logs import Reader
    from penstock.model.violations import Violation
    from penstock.store.command import Command

LOG = "clicks"
_PASSING = ("memory", "group_members", "group_owners")
"""what says nothing about the log"""
_PARTITION = re.compile(r"/(\d+)\}")


class Look(NamedTuple):
    """A partition right after a command."""

    number: int
    readers: dict[str, Reader]
    trimmed_to: str
    may_lose: bool
    """whether it may drop what a reader has still to read"""
    new: list[Message]
    """what was appended since the last look"""


class LogWorld(Server):
    """One log."""

    def __init__(self, path: Path, scripts: Scripts | None = None) -> None:
        super().__init__(path, scripts)
        self._store = Store(parse_url(f"unix://{path}"), dialect=SIMULATED)
        self._newest: dict[int, str] = {}

    def reset(self) -> None:
        super().reset()
        self._newest = {}

    def close(self) -> None:
        self._store.close()
        super().close()

    def run(self, command: Command[Any]) -> tuple[Any, Look | None]:
        """Run a command, and look right after it at the partition that it is about."""
        if isinstance(command, Reading):
            return self.ask([command.arguments])[0], None
        found = _PARTITION.search(command.keys[-1])
        if found is None:
            return self._run(command, (), ())[0], None
        number = int(found[1])
        keys, newest = self.keys.queue(LOG).partition(number), self._newest.get(number, "0-0")
        reply, answers = self._run(
            command,
            (),
            (
                ("HGETALL", keys.offsets),
                ("HMGET", keys.state, "trimmed_to", "max_bytes"),
                ("XRANGE", keys.messages, f"({newest}", "+"),
            ),
        )
        offsets, (trimmed_to, max_bytes), entries = answers
        new = [Message(number, *entry) for entry in entries]
        if new:
            self._newest[number] = new[-1].id
        readers = {reader.name: reader for reader in open_readers(offsets)}
        return reply, Look(
            number, readers, (trimmed_to or b"").decode(), max_bytes is not None, new
        )

    def violations(self) -> list[Violation]:
        """What `penstock fsck` would say of the log."""
        (keys,) = self.ask([("KEYS", "{*")])
        names = [self.keys.identify(key.decode()) for key in keys]
        if None in names:
            raise Violated(f"a key is none of ours: {sorted(keys)}")
        mine = [it for it in names if it and it.queue == LOG and it.kind not in _PASSING]
        if not mine:
            return []
        log = read_log(self._store, self.keys.queue(LOG), mine)
        return log_violations(Snapshot(logs={LOG: log}))
