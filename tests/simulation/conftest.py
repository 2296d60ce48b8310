"""What the tests of both simulations ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from tests.simulation.run import find_bug

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.jobs_world import JobWorld
    from tests.simulation.mutations import Mutation
    from tests.simulation.run import Outcome
    from tests.simulation.world import World


class Search(Protocol):
    """Looks for a deliberate bug, of which a failure says `says`."""

    def __call__(
        self,
        world: World | JobWorld,
        mutation: Mutation,
        seeds: range,
        steps: int,
        *,
        says: str,
        is_blind: bool = False,
    ) -> Outcome: ...


@pytest.fixture
def search(record_property: Callable[[str, object], None]) -> Search:
    """Says at the end of the run which seed a mutation should name, if it names another."""

    def search(
        world: World | JobWorld,
        mutation: Mutation,
        seeds: range,
        steps: int,
        *,
        says: str,
        is_blind: bool = False,
    ) -> Outcome:
        outcome = find_bug(world, mutation, seeds, steps, says=says, is_blind=is_blind)
        if outcome.failed not in ([], [mutation.seed]) and says == mutation.found_by:
            record_property(
                "simulation",
                f"{mutation.name!r} was not found by seed {mutation.seed}, which cost time; "
                f"write seed {outcome.failed[0]} beside it",
            )
        return outcome

    return search
