"""The options that every command shares, and what becomes of errors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypedDict

import click

from penstock.cli.render import counted, print_json, say_error
from penstock.client.client import Penstock
from penstock.client.connect import find_settings, find_url, private_settings, read_url
from penstock.connection.address import SEEN_PASSWORD, shows_password
from penstock.errors import PenstockError
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click import Context, Parameter

    from penstock.connection.settings import Settings

P = ParamSpec("P")


class Seconds(click.FloatRange):
    """A number of seconds that can be waited for: what is no number is in no range."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return number


# People at a terminal want an error soon; workers are more patient.
_PATIENCE_S = 5.0


class _Waits(TypedDict):
    retry_for_s: float | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Target:
    """Which store and namespace a command is about, and whether it prints JSON."""

    url: str | None
    namespace: str | None
    data: Path | None
    is_json: bool

    @contextmanager
    def connected(self) -> Iterator[Penstock]:
        with Penstock(self.settings(_PATIENCE_S)) as client:
            yield client.open()

    def place(self) -> str:
        """The URL of the store, for other processes; a private server is started for it."""
        if self.data is not None and self.url is None:
            return EmbeddedServer(self.data).start().url
        return find_url(self.url)

    def settings(self, retry_for_s: float | None = 30.0, timeout_s: float = 5.0) -> Settings:
        waits: _Waits = {"retry_for_s": retry_for_s, "timeout_s": timeout_s}
        if self.url is None and self.data is not None:
            return private_settings(self.namespace, self.data, **waits)
        return find_settings(self.url, self.namespace, **waits)

    def named_url(self) -> str | None:
        """The store that was asked for, which goes before PENSTOCK_URL; None if none was."""
        if self.url is None and self.data is not None:
            return EmbeddedServer(self.data).start().url
        return self.url


OWN_PROCESS = "own process"


def has_own_process() -> bool:
    """Whether the command line was started as a program, not called from one."""
    return click.get_current_context().find_root().obj is OWN_PROCESS


def with_store(function: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """Give a command `--url`, `--namespace`, `--data` and `--json`, as one Target."""

    @click.option(
        "--url",
        metavar="URL",
        help="The store, as redis://host:6379/0. Default: PENSTOCK_URL, else a private Redis.",
    )
    @click.option(
        "--url-file",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file with the URL, for one with a password. Default: PENSTOCK_URL_FILE.",
    )
    @click.option(
        "--namespace",
        metavar="NAME",
        help="Default: PENSTOCK_NAMESPACE, else 'penstock'; on the private Redis, the project.",
    )
    @data_option
    @json_option
    @wraps(function)
    def command(
        url: str | None,
        url_file: Path | None,
        namespace: str | None,
        data: Path | None,
        is_json: bool,
        **rest: Any,
    ) -> None:
        stores = {"--url": url, "--url-file": url_file, "--data": data}
        given = [option for option, value in stores.items() if value is not None]
        if len(given) > 1:
            raise click.UsageError(
                f"{given[0]} and {given[1]} name two different stores; give one of them."
            )
        with errors_reported(is_json):
            if url is not None and shows_password(url):
                say_error(SEEN_PASSWORD)
            if url_file is not None:
                url = read_url(url_file, "--url-file")
            function(Target(url, namespace, data, is_json), **rest)  # type: ignore[call-arg]

    return command


data_option = click.option(
    "--data",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the private Redis. Default: PENSTOCK_DATA, else your data folder.",
)

json_option = click.option(
    "--json",
    "is_json",
    is_flag=True,
    help='Print JSON. Bytes appear as text if they are UTF-8, else as {"base64": ...}.',
)


@contextmanager
def errors_reported(is_json: bool) -> Iterator[None]:
    """Errors of penstock become one line on stderr, or a JSON document on stdout, and status 1;
    Ctrl-C is status 130 and says nothing.
    """
    try:
        yield
    except PenstockError as error:
        report_error(error, is_json)
        raise click.exceptions.Exit(1) from error
    except (KeyboardInterrupt, click.Abort) as error:
        # A question that met the end of its input raises Abort just as Ctrl-C does.
        causes = (error, error.__context__)
        is_interrupt = any(isinstance(cause, KeyboardInterrupt) for cause in causes)
        if not is_interrupt:
            say_error("not confirmed, so nothing was done")
        raise click.exceptions.Exit(130 if is_interrupt else 1) from error


def parse_instant(text: str) -> datetime:
    """A time in ISO 8601, with a time zone: workers may run on other clocks than this machine."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time such as 2030-01-31T08:00+01:00."
        ) from None
    if given.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} has no time zone; write {given.isoformat()}Z if it is in UTC, else end it "
            "with the offset from UTC, such as +01:00."
        )
    return given


def examples(*lines: str) -> str:
    """The end of a help text."""
    title = "Example" if len(lines) == 1 else "Examples"
    return f"\b\n{title}:\n" + "\n".join(f"  {line}" for line in lines)


def report_error(error: PenstockError, is_json: bool) -> None:
    """One line on stderr, or a JSON document on stdout."""
    message = str(error)
    accepted: int = getattr(error, "accepted", 0)
    if is_json:
        more = {"accepted": accepted} if accepted else {}
        print_json({"error": {"code": error.code, "message": message, **more}})
        return
    if accepted:
        message += f" (the first {counted(accepted, 'task')} went in)"
    say_error(message)
