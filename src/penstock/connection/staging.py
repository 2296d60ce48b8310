"""Writes batches to a queue: staged by many, decided once, moved by any client."""

from penstock.connection._async.staging import decide_batch as adecide_batch
from penstock.connection._async.staging import drop_stages as adrop_stages
from penstock.connection._async.staging import move_batches as amove_batches
from penstock.connection._async.staging import stage_chunk as astage_chunk
from penstock.connection._sync.staging import decide_batch, drop_stages, move_batches, stage_chunk

__all__ = [
    "adecide_batch",
    "adrop_stages",
    "amove_batches",
    "astage_chunk",
    "decide_batch",
    "drop_stages",
    "move_batches",
    "stage_chunk",
]
