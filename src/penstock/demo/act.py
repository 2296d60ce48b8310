"""Plays the queue on a private Redis."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.demo.stage import Stage
from penstock.demo.story import tell_story
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from penstock.demo.interruption import Interruption
    from penstock.demo.outcome import Outcome
    from penstock.demo.view import View


def play(
    interruption: Interruption, tasks: int, workers: int, lease_ms: int, view: View
) -> Outcome:
    """Everything that was started is ended, also when this is interrupted."""
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name:
        folder = Path(name)
        server = EmbeddedServer(folder / "redis")
        try:
            with view:
                url = server.start().url
                stage = Stage(url, tasks, workers, lease_ms, folder, view)
                try:
                    with interruption.put_off():
                        stage.start_workers()
                    return tell_story(stage)
                finally:
                    with interruption.put_off():
                        stage.close()
        finally:
            with interruption.put_off():
                server.stop()
