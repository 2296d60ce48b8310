"""What a command carries, by name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.store.command import Command
    from penstock.store.script import Parameter, Script


class Arguments(dict[str, Any]):
    """The keys and arguments of a command, by the names that the script's header gives them."""

    def __init__(self, command: Command[Any]) -> None:
        super().__init__()
        keys, arguments = _parameters(command.script)
        for parameters, values in ((keys, command.keys), (arguments, command.arguments)):
            for index, parameter in enumerate(parameters):
                rest = values[index:]
                self[parameter.name] = list(rest) if parameter.is_repeated else rest[0]


@cache
def _parameters(script: Script) -> tuple[list[Parameter], list[Parameter]]:
    return script.keys, script.arguments
