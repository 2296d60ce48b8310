# Generated from _async/permissions.py by tools/generate_sync.py. Edit that file instead.

"""Finds out what a user of Redis may not do, before it is tried half way through a script."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from penstock.connection._sync.transport import Listener
from penstock.connection.known_users import WITHOUT_LACK
from penstock.connection.wire import ConnectionLost, ReplyError, pack
from penstock.store.permissions import Permissions, Probe

if TYPE_CHECKING:
    from penstock.connection._sync.store import Store
    from penstock.store.keys import NamespaceKeys

_SILENCE_S = 5.0


def find_permissions(
    store: Store, keys: NamespaceKeys, version: tuple[int, int]
) -> Permissions | None:
    """What is denied to the user of this store; None if nothing is. A process asks once, in one
    round trip, unless something is denied.

    On a cluster one node is asked, as users are the same on all. Before Redis 7 no script can tell
    whether SUBSCRIBE is denied, so it is sent, on a connection of its own.
    """
    known = (store.address, keys.namespace)
    if known in WITHOUT_LACK:
        return None
    probe = Probe(keys, f"penstock-probe-{secrets.token_hex(4)}", store.dialect)
    can_check = version >= (7, 0)
    denied = store.call(probe.key, *probe.request(can_check))
    if not can_check and not _may_subscribe(store, probe):
        denied.append(probe.subscribe[0].encode())
    if not denied:
        WITHOUT_LACK.add(known)
        return None
    user = store.address.username or "default"
    names = frozenset(name.decode() for name in denied)
    return Permissions(user, names, keys, store.dialect)


def _may_subscribe(store: Store, probe: Probe) -> bool:
    listener = Listener(store.router.node_for(probe.key))
    try:
        listener.open()
        listener.send(pack(*probe.subscribe))
        answer = listener.receive(_SILENCE_S)
    except ConnectionLost:
        return True  # nothing was said; a subscription that is refused later says so itself
    finally:
        listener.close()
    return not (isinstance(answer, ReplyError) and str(answer).startswith("NOPERM"))
