"""Plays the log on a private Redis and a private ensemble of ZooKeeper."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.demo.clicks.stage import Stage
from penstock.demo.clicks.story import tell_story
from penstock.errors import ServerNotFound
from penstock.server.embedded import EmbeddedServer
from penstock.server.ensemble import Ensemble

if TYPE_CHECKING:
    from penstock.demo.clicks.outcome import Outcome
    from penstock.demo.clicks.view import View
    from penstock.demo.interruption import Interruption

_SESSION_S = 2.0, 10.0
"""the shortest that a busy machine keeps, and the longest that the ensemble allows"""


def play(interruption: Interruption, lease_ms: int, view: View) -> Outcome:
    """Everything that was started is ended, also when this is interrupted.

    Raises ServerNotFound or JavaNotFound if there is no ZooKeeper to start.
    """
    _check_client()
    session_s = min(max(lease_ms / 1000, _SESSION_S[0]), _SESSION_S[1])
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name:
        folder = Path(name)
        server, ensemble = EmbeddedServer(folder / "redis"), Ensemble(folder / "zookeeper")
        try:
            with view:
                with interruption.put_off():
                    ensemble.launch()
                url = server.start().url
                ensemble.wait()
                view.tell(f"three servers of ZooKeeper started; server {ensemble.leader} leads")
                stage = Stage(url, ensemble, session_s, folder, view)
                try:
                    with interruption.put_off():
                        stage.start_workers()
                    return tell_story(stage)
                finally:
                    with interruption.put_off():
                        stage.close()
        finally:
            with interruption.put_off():
                ensemble.kill()
                server.stop()


def _check_client() -> None:
    if find_spec("kazoo") is None:
        raise ServerNotFound(
            "the workers of this act need kazoo, the client of ZooKeeper, which is not installed; "
            "run pip install 'penstock-queue[zookeeper]'"
        )
