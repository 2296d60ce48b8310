"""What a running job says of how far it has come."""

from __future__ import annotations

import json

from penstock.codec.values import pack_data
from penstock.errors import PayloadTooLarge
from penstock.model.jobs import Progress

MAX_PROGRESS_BYTES = 65_536


def pack_progress(progress: Progress) -> bytes:
    """Raises Unserialisable or PayloadTooLarge: it is said often, and everybody who looks reads
    it.
    """
    packed = pack_data("the data of the progress", [progress.percent, progress.data])
    if len(packed) > MAX_PROGRESS_BYTES:
        raise PayloadTooLarge(
            f"the data of the progress is {len(packed)} bytes long and {MAX_PROGRESS_BYTES} is the "
            "limit; say less, or where the rest is"
        )
    return packed


def open_progress(payload: bytes) -> Progress:
    percent, data = json.loads(payload)
    return Progress(percent, data)
