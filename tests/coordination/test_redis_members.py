"""Members of a group that Redis alone coordinates, when copies of their requests arrive late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import penstock
from penstock.coordination.coordinator import Group
from penstock.coordination.redis import RedisCoordinator
from penstock.store.commands import log_members
from tests.coordination.members import SESSION_S, SETTLE_S, MemoryPositions, run, until

if TYPE_CHECKING:
    from tests.servers import RedisServer


def test_a_member_that_a_late_copy_of_its_join_brought_back_knows_that_it_was_gone(
    server: RedisServer, namespace: str
) -> None:
    """Else it would go on with its partition, which is another member's by then."""

    async def work() -> None:
        async with await penstock.aconnect(server.url, namespace=namespace) as client:
            await client.log("clicks", partitions=1).append(b"first")
            positions = MemoryPositions()
            coordinator = RedisCoordinator(
                client.store,
                client.keys,
                lambda group: positions,
                lease_s=SESSION_S,
                settle_s=SETTLE_S,
            )
            ant = await coordinator.join(Group("clicks", "g", 1), "ant")
            await until(lambda: ant.assigned == {0})
            assert await ant.claim(0) is not None
            keys, store = client.keys.queue("clicks"), client.store

            # Between two of its beats it is a member no more, and again, and its partition is
            # another's.
            join = log_members.keep_member(keys, "g", "ant", 10_000, 1, 1, joins=True)
            await store.run(log_members.disown_partitions(keys, "g", "ant"))
            await store.run(join)
            bee = log_members.keep_member(keys, "g", "bee", 10_000, 1, 1, joins=True)
            await store.run(bee)
            await store.run(log_members.own_partition(keys, "g", "bee", 0))

            await until(lambda: ant.lease.is_lost)
            await ant.leave()

    run(work())
