"""What the consumers of the chaos tests do: they write down each batch when it begins and ends."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event

import penstock
from tests.chaos.log_journal import LogJournal
from tests.log_promises import Batch

JOURNAL = "PENSTOCK_CHAOS_JOURNAL"
GATE = "PENSTOCK_CHAOS_GATE"
LOG = "clicks"
GROUP = "sessions"


@penstock.consumer(LOG, GROUP, batch=5, commit=0.1)
def record(messages: list[penstock.Message], context: penstock.Context) -> None:
    """A message that says so keeps its batch until the gate is open."""
    journal = LogJournal(Path(os.environ[JOURNAL]))
    ids = tuple(message.id for message in messages)
    batch = Batch(messages[0].partition, context.token, os.getpid(), ids)
    journal.write("begin", batch)
    if any(message.body == b"wait" for message in messages):
        gate = Path(os.environ[GATE])
        while not gate.exists():
            Event().wait(0.005)
    journal.write("end", batch)
