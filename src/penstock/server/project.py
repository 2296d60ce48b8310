"""Which project a program belongs to: the default namespace on the private server, which all
projects of a user share.
"""

from __future__ import annotations

import hashlib
import os
import re
import site
import sys
import sysconfig
from pathlib import Path

from penstock.errors import InvalidName

_MARKERS = ("pyproject.toml", ".git", ".hg")
_MAX_LETTERS = 40
PROJECT_VARIABLE = "PENSTOCK_PROJECT"
"""The root, as a program tells it to processes that it starts by other means than its own."""


def project_namespace() -> str:
    """The name of the project's folder, and what tells it from others of that name."""
    root = project_root()
    name = re.sub(r"[^\w.-]+", "-", root.name).strip("-")[:_MAX_LETTERS] or "root"
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:8]
    return f"{name}-{digest}"


def project_root() -> Path:
    """The nearest folder above the program with a pyproject.toml or a repository, else the
    program's own folder.
    """
    told = os.environ.get(PROJECT_VARIABLE)
    if told:
        return Path(told)
    folder = _program_folder()
    for candidate in (folder, *folder.parents):
        # Not Path.exists, which raises where we may not look.
        if any(os.path.exists(candidate / marker) for marker in _MARKERS):  # noqa: PTH110
            return candidate
    return folder


def _program_folder() -> Path:
    """Where the user's script is. What has none, as a notebook, and what was installed, such as
    `penstock`, pytest or a web server, works on the folder that it runs in; so does `python -m`,
    which finds modules there.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is not None and getattr(main, "__spec__", None) is None:
        script = Path(file).resolve()
        if not _is_installed(script):
            return script.parent
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise InvalidName(
            "the folder that this program runs in is gone, so its project is not known; run it "
            "elsewhere, or set PENSTOCK_NAMESPACE"
        ) from None


def _is_installed(script: Path) -> bool:
    """Whether a program belongs to an environment of Python, not to the user's project."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("scripts", "purelib", "platlib", "stdlib")]
    folders += [os.path.dirname(sys.executable), os.path.join(site.getuserbase(), "bin")]  # noqa: PTH118, PTH120
    return any(script.is_relative_to(Path(folder).resolve()) for folder in folders)
