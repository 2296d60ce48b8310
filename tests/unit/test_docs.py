"""The documents tell the truth: their examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers import RedisServer

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(), re.S))
] + [pytest.param(path.read_text(), id=path.name) for path in (ROOT / "examples").glob("*.py")]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_as_it_stands(
    code: str, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    program = tmp_path / "app.py"
    program.write_text(code)

    run = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())

    missing = [target for target in targets if not (document.parent / target).exists()]

    assert missing == []
