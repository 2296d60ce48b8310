"""How long a failed job waits before it runs again, and when it does not run again at all."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from penstock.errors import InvalidArgument, PenstockError, ProtocolError
from penstock.model.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DURATION_MS = 366 * 24 * 3600 * 1000
"""The longest wait or interval that can be given: 366 days."""

_STORED = re.compile(
    r"(?P<fixed>fixed):(\d{1,11})"
    r"|(?P<exponential>exponential):(\d{1,11}):(\d{1,11}):(\d{1,3})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after each failure. Build one with `fixed` or `exponential`."""

    kind: Literal["fixed", "exponential", "named"]
    delay_ms: int = 0
    """the wait of every failure (fixed), or of the first one (exponential)"""
    cap_ms: int = 0
    """exponential: no wait is longer than this"""
    jitter: float = 0.0
    """exponential: the share of each wait, 0 to 1, that is left to chance; kept to the percent"""
    name: str = ""
    """named: what the worker registered the strategy as"""

    def __post_init__(self) -> None:
        if self.kind == "named":
            check_name("backoff", self.name)
        elif self.kind not in ("fixed", "exponential"):
            raise InvalidArgument(
                f"a backoff is 'fixed', 'exponential' or 'named', not {self.kind!r}"
            )
        for field in ("delay_ms", "cap_ms"):
            given = getattr(self, field)
            if type(given) is not int or not 0 <= given <= MAX_DURATION_MS:
                raise InvalidArgument(
                    f"the {field} of a backoff is {given!r}; give whole milliseconds from 0 to "
                    f"{MAX_DURATION_MS} (366 days)"
                )
        if self.kind == "exponential" and self.delay_ms > self.cap_ms:
            raise InvalidArgument(
                f"an exponential backoff that begins at {self.delay_ms} ms cannot be capped at "
                f"{self.cap_ms} ms; raise cap_s, or use penstock.fixed(...)"
            )
        _check_jitter(self.jitter)


def fixed(delay_s: float | timedelta) -> Backoff:
    """Wait the same time after each failure."""
    return Backoff("fixed", duration_ms("the delay of a backoff", delay_s))


def exponential(
    base_s: float | timedelta = 1.0, cap_s: float | timedelta = 3600.0, jitter: float = 0.5
) -> Backoff:
    """Wait `base_s` after the first failure and twice as long after each further one, up to
    `cap_s`; chance takes off up to the share `jitter`, so that jobs that failed together do not
    return together.
    """
    delay_ms = duration_ms("the base of a backoff", base_s)
    cap_ms = duration_ms("the cap of a backoff", cap_s)
    # Jitter is stored in percent; what is stored equals what was given.
    return Backoff("exponential", delay_ms, cap_ms, round(_check_jitter(jitter), 2))


def named(name: str) -> Backoff:
    """Wait as the strategy says that the worker registered under this name."""
    return Backoff("named", name=name)


def parse_backoff(given: str | float | timedelta | Backoff | None) -> Backoff:
    """What a user may write for a backoff; None is the default, `exponential()`."""
    if given is None or given == "exponential":
        return exponential()
    if isinstance(given, Backoff):
        return given
    if not isinstance(given, str):
        return fixed(given)
    if given == "fixed":
        return fixed(1.0)
    if given == "none":
        return fixed(0)
    prefix, _, rest = given.partition(":")
    if prefix == "named" and rest:
        return named(rest)
    numbers = _numbers(rest) if prefix == "exponential" else []
    if not 1 <= len(numbers) <= 3:
        raise InvalidArgument(
            f"backoff {given!r} is not known; give 'exponential', 'fixed', 'none', "
            "'exponential:BASE:CAP:JITTER', 'named:<name>' or a number of seconds; in Python also "
            "a timedelta, penstock.fixed(...) or penstock.exponential(...)"
        )
    return exponential(*numbers)


def _numbers(text: str) -> list[float]:
    """The numbers of a text that has colons between them; empty if a part is no number."""
    try:
        return [float(part) for part in text.split(":")]
    except ValueError:
        return []


def write_backoff(backoff: Backoff) -> str | float:
    """How a user may write it, in text and numbers alone; `parse_backoff` reads it as the same."""
    if backoff.kind == "named":
        return f"named:{backoff.name}"
    if backoff.kind == "fixed":
        return backoff.delay_ms / 1000
    return f"exponential:{backoff.delay_ms / 1000}:{backoff.cap_ms / 1000}:{backoff.jitter}"


