"""What is installed is ours: `penstock` on PyPI is another project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXTS = [
    path
    for folder, pattern in (
        *(("", "*.md"), ("docs", "**/*.md"), ("src", "**/*.py"), ("examples", "*.py")),
        *(("", "Makefile"), ("", "pyproject.toml")),
    )
    for path in sorted((ROOT / folder).glob(pattern))
]

INSTALLS = re.compile(r"""pip install (?:["'`])*penstock\b(?!-queue).*|.*\bpenstock\[.*""")


def test_the_distribution_has_a_name_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["name"] == "penstock-queue"


def test_nothing_tells_anybody_to_install_the_other_one() -> None:
    told = [(path.name, line) for path in TEXTS for line in INSTALLS.findall(path.read_text())]

    assert told == [("README.md", "pip install penstock`")], "where it is called another project"
