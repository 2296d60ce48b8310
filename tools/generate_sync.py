"""Writes each `_sync/` folder from the `_async/` beside it; with --check, only compares them.

The async code is the one that people edit. What differs by nature (sockets, waiting) is in
`transport.py`, written by hand on both sides and left alone here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
PACKAGES = [SOURCE / "connection", SOURCE / "client"]
BY_HAND = {"__init__.py", "transport.py"}
NOTE = "# Generated from {source} by tools/generate_sync.py. Edit that file instead.\n\n"

SUBSTITUTIONS = [
    (r"# sync: (.*)", r"\1"),
    (r"from [\w.]+ import awaited_property\n", ""),
    (r"\bawaited_property\b", "property"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\banext\b", "next"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncGenerator\[([\w\[\]]+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bAwaitable\[([^\]]*)\]", r"\1"),
    (r"\bAwaitable, ", ""),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\basync_router\b", "router"),
    (r"\ba(pause|run_blocking|listen|in_queue|inspect_queue|move_batches)\b", r"\1"),
    (r"\ba(decided_attempt|finish_batches|list_prepared)\b", r"\1"),
    (r"\b_async\b", "_sync"),
]


def generate(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    for pattern, replacement in SUBSTITUTIONS:
        text = re.sub(pattern, replacement, text)
    text = NOTE.format(source=f"_async/{source.name}") + text
    ruff = [sys.executable, "-m", "ruff"]
    for command in ([*ruff, "check", "--fix-only", "--select", "I", "-q"], [*ruff, "format", "-q"]):
        run = subprocess.run(
            [*command, "--stdin-filename", str(target_of(source)), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = run.stdout
    return text


def target_of(source: Path) -> Path:
    return source.parent.parent / "_sync" / source.name


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    stale = []
    for source in sorted(path for package in PACKAGES for path in package.glob("_async/*.py")):
        if source.name in BY_HAND:
            continue
        target = target_of(source)
        text = generate(source)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(target.name)
            if not is_check:
                target.write_text(text, encoding="utf-8")
    if is_check and stale:
        sys.stderr.write(f"_sync is out of date ({', '.join(stale)}); run `make sync`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
