"""The project that a program belongs to, for every way in which programs are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import InvalidName
from penstock.server.project import project_namespace, project_root

PRINT_ROOT = """
import sys
from penstock.server.project import project_root
sys.stdout.write(str(project_root()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a package `shop` in it, whose module `app` prints the root."""
    package = tmp_path / "work" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "app.py").write_text(PRINT_ROOT)
    return tmp_path / "work"


@pytest.mark.parametrize("marker", ["pyproject.toml", ".git", ".hg"])
def test_a_script_belongs_to_the_nearest_project_above_it(
    project: Path, tmp_path: Path, marker: str
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (project / marker).touch()

    assert root_told_by(project / "shop" / "app.py", cwd=tmp_path) == project


def test_a_script_without_a_project_belongs_to_its_folder(project: Path, tmp_path: Path) -> None:
    assert root_told_by(project / "shop" / "app.py", cwd=tmp_path) == project / "shop"


def test_a_module_belongs_to_the_folder_that_it_is_found_in(project: Path) -> None:
    assert root_told_by("-m", "shop.app", cwd=project) == project


def test_code_without_a_file_belongs_to_the_folder_that_it_runs_in(project: Path) -> None:
    assert root_told_by("-c", PRINT_ROOT, cwd=project) == project


@pytest.mark.parametrize("is_linked", [False, True], ids=["in its folder", "through a link"])
def test_an_installed_command_belongs_to_the_folder_that_it_runs_in(
    project: Path, tmp_path: Path, is_linked: bool
) -> None:
    """In an environment inside of another project, as penstock may be installed once for all."""
    tools = tmp_path / "tools"
    (tools / ".venv" / "bin").mkdir(parents=True)
    (tools / ".git").touch()
    real = Path(sys.executable).resolve()
    (tools / ".venv" / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    python = tools / ".venv" / "bin" / "python"
    python.symlink_to(real)
    command = tools / ".venv" / "bin" / "penstock"
    command.write_text(PRINT_ROOT)
    link = tmp_path / "penstock"
    link.symlink_to(command)

    told = root_told_by(link if is_linked else command, cwd=project, python=python)

    assert told == project


def test_a_program_can_be_told_its_project(project: Path, tmp_path: Path) -> None:
    assert root_told_by("-c", PRINT_ROOT, cwd=tmp_path, PENSTOCK_PROJECT=str(project)) == project


def test_a_folder_that_is_gone_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_PROJECT", raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(InvalidName, match=r"is gone, so its project is not known; .*_NAMESPACE"):
        project_root()


def test_projects_of_the_same_name_have_namespaces_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for parent in ("a", "b"):
        monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path / parent / "shop"))
        found.add(project_namespace())

    assert len(found) == 2
    assert all(name.startswith("shop-") and len(name) == len("shop-") + 8 for name in found)


@pytest.mark.parametrize(
    ("folder", "begins"),
    [
        ("/", "root-"),
        ("/home/käthe/mein büro", "mein-büro-"),
        ("/x/{a:b}\n", "a-b-"),
        ("/x/" + "long" * 60, "long" * 10 + "-"),
        ("/x/" + os.fsdecode(b"caf\xe9"), "caf-"),
    ],
)
def test_any_folder_gives_a_name(folder: str, begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PROJECT", folder)

    assert project_namespace().startswith(begins)
    assert len(project_namespace()) == len(begins) + 8


def root_told_by(
    *arguments: str | Path, cwd: Path, python: str | Path = sys.executable, **environment: str
) -> Path:
    inherited = {name: value for name, value in os.environ.items() if name != "PENSTOCK_PROJECT"}
    run = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return Path(run.stdout)
