"""A user's folder with an application in it, and the command line as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Shell:
    """Runs `penstock` in a folder of its own, on the store and in the namespace of a test."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = os.environ | environment
        self._started: list[subprocess.Popen[bytes]] = []

    def write(self, module: str, text: str) -> None:
        """Put a module into the folder, as the application of the user."""
        (self.folder / f"{module}.py").write_text(dedent(text))

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """A command, from its beginning to its end."""
        return self.python("-m", "penstock", *arguments, stdin=stdin)

    def python(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """A program of the user, from its beginning to its end."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=90,
        )

    def json(self, *arguments: str) -> Any:
        """What a command says to a program. It has to succeed."""
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command that goes on; what it writes is in `output`. Ended with the test."""
        with (self.folder / f"output-{len(self._started)}").open("wb") as output:
            process = subprocess.Popen(
                self._command(arguments),
                env=self.environment,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def output(self, process: subprocess.Popen[bytes]) -> str:
        """What it has written so far, on both streams."""
        name = f"output-{self._started.index(process)}"
        return (self.folder / name).read_text(errors="replace")

    def close(self) -> None:
        """End everything that was started, children included."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "penstock", *arguments]
