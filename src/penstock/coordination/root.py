"""The root of a ZooKeeper that belongs to one user."""

from __future__ import annotations

from kazoo.security import CREATOR_ALL_ACL

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.sessions import new_session

_SESSION_S = 10.0


def own_root(address: str) -> None:
    """Let nobody but the user of the address make nodes. Again is harmless."""
    session = new_session(parse_zookeeper_address(address), _SESSION_S)
    try:
        session.start(timeout=_SESSION_S)
        session.set_acls("/", CREATOR_ALL_ACL)
    finally:
        session.stop()
        session.close()
