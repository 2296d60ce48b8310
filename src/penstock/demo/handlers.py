"""What the demo's workers run: a little simulated work, noted at its beginning and its end."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.demo.records import Notebook
from penstock.worker.handlers import handler

if TYPE_CHECKING:
    from penstock.executors.context import Context

QUEUE = "demo"
RECORDS = "PENSTOCK_DEMO_RECORDS"
WORKER = "PENSTOCK_DEMO_WORKER"
TASK_S = "PENSTOCK_DEMO_TASK_S"


@handler(QUEUE)
def work(task: bytes, context: Context) -> None:
    """The task is its own number, as text."""
    notebook, task_s = _surroundings()
    notebook.note(b"begun", int(task))
    time.sleep(task_s)
    notebook.note(b"ended", int(task))


@cache
def _surroundings() -> tuple[Notebook, float]:
    notebook = Notebook(Path(os.environ[RECORDS]), int(os.environ[WORKER]))
    return notebook, float(os.environ[TASK_S])
