"""What an error reply means, or none at all: which pass by themselves, and what is said of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.connection.wire import ConnectionLost, NotSent, ReplyError
from penstock.errors import ProtocolError, StoreError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from penstock.connection.address import Address
    from penstock.connection.settings import PrivateServer

_PRIMARY = "give the URL of the primary, or a redis+sentinel:// URL that finds it"
_PASSING = {
    "LOADING": "it still loads its data; wait until it has",
    "BUSY": "a script runs there for too long; wait for it, or end it with SCRIPT KILL",
    "MASTERDOWN": f"it is a replica and has lost its primary; {_PRIMARY}",
    "CLUSTERDOWN": "a part of the cluster has no primary; look at CLUSTER NODES and mend it",
    "TRYAGAIN": "the cluster moves these keys to another node; wait until it has",
    "READONLY": f"it is a replica; {_PRIMARY}",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write asks for; bring them back",
    "MISCONF": "it cannot write to its disk; look for a full disk, and in the log of the server",
    "ERR max number of clients reached": "end clients that are not needed, or raise maxclients",
}
"""The server answers but does nothing now; the same request may go through a moment later."""
# Before Redis 7 an error inside a script comes wrapped in one about the script.
_IN_SCRIPT = re.compile(r"ERR Error running script [^@]*@user_script:\d+: (@user_script: \d+: -)?")


def is_passing(error: Exception) -> bool:
    return _reason(error).startswith(tuple(_PASSING))


def store_error(error: Exception, address: Address) -> StoreError:
    """An error reply as one of ours."""
    text = _reason(error)
    kind = text.partition(" ")[0]
    if kind == "OOM":
        return StoreFull(
            f"the store at {address} is out of memory (maxmemory), so it accepts no new tasks; "
            "let workers catch up, delete what is not needed, or raise maxmemory"
        )
    if kind in ("NOAUTH", "WRONGPASS") or text.startswith(("ERR AUTH", "ERR Client sent AUTH")):
        return StoreError(
            f"the store at {address} refuses the login ({text}); check user and password in the URL"
        )
    if kind == "DENIED":
        return StoreError(
            f"the store at {address} takes no clients from other machines, as it has no password "
            "(protected mode); set one (requirepass or ACL SETUSER) and put it into the URL"
        )
    if kind == "NOPERM":
        return StoreError(
            f"the store at {address} denies a command to this user ({text}); "
            "grant it, or scripts could stop half way; `penstock acl` prints the rules of a role"
        )
    if kind == "WRONGTYPE":
        return StoreError(
            f"a key of penstock at {address} holds a value of another type ({text}); "
            "nothing was changed; `penstock fsck` names the key"
        )
    if "hash value is not an integer" in text:
        return StoreError(
            f"a figure of penstock at {address} is not a number ({text}); `penstock fsck` names it"
        )
    return StoreError(f"the store at {address} answered {text!r}")


def unavailable(
    address: Address,
    waited_s: float,
    last: Exception,
    is_unanswered: bool,
    server: PrivateServer | None = None,
) -> StoreUnavailable:
    """What is said when there is no more time to wait. `last` is what came of the last try;
    `is_unanswered` says that some try was sent and not answered.
    """
    within = f"{waited_s:.0f} s"
    advice = "check that the server runs and can be reached"
    if server is not None:
        advice = f"start the private server with `{server.start_command}`"
    no_effect = "nothing was changed"
    if isinstance(last, NotSent):
        happened = f"the store at {address} could not be reached in {within} ({last})"
        no_effect = "the request was not sent"
    elif isinstance(last, ConnectionLost):
        happened = f"the store at {address} gave no answer in {within} ({last})"
    else:
        text = _reason(last)
        happened = f"the store at {address} answered {text!r}, and no better within {within}"
        advice = next((_PASSING[kind] for kind in _PASSING if text.startswith(kind)), advice)
    effect = "whether the last request took effect is unknown" if is_unanswered else no_effect
    if is_unanswered and not _is_unanswered(last):
        effect = f"an earlier try was not answered, so {effect}"
    error = StoreUnavailable(f"{happened}; {effect}; {advice}")
    error.may_have_taken_effect = is_unanswered
    return error


def _is_unanswered(error: Exception) -> bool:
    return isinstance(error, ConnectionLost) and not isinstance(error, NotSent)


def expect_ok(replies: list[Any], address: Address) -> None:
    """Check what the server says to a greeting."""
    for reply in replies:
        if isinstance(reply, ReplyError):
            if is_passing(reply):
                raise NotSent(str(reply))
            raise store_error(reply, address)
        if reply != b"OK":
            raise ProtocolError(f"the store at {address} greeted with {reply!r} instead of OK")


def _reason(error: Exception) -> str:
    return _IN_SCRIPT.sub("", str(error), count=1)
