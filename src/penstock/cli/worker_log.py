"""How the log of `penstock worker run` is written. Only this command sets up logging; as a library,
penstock leaves it alone.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

FC = TypeVar("FC", bound="Callable[..., Any]")

LEVELS = ("debug", "info", "warning", "error")
_TEXT = "%(asctime)s %(levelname)s %(message)s"
_VALUE = re.compile(r"(?:(\w+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?([a-zA-Z]))")
_PLAIN = (str, int, float, bool, type(None))


def log_options(command: FC) -> FC:
    """`--log-level` and `--log-format`."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS, case_sensitive=False),
        help="info (the default) has a line for each job, warning only what goes wrong.",
    )
    format_ = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="json: an object in each line, as with --json.  [default: text]",
    )
    return level(format_(command))


class WorkerLog:
    """Writes to stderr, unless the module of the user sets up logging itself."""

    def __init__(self, level: str | None, format_: Literal["text", "json"]) -> None:
        self._level = level
        self._handler = logging.StreamHandler()
        self._handler.setFormatter(JsonLines() if format_ == "json" else logging.Formatter(_TEXT))
        self._ours = logging.getLogger("penstock")

    def begin(self) -> None:
        """Before the module is imported: for penstock alone, so that the module finds the root
        logger as Python has made it.
        """
        self._ours.addHandler(self._handler)
        self._ours.setLevel((self._level or "info").upper())

    def settle(self) -> None:
        """After the module was imported. If it has set up logging, that is all there is; only a
        level that was asked for still counts.
        """
        root = logging.getLogger()
        self._ours.removeHandler(self._handler)
        if not root.handlers and not self._ours.handlers:
            root.addHandler(self._handler)
            root.setLevel((self._level or "info").upper())
            self._ours.setLevel(logging.NOTSET)
        elif self._level is None:
            self._ours.setLevel(logging.NOTSET)

    def end(self) -> None:
        """Leave logging as it was found, for a program that goes on."""
        for logger in (self._ours, logging.getLogger()):
            logger.removeHandler(self._handler)


class JsonLines(logging.Formatter):
    """Each line is an object. What a message has as `name=value` is there by name, too."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**fields_of(record), **line}, default=repr)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The values of a message that have names: `worker started id=%s` has one, `id`."""
    values = record.args
    found = [match for match in _VALUE.finditer(record.msg) if match[2]]
    if not isinstance(values, tuple) or len(values) != len(found):
        return {}
    named = zip((match[1] for match in found), values, strict=True)
    return {
        name: value if isinstance(value, _PLAIN) else str(value) for name, value in named if name
    }
