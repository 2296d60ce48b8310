"""The options of `format("penstock")`: what each kind of read and write takes.

Spark hands options over as strings with lower-case names. Here they are checked against the table
of their kind, so that a misspelt one is an error and never a default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Option:
    """One option, and how its text is understood."""

    name: str
    """with underscores; `batchId` and `batch_id` are the same option"""
    parse: Callable[[str], Any]
    """raises ValueError for what it does not take"""
    takes: str
    """what it takes, to end a sentence that begins with "give" """
    default: Any = None
    is_required: bool = False
    is_secret: bool = False
    """its value is not repeated in errors"""

    def read(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError:
            value = "not usable" if self.is_secret else repr(text)
            raise InvalidArgument(f"option {self.name!r} is {value}; give {self.takes}") from None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of read or write, chosen by the option that names its target."""

    action: str
    """what it does, as in "to read jobs" """
    target: Option
    options: tuple[Option, ...] = ()
    ignored: frozenset[str] = frozenset()
    """options of Spark itself that it hands on, in lower case and without underscores"""

    def names(self) -> list[str]:
        return [option.name for option in (self.target, *self.options, *EVERYWHERE)]


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked for, checked."""

    kind: Kind
    target: str
    values: dict[str, Any]
    """of every option of the kind, by its name"""
    url: str | None = field(default=None, repr=False)
    namespace: str | None = None


def text(value: str) -> str:
    """Any text but an empty one."""
    if not value:
        raise ValueError
    return value


EVERYWHERE = (
    Option("url", text, "the URL of a store, such as redis://host:6379/0", is_secret=True),
    Option("namespace", text, "the name of a namespace"),
)
"""What every kind takes."""


def parse_request(kinds: Iterable[Kind], given: Mapping[str, str]) -> Request:
    """Find the kind that is meant, and check all its options.

    Raises InvalidArgument if no target or several are given, for an option that the kind does not
    have, for one that is missing and for a value that it does not take.
    """
    texts = _by_plain_name(given)
    kind = _choose(tuple(kinds), texts)
    known = {_plain(option.name): option for option in (kind.target, *kind.options, *EVERYWHERE)}
    for name in texts.keys() - kind.ignored:
        if name not in known:
            raise InvalidArgument(
                f"there is no option {name!r} {kind.action}; there are {', '.join(kind.names())}"
            )
    values = {}
    for name, option in known.items():
        if name in texts:
            values[option.name] = option.read(texts[name])
        elif option.is_required:
            raise InvalidArgument(
                f"option {option.name!r} is missing, which is needed {kind.action}; give "
                f"{option.takes}"
            )
        else:
            values[option.name] = option.default
    target, url, namespace = (values.pop(name) for name in (kind.target.name, "url", "namespace"))
    return Request(kind, target, values, url, namespace)


def _choose(kinds: tuple[Kind, ...], texts: Mapping[str, str]) -> Kind:
    targets = ", ".join(kind.target.name for kind in kinds)
    if "path" in texts:
        raise InvalidArgument(
            "format('penstock') has no paths; call load() and save() without one, and name a "
            f"queue by one of the options {targets}"
        )
    chosen = [kind for kind in kinds if _plain(kind.target.name) in texts]
    if len(chosen) != 1:
        what = " and ".join(kind.target.name for kind in chosen) or "none"
        raise InvalidArgument(f"give exactly one of the options {targets}; {what} was given")
    return chosen[0]


def _by_plain_name(given: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in given.items():
        if _plain(name) in texts:
            raise InvalidArgument(f"option {name!r} is given twice; give it once")
        texts[_plain(name)] = value
    return texts


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
