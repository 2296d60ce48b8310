"""Consumers that run in processes of their own. A process finds them by name, so they are at the
top of a module; what they read and where they write it comes with the messages.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import penstock


def note(message: penstock.Message, **more: Any) -> None:
    """Add a line to the file that the message names."""
    path = Path(message.headers["notes"])
    line = {"body": message.body.decode("latin-1"), "pid": os.getpid(), **more}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read_notes(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


@penstock.consumer("clicks", "tell", process=True)
def tell(message: penstock.Message, context: penstock.Context) -> None:
    try:
        resources = context.resources
    except penstock.PenstockError as error:
        resources = error.code
    note(
        message,
        id=message.id,
        key=message.key,
        headers=message.headers,
        at=message.at,
        partition=message.partition,
        token=context.token,
        queue=context.queue,
        worker=context.worker,
        resources=resources,
    )


@penstock.consumer("clicks", "cancelled", process=True)
def until_cancelled(message: penstock.Message, context: penstock.Context) -> None:
    note(message)
    while not context.cancelled:
        time.sleep(0.01)
    note(message, was_cancelled=True)


@penstock.consumer("clicks", "lists", batch=10, attempts=2, backoff=0, process=True)
def in_lists(messages: list[penstock.Message]) -> None:
    if any(message.body == b"kill" for message in messages):
        note(messages[0], count=len(messages))
        os.kill(os.getpid(), signal.SIGKILL)
    for message in messages:
        note(message, count=len(messages))


@penstock.consumer("clicks", "g", attempts=2, backoff=0, timeout=1, process=True)
def obey(message: penstock.Message) -> None:
    """Do what the message says."""
    note(message)
    match message.body.decode():
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "raise":
            raise ValueError("no such thing")
        case "hang":
            while True:
                time.sleep(10)
        case "slow":
            time.sleep(0.4)
