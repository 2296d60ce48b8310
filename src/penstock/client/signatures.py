"""How a job function is called: which arguments it takes, and how they and its result are read."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.codec.rich_values import Read, arrives, read, reader_of, resolved
from penstock.codec.values import is_raw_result, open_call, open_result, pack_call
from penstock.errors import InvalidArgument, Unserialisable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Arguments = tuple["Sequence[Any]", dict[str, Any]]


class Signature:
    """What is known of a function from its head. Nothing of it is looked at before it is needed, as
    annotations may name classes that come further down in the module.
    """

    def __init__(self, function: Callable[..., Any], type: str, takes_bytes: bool) -> None:
        self._function = function
        self._type = type
        self._takes_bytes = takes_bytes
        """its data are bytes as they are, and no call"""

    def __str__(self) -> str:
        return f"{self._function.__qualname__}{inspect.signature(self._function)}"

    @cached_property
    def accepts(self) -> Callable[..., None]:
        """Takes the same arguments, and does nothing: so Python itself says what is wrong with a
        call, at almost no cost. To bind them to the signature would take as long as sending a job.
        """
        try:
            parameters = inspect.signature(self._function).parameters.values()
        except ValueError:  # as of some that are written in C
            return lambda *_, **__: None
        accepts: Callable[..., None] = eval(f"lambda {_written(parameters)}: None")
        accepts.__qualname__ = self._function.__qualname__
        return accepts

    def check_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Refuse arguments that it cannot take."""
        try:
            self.accepts(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(
                f"{error}; the job would fail whenever it is run, so call it as {self}"
            ) from None

    def check_data(self, data: bytes) -> None:
        """Refuse data of a job that it cannot take."""
        self.check_call(*self.open(data))

    def pack(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        """The data of a job that makes this call."""
        if self._takes_bytes:
            return self._pack_bytes(args, kwargs)
        self.check_call(args, kwargs)
        data, is_rich = pack_call(f"the arguments of {self._type!r}", args, kwargs)
        if is_rich:
            self._check_arrival((args, kwargs), self.open(data))
        return data

    def open(self, data: bytes) -> Arguments:
        """The arguments of the call in `data`, as the annotations of the parameters say.

        Raises Unserialisable if the data is no call, or not of these arguments.
        """
        if self._takes_bytes:
            return [data], {}
        args, kwargs = open_call(data)
        if not self._readers:
            return args, kwargs
        named = zip(self._names(len(args)), args, strict=True)
        return (
            [self._read(name, value) for name, value in named],
            {name: self._read(name, value) for name, value in kwargs.items()},
        )

    @cached_property
    def open_result(self) -> Callable[[bytes], Any]:
        """Reads a result as the annotation of the function says."""
        reader = reader_of(self._annotation(self._annotations.get("return")))
        if reader is None:
            return open_result
        what = f"the result of {self._type!r}"

        def read_result(outcome: bytes) -> Any:
            value = open_result(outcome)
            return value if is_raw_result(outcome) else read(reader, what, value)

        return read_result

    def _pack_bytes(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        if kwargs or len(args) != 1 or not isinstance(args[0], bytes):
            raise InvalidArgument(
                f"job {self._type!r} takes its data as bytes (raw=True), so it is sent with one "
                f"argument that is bytes, as in {self._function.__name__}.send(b'...')"
            )
        return args[0]

    def _check_arrival(self, given: Arguments, received: Arguments) -> None:
        pairs = zip(self._names(len(given[0])), given[0], received[0], strict=True)
        named = ((name, value, received[1][name]) for name, value in given[1].items())
        for name, value, read_back in (*pairs, *named):
            if not arrives(value, read_back):
                raise Unserialisable(
                    f"argument {name!r} of {self._type!r} has a {type(value).__name__}, and would "
                    f"arrive as {type(read_back).__name__}, because no annotation says what it is; "
                    f"annotate {name!r} with its type, or send what JSON can say"
                )

    def _names(self, count: int) -> list[str]:
        """Of the parameters that take so many positional arguments."""
        names = self._positional[:count]
        return names + [self._rest] * (count - len(names))

    def _read(self, name: str, value: Any) -> Any:
        reader = self._readers.get(name if name in self._parameters else self._named_rest)
        if reader is None:
            return value
        return read(reader, f"argument {name!r} of {self._type!r}", value)

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        try:
            return inspect.signature(self._function).parameters
        except ValueError:
            return {}

    @cached_property
    def _positional(self) -> list[str]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [it.name for it in self._parameters.values() if it.kind in kinds]

    @cached_property
    def _rest(self) -> str:
        """The parameter that takes further positional arguments."""
        return self._first(inspect.Parameter.VAR_POSITIONAL)

    @cached_property
    def _named_rest(self) -> str:
        """The parameter that takes further named arguments."""
        return self._first(inspect.Parameter.VAR_KEYWORD)

    def _first(self, kind: object) -> str:
        return next((it.name for it in self._parameters.values() if it.kind is kind), "")

    @cached_property
    def _readers(self) -> dict[str, Read]:
        annotations = {name: self._annotation(of) for name, of in self._annotations.items()}
        readers = {name: reader_of(of) for name, of in annotations.items() if name != "return"}
        return {name: reader for name, reader in readers.items() if reader is not None}

    @cached_property
    def _annotations(self) -> Mapping[str, Any]:
        return getattr(inspect.unwrap(self._function), "__annotations__", {})

    def _annotation(self, annotation: Any) -> Any:
        names = getattr(inspect.unwrap(self._function), "__globals__", {})
        return resolved(annotation, names)


def _written(parameters: Iterable[inspect.Parameter]) -> str:
    """Parameters as in the head of a function, without annotations, and None for all defaults."""
    parts: list[str] = []
    before = None
    for it in parameters:
        if before is it.POSITIONAL_ONLY and it.kind is not it.POSITIONAL_ONLY:
            parts.append("/")
        if it.kind is it.KEYWORD_ONLY and before not in (it.KEYWORD_ONLY, it.VAR_POSITIONAL):
            parts.append("*")
        stars = "*" * ((it.kind is it.VAR_POSITIONAL) + 2 * (it.kind is it.VAR_KEYWORD))
        parts.append(stars + it.name + ("" if it.default is it.empty else "=None"))
        before = it.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return ", ".join(parts)
