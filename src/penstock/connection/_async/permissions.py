"""Finds out what a user of Redis may not do, before it is tried half way through a script."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from penstock.connection.known_users import WITHOUT_LACK
from penstock.store.permissions import Permissions, Probe

if TYPE_CHECKING:
    from penstock.connection._async.store import AsyncStore
    from penstock.store.keys import NamespaceKeys


async def find_permissions(
    store: AsyncStore, keys: NamespaceKeys, version: tuple[int, int]
) -> Permissions | None:
    """What is denied to the user of this store; None if nothing is. A process asks once, in one
    round trip, unless something is denied.

    On a cluster one node is asked, as users are the same on all. Before Redis 7 it is not seen
    whether SUBSCRIBE is denied; if so, the first that listens is told.
    """
    known = (store.address, keys.namespace)
    if known in WITHOUT_LACK:
        return None
    probe = Probe(keys, f"penstock-probe-{secrets.token_hex(4)}", store.dialect)
    denied = await store.call(probe.key, *probe.request(can_check=version >= (7, 0)))
    if not denied:
        WITHOUT_LACK.add(known)
        return None
    user = store.address.username or "default"
    names = frozenset(name.decode() for name in denied)
    return Permissions(user, names, keys, store.dialect)
