"""Ids of jobs: 63 bits, the time first, made by the program that sends a job.

The store keeps one as a number, which takes 8 to 10 bytes where it stands in lists; people see 13
characters that sort as the numbers do. Two clients may make the same one within a millisecond,
though hardly ever; the store then asks for another.
"""

from __future__ import annotations

from penstock.errors import InvalidArgument
from penstock.model.numbers import whole_number

_LENGTH = 13
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: nothing that looks like another
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LIMIT = 2**63
SENDER_DIGITS = 3
"""So many digits at the end of the number are the same in all ids that one process makes: how its
jobs end is told on one channel, and others hear little of it.
"""
SENDERS: int = 10**SENDER_DIGITS


def id_text(number: int) -> str:
    """An id as people see it."""
    pairs = _PAIRS
    return (
        _ALPHABET[number >> 60]
        + pairs[number >> 50 & 1023]
        + pairs[number >> 40 & 1023]
        + pairs[number >> 30 & 1023]
        + pairs[number >> 20 & 1023]
        + pairs[number >> 10 & 1023]
        + pairs[number & 1023]
    )


def stored_id(stored: bytes) -> str | None:
    """The same of what is stored, which may be no id."""
    number = whole_number(stored)
    return id_text(number) if number is not None and 0 <= number < _LIMIT else None


def shown_id(stored: bytes) -> str:
    """What is stored as an id, as people see it; as it is stored if it is none."""
    return stored_id(stored) or stored.decode(errors="backslashreplace")


def id_number(text: object) -> int:
    """An id as the store has it."""
    number = 0
    for character in text if isinstance(text, str) and len(text) == _LENGTH else "!":
        value = _VALUES.get(character)
        if value is None:
            raise InvalidArgument(
                f"{text!r} is not the id of a job; it has {_LENGTH} characters of "
                f"{_ALPHABET!r}, as `penstock job list` shows them"
            )
        number = number << 5 | value
    if number >= _LIMIT:
        raise InvalidArgument(f"{text!r} is not the id of a job; it is too large to be one")
    return number
