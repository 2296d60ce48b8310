"""The documents tell the truth: their examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import JobCancelled, JobFailed, JobNotFound, PenstockError, ResultTimeout

if TYPE_CHECKING:
    from tests.servers import RedisServer

ROOT = Path(__file__).parent.parent.parent
TESTING = ROOT / "docs" / "testing.md"
SPARK = ROOT / "docs" / "spark.md"
README = ROOT / "README.md"
DOCUMENTS = [
    README,
    *sorted(set((ROOT / "docs").glob("*.md")) - {TESTING}),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]


def examples_in(document: Path, *, for_spark: bool = False) -> list[str]:
    """Those with Spark run in its session, one after the other, in tests/spark."""
    found = re.findall(r"```python\n(.*?)```", document.read_text(), re.S)
    return [code for code in found if (document == SPARK or "penstock.spark" in code) == for_spark]


EXAMPLES = [
    pytest.param(code, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(examples_in(document))
] + [
    pytest.param(path.read_text(), id=path.name)
    for path in (ROOT / "examples").glob("*.py")
    if path.name != "orders.py"  # runs on Spark, in tests/spark
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_as_it_stands(
    code: str, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    run = run_example(code, server, namespace, tmp_path)

    assert run.returncode == 0, run.stderr


@pytest.mark.timeout(300)
def test_all_examples_can_be_tried_on_one_store(
    server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    for document in DOCUMENTS:
        programs = []
        for number, code in enumerate(examples_in(document)):
            programs.append(tmp_path / f"{document.stem.replace('-', '_')}_{number}.py")
            programs[-1].write_text(code)
        # One process for a document, as to start one takes longer than most examples.
        each = f"[runpy.run_path(path, run_name='__main__') for path in {list(map(str, programs))}]"
        run = run_example(f"import runpy\n{each}", server, namespace, tmp_path)

        assert run.returncode == 0, f"{document.name}: {run.stderr}"


def run_example(
    code: str, server: RedisServer, namespace: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    program = folder / "app.py"
    program.write_text(code)
    return subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("error", [ResultTimeout, JobFailed, JobCancelled, JobNotFound])
def test_callers_that_wait_for_a_result_are_told_what_may_be_raised(
    error: type[PenstockError],
) -> None:
    assert f"`{error.__name__}`" in (ROOT / "docs" / "jobs.md").read_text()


def test_the_examples_of_tests_pass(tmp_path: Path) -> None:
    for code in examples_in(TESTING):
        name = code.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(code)

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    "document", sorted({*ROOT.glob("*.md"), *DOCUMENTS}), ids=lambda path: path.name
)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())

    missing = [target for target in targets if not (document.parent / target).exists()]

    assert missing == []
