"""Consumers that send a job for each message, and stop in the middle until they are let go."""

from __future__ import annotations

import os
import random
from pathlib import Path
from threading import Event

import penstock

FOLDER = "PENSTOCK_CHAOS_FOLDER"
LOG = "orders"
MESSAGES = 60
HELD_AT = b"30"
NEVER_S = 3600.0


@penstock.job(queue="single")
def single(body: str) -> None:
    """Sent by the consumer of single messages."""


@penstock.job(queue="batch")
def batch(body: str) -> None:
    """Sent by the consumer of batches."""


@penstock.consumer(LOG, "single", partitions=[0], commit=NEVER_S)
def read_single(message: penstock.Message) -> None:
    single.send(message.body.decode())
    _go_on("single", message)


@penstock.consumer(LOG, "batch", batch=20, partitions=[0], commit=NEVER_S)
def read_batch(messages: list[penstock.Message]) -> None:
    for message in random.sample(messages, len(messages)):
        with penstock.sending_for(message):
            batch.send(message.body.decode())
        _go_on("batch", message)
    if messages[-1].body == b"%d" % (MESSAGES - 1):
        (_folder() / "batch.read").touch()


def _go_on(group: str, message: penstock.Message) -> None:
    """One message waits for the test."""
    folder = _folder()
    if message.body == HELD_AT:
        (folder / f"{group}.held").touch()
        while not (folder / "gate").exists():
            Event().wait(0.005)
    if group == "single" and message.body == b"%d" % (MESSAGES - 1):
        (folder / "single.read").touch()


def _folder() -> Path:
    return Path(os.environ[FOLDER])
