"""Folders that only their owner can enter, and where in them the server's socket goes."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from pathlib import Path

import platformdirs

from penstock.errors import ServerFailed

log = logging.getLogger("penstock.server")

# The lowest limit among the systems we run on: macOS has 104 bytes, the final zero included.
_SOCKET_PATH_BYTES = 103


def data_folder(data: Path | None) -> Path:
    """Where private servers keep their data: in `data`, else in `PENSTOCK_DATA`, else in the user's
    data folder.
    """
    chosen = data or os.environ.get("PENSTOCK_DATA") or platformdirs.user_data_dir("penstock")
    # Resolved, so that every spelling of one folder leads to one socket.
    return Path(chosen).expanduser().resolve()


def socket_path(data: Path) -> Path:
    """Where the server of this data folder listens; the same for every process of the user."""
    inside = data / "redis.sock"
    if len(os.fsencode(inside)) <= _SOCKET_PATH_BYTES:
        return inside
    # /tmp by name: TMPDIR and XDG_RUNTIME_DIR differ between a login, a cron job and a service of
    # one user, who must all find the same server, and the latter is emptied at logout while the
    # server lives on.
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return Path("/tmp") / f"penstock-{os.getuid()}-{digest}" / "redis.sock"


def make_private(folder: Path) -> None:
    """Make sure that `folder` exists and that only this user can enter it. One that was open to
    others is closed, which is told, as it may be meant for something else.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            folder.chmod(0o700)
            log.warning(
                "closed a folder to other users, as the private server keeps its data there "
                "folder='%s' mode=%04o before=%04o",
                *(folder, 0o700, mode),
            )
    except OSError as error:
        raise ServerFailed(
            f"cannot use the folder '{folder}': {error.strerror}; "
            "choose another data folder (PENSTOCK_DATA) or make this one writable"
        ) from error


def check_private(folder: Path) -> None:
    """Refuse a folder through which others could read our data or answer in our server's place.

    A missing folder passes, and so does an empty one with loose permissions: there is nothing to
    protect yet.
    """
    try:
        facts = folder.lstat()
        mode = stat.S_IMODE(facts.st_mode)
        if not stat.S_ISDIR(facts.st_mode):
            problem = "is a symbolic link or a file, not a folder; remove it"
        elif facts.st_uid != os.getuid():
            problem = f"belongs to uid {facts.st_uid}, not to uid {os.getuid()}; remove it"
        elif mode & 0o077 and any(folder.iterdir()):
            problem = f"is open to other users (mode {mode:04o}); run `chmod 700 '{folder}'`"
        else:
            return
    except FileNotFoundError:
        return
    except OSError as error:
        problem = f"cannot be read ({error.strerror}); make it readable"
    raise ServerFailed(f"'{folder}' {problem} or choose another data folder (PENSTOCK_DATA)")
