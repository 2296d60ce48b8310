"""A call that its function cannot take is refused before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.signatures import Signature
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(a: int, b: int = 2) -> None: ...
def only_positional(a: int, /, b: int = 1) -> None: ...
def all_positional(a: int, b: int = 1, /) -> None: ...
def only_named(a: int, *, b: int, c: int = 3) -> None: ...
def anything(a: int, *rest: int, b: int = 1, **named: int) -> None: ...
def nothing() -> None: ...
async def on_a_loop(a: int) -> None: ...


CALLS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((), {"a": 1}),
    ((1,), {"a": 1}),
    ((1,), {"b": 2}),
    ((1,), {"c": 3}),
    ((1, 2), {"b": 2}),
    ((1,), {"b": 2, "c": 3}),
    ((), {"a": 1, "b": 2, "d": 4}),
]
FUNCTIONS = [plain, only_positional, all_positional, only_named, anything, nothing, on_a_loop]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_it_accepts_what_the_function_does(
    function: Callable[..., Any], args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    accepts = penstock.job(function).signature.accepts
    try:
        called = function(*args, **kwargs)
        if called is not None:
            called.close()
    except TypeError as error:
        with pytest.raises(TypeError) as refused:
            accepts(*args, **kwargs)
        assert str(refused.value) == str(error)
    else:
        accepts(*args, **kwargs)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ((), r"^plain\(\) missing 1 required positional argument: 'a'; .* call it as plain\(a: "),
        ((1, 2, 3), r"^plain\(\) takes from 1 to 2 positional arguments but 3 were given; "),
        ({"a": 1, "width": 3}, r"^plain\(\) got an unexpected keyword argument 'width'; "),
        ({"a": 1, 2: 3}, r"keywords must be strings"),
    ],
)
def test_nothing_is_sent_of_a_call_that_would_fail(call: Any, reason: str) -> None:
    sending = penstock.job(plain)._sending

    with pytest.raises(InvalidArgument, match=reason):
        sending._call(call)


def test_a_function_that_does_not_tell_what_it_takes_takes_anything() -> None:
    written_in_c = Signature(max, "max", takes_bytes=False)

    written_in_c.accepts(1, 2, 3, four=4)
