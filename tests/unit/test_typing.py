"""What a type checker says about jobs: the arguments and results of a function go with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

PROGRAM = """
import penstock

@penstock.job(queue="images", attempts=3)
def resize(path: str, width: int = 10) -> str:
    return path

@penstock.job
async def fetch(url: str) -> bytes:
    return url.encode()

@penstock.job
def plain(x: int) -> float:
    return x / 2

async def use(ps: penstock.Penstock, aps: penstock.AsyncPenstock) -> None:
    reveal_type(resize.send("a", width=1))
    reveal_type(resize.send("a").result(timeout=1))
    reveal_type(resize.options(priority="high", delay=1).send("a", 2).result())
    reveal_type(fetch.send("u").result())
    reveal_type(await fetch.asend("u"))
    reveal_type(plain.send(1).result())
    reveal_type(resize.on(ps).send("a", 1))
    reveal_type(await resize.on(aps).send("a", 1))
    reveal_type(resize.send_many([("a", 1)]))
    reveal_type(await (await aps.jobs("mail").add("email", {"a": 1})).state)
    reveal_type(ps.jobs("mail").add("email").state)
    reveal_type((await fetch.asend("u")).progress)
    reveal_type(await (await fetch.asend("u")).progress)
    reveal_type(fetch.send("u").progress)
    ps.schedules("images").add("nightly", resize, {"path": "a"}, cron="0 3 * * *", attempts=2)
    await aps.schedules("default").add("hourly", fetch, {"url": "u"}, every=3600)
"""

REVEALED = [
    "Job[str]",
    "str",
    "str",
    "bytes",
    "AsyncJob[bytes]",
    "float",
    "Job[str]",
    "AsyncJob[str]",
    "list[Job[str]]",
    *2 * ["state"],
    "Awaitable[Progress | None]",
    *2 * ["Progress | None"],
]

WRONG = {
    "resize.send(1)": "arg-type",
    'resize.send("a", height=1)': "call-arg",
    'resize.options(urgency=3).send("a")': "call-arg",
    'resize.on(ps).send("a", "b")': "arg-type",
    "plain.send()": "call-arg",
    '(await fetch.asend("u")).state == "done"': "comparison-overlap",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that mypy prints about the program and everything that is wrong about it."""
    lines = "".join(f"    {line}\n" for line in WRONG)
    program = tmp_path_factory.mktemp("typing") / "program.py"
    program.write_text(f"{PROGRAM}{lines}")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.splitlines()


def test_the_result_of_a_function_is_the_result_of_its_job(checked: list[str]) -> None:
    found = [re.sub(r"[\w.]+\.(?=\w)", "", m[1]) for line in checked if (m := _revealed(line))]

    assert ["state" if "'scheduled'" in type else type for type in found] == REVEALED


@pytest.mark.parametrize(("line", "code"), WRONG.items())
def test_wrong_arguments_are_found_before_anything_is_sent(
    checked: list[str], line: str, code: str
) -> None:
    number = 1 + PROGRAM.count("\n") + list(WRONG).index(line)

    assert any(f":{number}: error" in found and f"[{code}]" in found for found in checked), checked


def test_nothing_else_is_found_wrong(checked: list[str]) -> None:
    first_wrong = 1 + PROGRAM.count("\n")
    found = [m for line in checked if (m := re.search(r":(\d+): error", line))]

    assert [m.string for m in found if int(m[1]) < first_wrong] == []


def _revealed(line: str) -> re.Match[str] | None:
    return re.search(r'Revealed type is "(.*)"', line)
