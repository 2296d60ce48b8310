"""Batches that are staged, decided and then moved into a queue.

A writer stages chunks under a name of its own. One decision then makes all stages of a batch part
of the queue, and their chunks are moved into it one by one, by any client.
"""

from __future__ import annotations

from typing import NamedTuple

STAGE_MS = 24 * 3_600_000
"""How long a stage is kept that was not decided."""

REMEMBER_MS = 30 * 24 * 3_600_000
"""How long the name of a decided batch is remembered."""

MAX_CHUNK_TASKS = 1_000
MAX_CHUNK_JOBS = 250
MAX_CHUNK_BYTES = 1024 * 1024
"""What is moved in one step, so that no step takes long."""

MAX_STAGED_BYTES = 1024 * 1024 * 1024
"""How much may be staged for one batch, unless the writer was told otherwise."""


class Stage(NamedTuple):
    """What one attempt of one writer has staged."""

    name: str
    chunks: int
    rows: int
    largest: int
    """bytes of the largest task, or of the data of the largest job"""


class Keep(NamedTuple):
    """For how long jobs of a batch are kept once they have ended, whatever the queue does with
    others.
    """

    tag: str
    """that all jobs of the batch have"""
    keep_ms: int


NOT_KEPT = Keep("", 0)
_BATCH_TAG = "batch "


def batch_tag(batch_id: str) -> str:
    """The tag by which jobs belong to a batch; as `scripts/fragments/jobs/endings.lua` has it."""
    return f"{_BATCH_TAG}{batch_id}"


class Moved(NamedTuple):
    """How far decided batches have come into their queue."""

    moved: int
    """tasks or jobs that left their stage"""
    merged: int
    """of these, jobs that were not added, as their id or their unique key was taken"""
    left: int
    """what is still staged, of all decided batches"""
    is_full: bool
    """whether the rest has to wait for room"""
