"""Lets Spark find `format("penstock")` by itself.

Spark imports every module whose name begins with `pyspark_` and takes its `DefaultSource`. One
that cannot be imported hides the sources of all others, so this one always can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["DefaultSource"]


def _unusable(reason: Exception) -> type:
    """A source that says why it cannot be used as soon as it is."""
    try:
        from pyspark.sql.datasource import DataSource as Base  # noqa: PLC0415 - may be missing
    except ImportError:
        Base = object  # type: ignore[assignment, misc]

    class UnusableSource(Base):
        def __init__(self, options: Any) -> None:
            raise reason

        @classmethod
        def name(cls) -> str:
            return "penstock"

    return UnusableSource


if TYPE_CHECKING:
    from penstock.spark.source import PenstockSource as DefaultSource
else:
    try:
        from penstock.spark.source import PenstockSource as DefaultSource
    except Exception as error:
        DefaultSource = _unusable(error)
