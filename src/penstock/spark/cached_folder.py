"""A small folder in the cache, made once: in one step, as other processes may do the same now."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def cached_folder(
    cache: Path, prefix: str, content: str, program: str, fill: Callable[[Path], None]
) -> Path:
    """The folder named by the prefix and a hash of its content, so that what is there already is
    right, also after an update. It is made again if it was emptied: `program` is a path in it that
    must be there.
    """
    home = cache / f"{prefix}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if (home / program).exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=cache, prefix=f".{prefix}-"))
    try:
        fill(made)
        made.chmod(0o755)
        try:
            made.rename(home)
        except OSError:
            if not (home / program).exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return home
