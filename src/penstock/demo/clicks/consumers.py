"""What the demo's consumers do: a little simulated work, noted at its beginning and its end."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.connect import connect
from penstock.demo.clicks.records import Batch, Notebook
from penstock.errors import OffsetRefused
from penstock.worker.consumers import consumer

if TYPE_CHECKING:
    from penstock.client.log import LogGroup
    from penstock.executors.context import Context
    from penstock.model.logs import Message

LOG = "clicks"
GROUP = "counts"
RECORDS = "PENSTOCK_DEMO_RECORDS"
WORKER = "PENSTOCK_DEMO_WORKER"
STORE = "PENSTOCK_DEMO_STORE"
NAMESPACE = "penstock-clicks"

_BATCH = 100
_BATCH_S = 0.03
_LATE_S = 1.0


@consumer(LOG, GROUP, batch=_BATCH)
def count(messages: list[Message], context: Context) -> None:
    """The body of a message is its number in its partition, as text.

    The worker commits by itself, and drops a batch by itself if its session may have ended
    meanwhile. A batch that took too long is also committed here, whatever the worker thinks of it,
    to show what the store says to that.
    """
    notebook, group = _surroundings()
    numbers = [int(message.body) for message in messages]
    batch = Batch(messages[0].partition, context.token, numbers[0], numbers[-1], len(numbers))
    began_at = time.monotonic()
    notebook.note(b"begun", batch)
    time.sleep(_BATCH_S)
    notebook.note(b"ended", batch)
    if time.monotonic() - began_at > _LATE_S:
        try:
            group.commit(batch.partition, context.token, messages[-1].id)
        except OffsetRefused:
            notebook.note(b"refused", batch)


@cache
def _surroundings() -> tuple[Notebook, LogGroup]:
    notebook = Notebook(Path(os.environ[RECORDS]), int(os.environ[WORKER]))
    client = connect(os.environ[STORE], namespace=NAMESPACE)
    return notebook, client.log(LOG).group(GROUP)