def delay_ms(backoff: Backoff, failures: int, random: Callable[[], float] = random.random) -> int:
    """The wait after failure number `failures`, counted from 1.

    A named backoff has no wait of its own: the caller looks the strategy up first.
    """
    if failures < 1:
        raise InvalidArgument(f"failure number {failures} has no delay; failures count from 1")
    if backoff.kind == "named":
        raise InvalidArgument(
            f"backoff 'named:{backoff.name}' has no delay of its own; look up the strategy "
            "registered under this name and ask that"
        )
    if backoff.kind == "fixed":
        return backoff.delay_ms
    # Any base above zero has passed the longest possible cap after 35 doublings.
    delay = min(backoff.cap_ms, backoff.delay_ms << min(failures - 1, 35))
    return delay - int(delay * backoff.jitter * random())


def encode_backoff(backoff: Backoff) -> str:
    """The backoff as stored with a job: `fixed:5000`, `exponential:1000:3600000:50` (milliseconds,
    and the jitter in percent) or `named:foo`.
    """
    if backoff.kind == "named":
        return f"named:{backoff.name}"
    if backoff.kind == "fixed":
        return f"fixed:{backoff.delay_ms}"
    return f"exponential:{backoff.delay_ms}:{backoff.cap_ms}:{round(backoff.jitter * 100)}"


def decode_backoff(text: str) -> Backoff:
    """The backoff that was stored; '' stands for the default."""
    if not text:
        return exponential()
    try:
        if text.startswith("named:"):
            return named(text.removeprefix("named:"))
        match = _STORED.fullmatch(text)
        if match and match["fixed"]:
            return Backoff("fixed", int(match[2]))
        if match:
            return Backoff("exponential", int(match[4]), int(match[5]), int(match[6]) / 100)
    except PenstockError as error:
        raise ProtocolError(f"the stored backoff {text!r} makes no sense: {error}") from error
    raise ProtocolError(
        f"the stored backoff {text!r} cannot be read; if a newer penstock wrote it, upgrade this "
        "one, else enqueue the job again"
    )


class Retry(Exception):
    """Raised by a job: run this job again after `after` (seconds or a timedelta), instead of when
    its backoff says; None leaves it to the backoff.

    It counts as an attempt. If none is left the job is dead, and without `attempts=...` it has one.
    """

    after_ms: int | None = None
    reason = ""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        # The arguments as given, because that is what pickle calls the class with.
        super().__init__(after, reason)
        self.after_ms = None if after is None else duration_ms("the delay of a Retry", after)
        self.reason = _check_reason(reason)

    def __str__(self) -> str:
        return self.reason or "the job asked for another attempt"


class Reject(Exception):
    """Raised by a job: never run this job again; it is dead, also if it has attempts left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = _check_reason(reason)

    def __str__(self) -> str:
        return self.reason or "the job is not to be tried again"


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Which errors of a handler are worth another attempt."""

    retry_on: tuple[type[BaseException], ...] = ()
    """only these; empty for all"""
    dead_on: tuple[type[BaseException], ...] = ()
    """never these, even if `retry_on` covers them"""

    def __post_init__(self) -> None:
        for field in ("retry_on", "dead_on"):
            given = getattr(self, field)
            if not isinstance(given, tuple) or not all(map(_is_exception_class, given)):
                raise InvalidArgument(
                    f"{field} is {given!r}; give a tuple of exception classes, such as "
                    "(ConnectionError,)"
                )

    def is_final(self, error: BaseException) -> bool:
        """Whether the job is dead after this error, even if it has attempts left."""
        if isinstance(error, Retry):
            return False
        if isinstance(error, (Reject, *self.dead_on)):
            return True
        return bool(self.retry_on) and not isinstance(error, self.retry_on)


def duration_ms(what: str, given: float | timedelta, at_least_s: int = 0) -> int:
    """`given`, in seconds or as a timedelta, in whole milliseconds; `what` is for the message."""
    if isinstance(given, bool) or not isinstance(given, (int, float, timedelta)):
        raise InvalidArgument(
            f"{what} is {given!r}; give a number of seconds or a timedelta, not a "
            f"{type(given).__name__}"
        )
    try:
        seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    except OverflowError:  # an int beyond any float
        seconds = math.inf
    if not at_least_s * 1000 <= seconds * 1000 <= MAX_DURATION_MS:
        raise InvalidArgument(
            f"{what} is {seconds:g} s; give {at_least_s} to {MAX_DURATION_MS // 1000} seconds "
            "(366 days)"
        )
    return round(seconds * 1000)


def _check_jitter(jitter: object) -> float:
    if not isinstance(jitter, (int, float)) or not 0 <= jitter <= 1:
        raise InvalidArgument(
            f"jitter is {jitter!r}; give the share of the delay that is random, from 0 (none) to "
            "1 (all)"
        )
    return float(jitter)


def _check_reason(reason: str) -> str:
    if not isinstance(reason, str):
        raise InvalidArgument(
            f"a reason is text, not {type(reason).__name__}; pass a str, such as str(error)"
        )
    return reason


def _is_exception_class(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)
