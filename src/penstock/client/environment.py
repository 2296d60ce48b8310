"""What the environment says about clients that no program makes itself: the one of `.send()`, and
those of `penstock worker run`.
"""

from __future__ import annotations

import os
import re
from typing import TypedDict

from penstock.errors import InvalidArgument

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class ClientLimits(TypedDict, total=False):
    """Arguments of `connect` that the environment names."""

    max_payload: int
    retry_for_s: float


def limits_of_environment() -> ClientLimits:
    """`PENSTOCK_MAX_PAYLOAD`, in bytes or as 4M, and `PENSTOCK_RETRY_FOR`, in seconds.

    Raises InvalidArgument for what is neither.
    """
    limits: ClientLimits = {}
    if size := os.environ.get("PENSTOCK_MAX_PAYLOAD"):
        most = parse_size(size)
        if most is None:
            raise InvalidArgument(
                f"the environment variable PENSTOCK_MAX_PAYLOAD is {size!r}; give bytes, or a size "
                "such as 4M"
            )
        limits["max_payload"] = most
    if seconds := os.environ.get("PENSTOCK_RETRY_FOR"):
        try:
            limits["retry_for_s"] = float(seconds)
        except ValueError:
            raise InvalidArgument(
                f"the environment variable PENSTOCK_RETRY_FOR is {seconds!r}; give seconds, as 60"
            ) from None
    return limits


def parse_size(text: str) -> int | None:
    """Bytes of a size such as 500M; None if it is none."""
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)B?", text.strip(), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) << _UNITS[found[2].upper()]
