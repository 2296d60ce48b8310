"""What the tests of both simulations ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.run import find_bug

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.mutations import Mutation
    from tests.simulation.run import AnyWorld, Outcome


class Search:
    """Looks for deliberate bugs, and has it said at the end of the run which seed a mutation should
    name, if it names another.
    """

    def __init__(self, record_property: Callable[[str, object], None]) -> None:
        self._record = record_property

    def __call__(
        self,
        world: AnyWorld,
        mutation: Mutation,
        seeds: range,
        steps: int,
        *,
        says: str,
        is_blind: bool = False,
    ) -> Outcome:
        """Look for a bug, of which a failure says `says`."""
        outcome = find_bug(world, mutation, seeds, steps, says=says, is_blind=is_blind)
        if outcome.failed not in ([], [mutation.seed]) and says == mutation.found_by:
            self._record(
                "simulation",
                f"{mutation.name!r} was not found by seed {mutation.seed}, which cost time; "
                f"write seed {outcome.failed[0]} beside it",
            )
        return outcome


@pytest.fixture
def search(record_property: Callable[[str, object], None]) -> Search:
    return Search(record_property)
