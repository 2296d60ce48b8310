"""Sessions with ZooKeeper through kazoo, for event loops."""

from __future__ import annotations

import asyncio
import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.address import ZooKeeperAddress

# Its lines are about sockets; what matters is said by penstock.
_quiet = logging.getLogger("penstock.zookeeper.kazoo")
_quiet.setLevel(logging.CRITICAL)


def new_session(address: ZooKeeperAddress, session_s: float) -> KazooClient:
    """A session that is not begun yet. It reconnects for ever.

    Its nodes belong to the user of the address; without one, to everybody. Raises InvalidArgument
    if what SASL needs is not installed.
    """
    options: dict[str, Any] = {}
    if address.username and address.uses_sasl:
        if find_spec("puresasl") is None:  # kazoo would say so to nobody
            raise InvalidArgument(
                "the ZooKeeper address has auth=sasl, which needs pure-sasl; "
                "run pip install 'penstock-queue[zookeeper]'"
            )
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": address.username,
            "password": address.password,
        }
    elif address.username:
        options["auth_data"] = [("digest", f"{address.username}:{address.password}")]
    if address.username:
        options["default_acl"] = CREATOR_ALL_ACL
    if address.uses_tls:
        files = {"ca": address.ca, "certfile": address.cert, "keyfile": address.key}
        options |= {"use_ssl": True, "verify_certs": True, "check_hostname": True, **files}
    return KazooClient(
        hosts=f"{address.servers}{address.folder}",
        timeout=session_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
        logger=_quiet,
        **options,
    )


async def call(request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Send one of kazoo's `…_async` requests and wait for its answer without blocking.

    Raises what kazoo says of it, also when the session is closed in the meantime.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def answered(result: Any) -> None:
        # In a thread of kazoo, which must not wait for anything.
        try:
            loop.call_soon_threadsafe(_settle, answer, result)
        except RuntimeError:
            return  # the loop has ended meanwhile

    request(*arguments, **options).rawlink(answered)
    return await answer


async def transact(session: KazooClient, *operations: tuple[Any, ...]) -> list[Any]:
    """All operations or none, each as a method of kazoo's transaction with its arguments.

    Raises the error of the operation that could not be done.
    """
    transaction = session.transaction()
    for name, *arguments in operations:
        getattr(transaction, name)(*arguments)
    results: list[Any] = await call(transaction.commit_async)
    failures = [r for r in results if isinstance(r, KazooException)]
    # The others were not tried, or undone, which kazoo tells as errors too.
    told = [
        f for f in failures if type(f).__name__ not in ("RolledBackError", "RuntimeInconsistency")
    ]
    if failures:
        raise (told or failures)[0]
    return results


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.successful():
        answer.set_result(result.value)
    else:
        answer.set_exception(result.exception)
