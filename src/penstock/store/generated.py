"""Fragments that are written from the Python side, so that a fact stands in one place."""

from __future__ import annotations

from functools import cache

from penstock.model.jobs import LAYOUT, MOVES, STATE_CODES


@cache
def model_fragment() -> str:
    """What the model says of jobs: the layout, the code of each state, and the allowed moves, for
    scripts that ask before they move.
    """
    states = (f"lib.{state.upper()} = '{code}'\n" for state, code in STATE_CODES.items())
    pairs = (
        f"{STATE_CODES[old]}{STATE_CODES[new]} = true"
        for old, allowed in MOVES.items()
        for new in allowed
    )
    return (
        f"lib.LAYOUT = {LAYOUT}\n"
        f"{''.join(states)}"
        f"lib.MOVES = {{{', '.join(pairs)}}}\n"
        "function lib.may_move(old, new) return lib.MOVES[old .. new] ~= nil end\n"
    )


GENERATED = {"model": model_fragment}
"""Name of a fragment -> what writes it."""
