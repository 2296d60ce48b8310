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


@contextmanager
def compiled_modules(master: str | None) -> Iterator[None]:
    """Name such a SPARK_HOME to the JVM that is started meanwhile, unless one is set, or Spark may
    have to send the zip to a cluster.
    """
    is_here = master is None or master == "local" or master.startswith("local[")
    if not is_here or "SPARK_HOME" in os.environ or "SPARK_CONF_DIR" in os.environ:
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
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None  # penstock.spark is not imported without
    installed = Path(spec.origin).parent

    def link(folder: Path) -> None:
        for part in installed.iterdir():
            if part.name != _HAS_THE_ZIP:
                (folder / part.name).symlink_to(part)

    return cached_folder(cache, "spark", f"{installed} {version('pyspark')}", link)
