"""Data and results of jobs: JSON, or any bytes as they are. Dates, dataclasses and other values
that JSON has no word for are written as `rich_values.py` says.

A call is kept as `[positional]` or `[positional, named]`; an object stands for named arguments
alone, so that a producer in another language need not know more than the names of the parameters;
no data is a call without arguments.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from penstock.codec.failures import describe
from penstock.codec.rich_values import plain
from penstock.errors import Unserialisable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_JSON, _RAW = b"j", b"r"


def _encoding() -> Callable[[object, int], Iterable[str]]:
    """What turns data into pieces of JSON; the number is 0. The library makes an encoder anew for
    each value, which takes longer than to encode a small one; where it has one written in C, that
    is made once.
    """
    encoder = json.JSONEncoder(
        allow_nan=False, separators=(",", ":"), ensure_ascii=False, check_circular=False
    )
    made: Any = getattr(json.encoder, "c_make_encoder", None)
    if made is None:
        return lambda data, _: [encoder.encode(data)]
    to_text: Any = json.encoder.encode_basestring
    return made(None, encoder.default, to_text, None, ":", ",", False, False, False)  # type: ignore[no-any-return]


_encode = _encoding()
_rich_encoder = json.JSONEncoder(
    allow_nan=False,
    separators=(",", ":"),
    ensure_ascii=False,
    check_circular=False,
    default=plain,
)
_decoder = json.JSONDecoder()
_scan: Any = _decoder.scan_once  # type: ignore[attr-defined]
_SPACE = " \t\n\r"


def _decode(text: str) -> Any:
    """What JSON says. The library first looks for white space around it, by regular expressions;
    here that is left to the few texts that have some.
    """
    try:
        value, end = _scan(text, 0)
        if end == len(text) or not text[end:].strip(_SPACE):
            return value
    except StopIteration:
        pass  # no value begins here
    return _decoder.decode(text)


_WORD = re.compile(r"\w+", re.UNICODE)
_INDEX = re.compile(r"[0-9]{1,9}")
_MAX_WORD = 32


def pack_data(what: str, data: object) -> bytes:
    """Data of a job: bytes as they are, anything else as JSON."""
    if type(data) is bytes:
        return data
    return _written(what, data)[0]


def _written(what: str, data: object) -> tuple[bytes, bool]:
    """JSON, and whether it stands for values that it has no word for."""
    try:
        return "".join(_encode(data, 0)).encode(), False
    except Exception:  # most values need no other encoder, and this one is the fastest
        pass
    try:
        return _rich_encoder.encode(data).encode(), True
    except Exception as error:  # classes of the application take part in it
        raise _refusal(what, error) from None


def _refusal(what: str, error: Exception) -> Unserialisable:
    is_endless = isinstance(error, RecursionError)
    reason = "it contains itself, or is nested too deeply" if is_endless else _said(error)
    return Unserialisable(
        f"{what} cannot be written as JSON: {reason}; give numbers (no nan or inf), text, "
        "lists, dicts, booleans, None, dates, UUIDs, Decimals, enums, dataclasses and pydantic "
        "models, or bytes that you have encoded yourself"
    )


def _said(error: Exception) -> str:
    if isinstance(error, TypeError | ValueError):
        return str(error)
    return f"{type(error).__name__} was raised: {describe(error).message}"


def pack_call(what: str, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[bytes, bool]:
    """A call, and whether JSON had no word for some of its arguments."""
    return _written(what, [args, kwargs] if kwargs else [args])


def open_call(data: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call. Raises Unserialisable if the data is none."""
    try:
        value = _decode(data.decode()) if data else {}
    except ValueError as error:
        raise Unserialisable(f"the data of the job is not JSON: {error}") from None
    if type(value) is dict or value is None:
        return [], value or {}
    if isinstance(value, list) and 1 <= len(value) <= 2 and isinstance(value[0], list):
        named = value[1] if len(value) == 2 else {}
        if isinstance(named, dict):
            return value[0], named
    raise Unserialisable(
        "the data of the job is no call; a call is an object of named arguments, or a list of "
        'positional arguments and named ones, as in [[1, 2], {"width": 3}]'
    )


def pack_result(value: object) -> bytes:
    """A result with a letter in front that says how it is written."""
    if value is None:
        return b""
    if type(value) is bytes:
        return _RAW + value
    return _JSON + _written("the result", value)[0]


def open_result(outcome: bytes) -> Any:
    if not outcome:
        return None
    return outcome[1:] if is_raw_result(outcome) else _decode(outcome[1:].decode())


def is_raw_result(outcome: bytes) -> bool:
    """Whether bytes were returned, and not a value that is written as JSON."""
    return outcome[:1] == _RAW


def words_of(data: object, search: tuple[str, ...] | bool, limit: int) -> tuple[str, ...]:
    """The words by which a job can be found: all of its data, or what stands under given paths
    (`customer.name`; `lines.0` is the first of a list). In a call a path begins with the name of
    an argument.
    """
    if search is False:
        return ()
    if isinstance(data, bytes):
        data = _loaded(data)
    places = (data, _named(data))
    roots = [data] if search is True else [_at(at, path) for path in search for at in places]
    words: dict[str, None] = {}
    pending = roots[::-1]
    while pending and len(words) < limit:
        value = pending.pop()
        if isinstance(value, dict):
            pending += list(value.values())[::-1]
        elif isinstance(value, list | tuple):
            pending += list(value)[::-1]
        elif value is not None:
            words.update(dict.fromkeys(split_words(str(value))))
    return tuple(words)[:limit]


def _loaded(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def split_words(text: str) -> list[str]:
    """Words as they are indexed and looked for."""
    return [word.casefold()[:_MAX_WORD] for word in _WORD.findall(text)]


def _named(data: object) -> object:
    """The named arguments of a call that is kept as a list; an object has them on top already."""
    match data:
        case [list() | tuple(), dict() as named]:
            return named
    return None


def _at(data: object, path: str) -> object:
    for name in path.split("."):
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list | tuple) and _INDEX.fullmatch(name) and int(name) < len(data):
            data = data[int(name)]
        else:
            return None
    return data
