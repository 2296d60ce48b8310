"""What may be a name, and how names become parts of keys."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from penstock.errors import InvalidName

MAX_NAME_BYTES = 255
_WORKER_NAME = re.compile(r"[A-Za-z0-9_.~-]{1,255}")
_MAX_SHOWN = 100


def shown(value: object) -> str:
    """What was given, as part of a message. Never raises, and never says much."""
    try:
        text = repr(value)
    except Exception:  # a number of more digits than Python writes, or a class of the application
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def check_name(kind: str, name: str) -> str:
    """Return `name` if it can name a namespace or queue (`kind` says which, for the message).

    Any text up to 255 bytes of UTF-8 is accepted, punctuation and spaces included; control
    characters are not, because names are printed in logs and terminals.
    """
    if not isinstance(name, str):
        raise InvalidName(f"a {kind} name is text, not {type(name).__name__}; pass a str")
    if not name:
        raise InvalidName(f"a {kind} name is empty; give it at least one character")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(
            f"{kind} name {name!r} is not valid Unicode text (it holds a lone surrogate); choose "
            "another name"
        ) from None
    if size > MAX_NAME_BYTES:
        raise InvalidName(
            f"{kind} name {name[:20]!r}... is {size} bytes long; {MAX_NAME_BYTES} is the limit"
        )
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidName(f"{kind} name {name!r} holds a control character; leave it out")
    return name


def check_worker_name(name: str) -> str:
    """Return `name` if it can name a worker: letters, digits and `_ . ~ -`, 255 at most."""
    if not _WORKER_NAME.fullmatch(str(name)):
        raise InvalidName(
            f"worker name {name!r} cannot be used; use 1 to 255 letters, digits and the "
            "characters _ . ~ -"
        )
    return name


def key_part(name: str) -> str:
    """The name as a part of a key. Distinct names give distinct parts, none with a `:`, `{` or
    `}`.
    """
    return quote(name, safe="")
