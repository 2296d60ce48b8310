"""Numbers as scripts write them."""

from __future__ import annotations

import re

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")


def whole_number(stored: str | bytes) -> int | None:
    """What was stored as a number; None for anything else, which another program has written."""
    text = stored.decode(errors="replace") if isinstance(stored, bytes) else stored
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
