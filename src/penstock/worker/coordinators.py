"""Which coordinator brings the consumers of a group together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.manual import ManualCoordinator
from penstock.coordination.positions import StoredPositions
from penstock.coordination.redis import RedisCoordinator
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.client import AsyncPenstock
    from penstock.coordination.coordinator import Coordinator, Group, Positions
    from penstock.worker.consumers import Consumer


def coordinator_for(consumer: Consumer, client: AsyncPenstock) -> Coordinator:
    """A list of partitions needs none; else ZooKeeper, if the client was told of one; else the
    store itself.
    """
    keys, store = client.keys, client.store

    def positions(group: Group) -> Positions:
        return StoredPositions(store, keys, group, consumer.start)

    if consumer.partitions is not None:
        return ManualCoordinator(consumer.partitions, positions)
    if client.settings.zookeeper:
        return _zookeeper(client.settings.zookeeper, keys.namespace, positions)
    return RedisCoordinator(store, keys, positions)


def _zookeeper(
    address: str, namespace: str, positions: Callable[[Group], Positions]
) -> Coordinator:
    try:
        # Here, as its client is an extra that only those need who have a ZooKeeper.
        module = import_module("penstock.coordination.zookeeper")
    except ModuleNotFoundError:
        raise InvalidArgument(
            "a ZooKeeper is named, and its client is not installed; run "
            "pip install 'penstock-queue[zookeeper]'"
        ) from None
    coordinator: Coordinator = module.ZooKeeperCoordinator(
        parse_zookeeper_address(address), namespace, positions
    )
    return coordinator
