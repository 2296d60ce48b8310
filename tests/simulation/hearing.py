"""Wake-ups that are heard, in a simulation in which nobody is connected.

Where nobody listens, every worker that waits is woken by anything that comes in. With this, as on a
server with subscribers, only as many are woken as there is work for, so that a wake-up can be lost
on a worker that has no use for it. Which worker that is does not depend on chance, as a replay must
be one.
"""

from __future__ import annotations

LISTENERS = "penstock:simulated_listeners"
"""set: workers that are alive"""

_CHANGES = {
    "  return redis.call('PUBLISH', channel, message)\n": (
        "  local worker = string.match(channel, ':wake:(.+)$')\n"
        "  worker = worker or string.match(channel, ':hand:(.+)$')\n"
        f"  return worker and redis.call('SISMEMBER', '{LISTENERS}', worker) or 0\n"
    ),
    "  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0\n": (
        "  local worker = string.match(channel, ':hand:(.+)$')\n"
        f"  return redis.call('SISMEMBER', '{LISTENERS}', worker) == 1\n"
    ),
    "    local worker = lib.name_of(redis.call('SPOP', idle))\n": (
        "    local all = redis.call('SORT', idle, 'ALPHA')\n"
        "    local worker = all[redis.call('DBSIZE') % #all + 1]\n"
        "    redis.call('SREM', idle, worker)\n"
        "    worker = lib.name_of(worker)\n"
    ),
    "call('SRANDMEMBER', keys.idle)": "call('SORT', keys.idle, 'ALPHA')[1]",
    "redis.call('SRANDMEMBER', keys.idle, 50)": "redis.call('SORT', keys.idle, 'ALPHA')",
    "redis.call('SRANDMEMBER', keys.unhandled_types, 16)": (
        "redis.call('SORT', keys.unhandled_types, 'ALPHA')"
    ),
}


def with_hearing(text: str) -> str:
    """The script, with listeners that are names in a set."""
    for old, new in _CHANGES.items():
        text = text.replace(old, new)
    return text
