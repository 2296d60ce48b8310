"""Errors of penstock that came through Spark, which keeps only their text."""

from __future__ import annotations

import re

import penstock.errors
from penstock.errors import PenstockError

_RAISED = re.compile(r"penstock\.errors\.(\w+): (.+)")


def penstock_error(error: BaseException) -> PenstockError | None:
    """The error that penstock raised in another process of Spark; None if it was another's."""
    for name, message in reversed(_RAISED.findall(str(error))):
        kind = getattr(penstock.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            try:
                return kind(message.strip())
            except TypeError:  # one that is made of more than its message
                return PenstockError(message.strip())
    return None
