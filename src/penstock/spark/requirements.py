"""Checks that PySpark is there, in a version that the data source works with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from penstock.errors import SparkNotFound

OLDEST = (4, 2)
"""The first version with the parts of the data source API that are used here."""
TOO_NEW = (5,)

_INSTALL = "install one with pip install 'penstock-queue[spark]'"


def check_requirements() -> None:
    """Raise SparkNotFound unless a usable PySpark, PyArrow and delta-rs are installed."""
    check_pyspark(_installed("pyspark"))
    for package in ("pyarrow", "deltalake"):
        if _installed(package) is None:
            raise SparkNotFound(
                f"penstock.spark needs {package}, which is not installed; {_INSTALL}"
            )


def check_pyspark(found: str | None) -> None:
    """Refuse a version of PySpark, or that there is none."""
    if found is None:
        raise SparkNotFound(
            f"penstock.spark needs pyspark>=4.2,<5, which is not installed; {_INSTALL}"
        )
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if not OLDEST <= numbers < TOO_NEW:
        raise SparkNotFound(
            f"penstock.spark needs pyspark>=4.2,<5, but {found} is installed; {_INSTALL}"
        )


def _installed(package: str) -> str | None:
    # pyspark-client and pyspark-connect bring the same modules under names of their own.
    names = ("pyspark", "pyspark-client", "pyspark-connect") if package == "pyspark" else (package,)
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
