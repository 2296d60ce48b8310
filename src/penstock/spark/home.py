"""Where Spark finds itself when it runs on this machine alone.

PySpark is installed twice by its package: as modules, and once more in a zip without compiled code,
meant for clusters. Spark puts the zip first on the path of its Python processes, so that each of
them compiles what it imports for about half a second. A SPARK_HOME without the zip spares that.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from penstock.spark.cached_folder import cached_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_HAS_THE_ZIP = "python"
# Settings with which a user may have chosen a Spark.
_SET_UP_BY_HAND = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")


@contextmanager
def compiled_modules(master: str | None) -> Iterator[None]:
    """Name such a SPARK_HOME to the JVM that is started meanwhile, unless Spark was set up by hand,
    or it may have to send the zip to a cluster.
    """
    is_here = master is None or master == "local" or master.startswith("local[")
    is_set_up = (
        any(name in os.environ for name in _SET_UP_BY_HAND) or (_installed() / "conf").exists()
    )
    if not is_here or is_set_up:
        yield
        return
    with suppress(OSError):  # Spark runs without
        os.environ["SPARK_HOME"] = str(linked_home(platformdirs.user_cache_path("penstock")))
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


def linked_home(cache: Path) -> Path:
    """A folder with links to all that the installed PySpark has, but the zip."""
    installed = _installed()

    def link(folder: Path) -> None:
        for part in installed.iterdir():
            if part.name != _HAS_THE_ZIP:
                (folder / part.name).symlink_to(part)

    content = f"{installed} {version('pyspark')}"
    return cached_folder(cache, "spark", content, "bin/spark-submit", link)


def _installed() -> Path:
    """The folder of PySpark's package."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None  # penstock.spark is not imported without
    return Path(spec.origin).parent
