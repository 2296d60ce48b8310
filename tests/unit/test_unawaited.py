"""Properties of the async client: their value is awaited, and a forgotten `await` is found."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
from fastapi.encoders import jsonable_encoder

from penstock.client._async.job import AsyncJob
from penstock.client._sync.job import Job
from penstock.client.unawaited import awaited_property

if TYPE_CHECKING:
    from collections.abc import Callable


class AsyncLamp:
    """Has such a property, and counts how often it is read."""

    reads = 0

    @awaited_property
    async def state(self) -> str:
        """Whether it is on."""
        self.reads += 1
        return "on"


async def gathered(lamp: AsyncLamp) -> list[str]:
    return list(await asyncio.gather(lamp.state, lamp.state))


async def waited(lamp: AsyncLamp) -> str:
    return await asyncio.wait_for(lamp.state, 30)


async def as_completed(lamp: AsyncLamp) -> list[str]:
    return [await each for each in asyncio.as_completed([lamp.state, lamp.state])]


def test_an_awaited_property_gives_its_value_each_time() -> None:
    async def read() -> tuple[str, str]:
        value = lamp.state
        return await value, await value

    lamp = AsyncLamp()

    assert asyncio.run(read()) == ("on", "on")
    assert lamp.reads == 2


def test_what_asyncio_offers_for_awaitables_takes_it() -> None:
    assert asyncio.run(gathered(AsyncLamp())) == ["on", "on"]
    assert asyncio.run(waited(AsyncLamp())) == "on"
    assert asyncio.run(as_completed(AsyncLamp())) == ["on", "on"]


USES: dict[str, Callable[[Any], object]] = {
    "==": lambda it: it == "on",
    "== from the right": lambda it: "on" == it,  # noqa: SIM300
    "!=": lambda it: it != "on",
    "<": lambda it: it < "on",
    "in a tuple": lambda it: it in ("on", "off"),
    "in a set": lambda it: it in {"on", "off"},
    "key of a dict": {"on": 1}.get,
    "bool": bool,
    "not": lambda it: not it,
    "str": str,
    "f-string": lambda it: f"{it}",
    "%": lambda it: "%s" % it,  # noqa: UP031
    "list": list,
    "len": len,
    "index": lambda it: it[0],
    "contains": lambda it: "o" in it,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_value_that_was_not_awaited_cannot_be_used(use: Callable[[Any], object]) -> None:
    lamp = AsyncLamp()

    with pytest.raises(TypeError, match=r"^lamp.state has not been awaited; write `await lamp.st"):
        use(lamp.state)

    assert lamp.reads == 0


def test_a_part_of_a_value_that_was_not_awaited_is_not_there() -> None:
    unawaited: Any = AsyncLamp().state

    with pytest.raises(AttributeError, match=r"write `\(await lamp.state\).percent`"):
        _ = unawaited.percent


def test_nothing_writes_it_as_an_empty_object() -> None:
    unawaited = AsyncLamp().state

    with pytest.raises(TypeError, match="Unawaited is not JSON serializable"):
        json.dumps({"state": unawaited})
    with pytest.raises(ValueError, match="has not been awaited; write `await lamp"):
        jsonable_encoder({"state": unawaited})
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(str).validate_python(unawaited)
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(dict[str, Any]).validate_python(unawaited)
    with pytest.raises(ValueError, match="Unawaited"):
        pydantic.TypeAdapter(Any).dump_json(unawaited)


def test_it_can_be_looked_at_and_left_alone() -> None:
    assert repr(AsyncLamp().state).endswith(", not awaited>")
    assert vars(AsyncLamp)["state"].__doc__ == "Whether it is on."
    gc.collect()  # a coroutine that was never awaited would warn here


@pytest.mark.parametrize("name", ["state", "progress"])
def test_both_clients_have_the_same_properties(name: str) -> None:
    assert isinstance(vars(Job)[name], property)
    assert isinstance(vars(AsyncJob)[name], awaited_property)
    assert vars(Job)[name].__doc__ == vars(AsyncJob)[name].__doc__
