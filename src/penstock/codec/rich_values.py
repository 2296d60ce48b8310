"""Values that JSON has no word for: how they are written, and how annotations bring them back.

JSON stays the stored form, so that any language can send a job and any tool can read it. A date is
text there, a dataclass an object. What type it was is not stored: the annotation of the parameter,
or of the result, says it.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Union
from uuid import UUID

from penstock.errors import Unserialisable

Read = Callable[[Any], Any]
"""Makes a value of what JSON says; raises ValueError or TypeError if it cannot be one."""


def plain(value: object) -> object:
    """What stands for a value in JSON, one level deep. Raises TypeError if nothing does."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value) if it.init}
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def arrives(given: object, received: object) -> bool:
    """Whether every value that JSON has no word for has come back as what it was."""
    if isinstance(given, dict):
        return isinstance(received, dict) and all(
            arrives(value, received.get(key)) for key, value in given.items()
        )
    if isinstance(given, list | tuple):
        return isinstance(received, list | tuple) and all(map(arrives, given, received))
    is_plain = given is None or isinstance(given, str | int | float)
    return is_plain or type(received) is type(given)


def reader_of(annotation: Any) -> Read | None:
    """How to read a value of this type; None if JSON says it as it is."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return reader_of(arguments[0])
    if origin in (Union, types.UnionType):
        return _reader_of_union(arguments)
    if origin is not None:
        return _reader_of_container(origin, arguments)
    if not isinstance(annotation, type):
        return None
    if annotation in _READERS:
        return _READERS[annotation]
    if issubclass(annotation, Enum):
        return annotation
    if dataclasses.is_dataclass(annotation):
        return partial(_read_dataclass, annotation)
    if _is_pydantic(annotation):
        return annotation.model_validate  # type: ignore[attr-defined, no-any-return]
    return None


def read(reader: Read, what: str, value: Any) -> Any:
    """Read one argument or result. None stays None, as many annotations leave that out."""
    if value is None:
        return None
    try:
        return reader(value)
    except (ValueError, TypeError, KeyError, InvalidOperation) as error:
        raise Unserialisable(
            f"{what} is {_shortened(value)}, which cannot be read as its annotation says: {error}; "
            "send what the annotation says, or change it"
        ) from error


def resolved(annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation that is kept as text, as what it stands for in its module; Any if that has no
    such name, as of imports for type checkers alone.
    """
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(names))
    except Exception:
        return Any


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes are written as base64, and {error}") from None


def _read_decimal(text: str | int | float) -> Decimal:
    return Decimal(str(text))


def _read_duration(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


_READERS: dict[type, Read] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: _read_duration,
    UUID: UUID,
    Decimal: _read_decimal,
    bytes: _read_bytes,
}


def _reader_of_union(members: Sequence[Any]) -> Read | None:
    readers = [(member, reader_of(member)) for member in members if member is not types.NoneType]
    if not any(reader for _, reader in readers):
        return None
    as_it_is = tuple(
        typing.get_origin(member) or member
        for member, reader in readers
        if reader is None and isinstance(typing.get_origin(member) or member, type)
    )

    def read_member(value: Any) -> Any:
        # Text that may be meant as text is left alone: `str | date` is no date.
        if value is None or isinstance(value, as_it_is):
            return value
        problems = []
        for _, reader in readers:
            if reader is not None:
                try:
                    return reader(value)
                except (ValueError, TypeError, KeyError, InvalidOperation) as error:
                    problems.append(str(error))
        raise ValueError("; ".join(problems))

    return read_member


def _reader_of_container(origin: Any, arguments: tuple[Any, ...]) -> Read | None:
    if not isinstance(origin, type):
        return None
    if issubclass(origin, Mapping):
        reader = reader_of(arguments[-1])
        return reader and partial(_read_mapping, reader)
    if issubclass(origin, tuple):
        if arguments[-1:] == (Ellipsis,):
            reader = reader_of(arguments[0])
            return reader and partial(_read_items, tuple, reader)
        readers = [reader_of(argument) for argument in arguments]
        return partial(_read_tuple, readers) if any(readers) else None
    if issubclass(origin, Sequence):
        reader = reader_of(arguments[0])
        return reader and partial(_read_items, list, reader)
    return None


def _read_mapping(reader: Read, value: dict[str, Any]) -> dict[str, Any]:
    return {key: None if it is None else reader(it) for key, it in _object(value).items()}


def _read_items(made: Callable[[Any], Any], reader: Read, value: list[Any]) -> Any:
    return made([None if it is None else reader(it) for it in _list(value)])


def _read_tuple(readers: list[Read | None], value: list[Any]) -> tuple[Any, ...]:
    pairs = zip(readers, _list(value), strict=True)
    return tuple(it if reader is None or it is None else reader(it) for reader, it in pairs)


def _read_dataclass(made: Any, value: dict[str, Any]) -> Any:
    readers = _readers_of_fields(made)
    return made(
        **{
            name: readers[name](it) if name in readers and it is not None else it
            for name, it in _object(value).items()
        }
    )


@cache
def _readers_of_fields(made: Any) -> dict[str, Read]:
    """Made when they are first needed, as a class may hold others of its own kind."""
    names = {**vars(sys.modules[made.__module__]), made.__name__: made}
    types_of = {it.name: resolved(it.type, names) for it in dataclasses.fields(made)}
    return {name: reader for name, type in types_of.items() if (reader := reader_of(type))}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {type(value).__name__}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {type(value).__name__}")
    return value


def _is_pydantic(kind: type) -> bool:
    return hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
