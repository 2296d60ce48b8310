"""The commands that scripts may use, for each kind of queue."""

from __future__ import annotations

# Everything that Redis 6.2 has and that takes a time known beforehand.
# fmt: off
PERMITTED = {
    "tasks": {
        "DEL", "UNLINK", "EXISTS", "GET", "SET", "TIME", "TYPE", "PTTL", "PEXPIRE", "PERSIST",
        "LLEN", "LINDEX", "LPUSH", "RPUSH", "LPOP", "RPOP", "LRANGE", "LREM", "LPOS",
        "HGET", "HMGET", "HSET", "HDEL", "HLEN", "HEXISTS", "HINCRBY", "HSCAN",
        "SADD", "SREM", "SPOP", "SCARD", "SISMEMBER",
        "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANGEBYLEX",
        "PUBLISH", "PUBSUB",
    },
    "jobs": {
        "DEL", "UNLINK", "EXISTS", "GET", "SET", "TIME",
        "LLEN", "LINDEX", "LPUSH", "RPUSH", "LPOP", "LRANGE", "LTRIM", "LPOS", "LSET",
        "HGET", "HMGET", "HSET", "HDEL", "HLEN", "HEXISTS", "HINCRBY", "HSCAN", "HRANDFIELD",
        "SADD", "SREM", "SPOP", "SCARD", "SISMEMBER", "SRANDMEMBER",
        "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE",
        "XADD", "XLEN", "XINFO",
        "PUBLISH", "PUBSUB",
    },
    "logs": {
        "DEL", "UNLINK", "GET", "SET", "TIME",
        "LLEN", "LINDEX", "LPOP", "RPUSH",
        "HGET", "HMGET", "HSET", "HDEL", "HLEN",
        "SADD", "SREM", "SCARD", "SISMEMBER", "PEXPIRE", "PERSIST",
        "ZADD", "ZREM", "ZCARD", "ZRANGEBYSCORE",
        "XADD", "XLEN", "XDEL",
        "PUBLISH",
    },
}
# These read or remove all of something, so it must be bounded. For tasks, by script: tasks held by
# a worker (MAX_HELD), queues of a worker, workers of a queue, settings of a queue, or what was
# counted before. For jobs: jobs held by a worker (MAX_HELD), jobs of a page (512), schedules and
# types of a queue, workers, or a count that is given.
BOUNDED_BY_SCRIPT: dict[str, dict[str, set[tuple[str, str]]]] = {
    "tasks": {
        "find_processes": {("HGETALL", "running")},
        "leave_queue": {("HKEYS", "running")},
        "start_tasks": {("HVALS", "running")},
        "finish_tasks": {("HVALS", "running")},
        "fail_worker": {("SMEMBERS", "work")},
        "list_work": {("SMEMBERS", "KEYS[1]")},
        "list_paused_workers": {("SMEMBERS", "KEYS[1]")},
        "inspect_queue": {("SMEMBERS", "members")},
        "mend_unique_key": {("SMEMBERS", "members"), ("HVALS", "KEYS[index]")},
        "read_queue": {
            ("SMEMBERS", "members"), ("SMEMBERS", "idle"),
            ("HGETALL", "failures"), ("HGETALL", "unique"), ("HGETALL", "KEYS[index]"),
        },
    },
    "jobs": {},
    "logs": {},
}
BOUNDED: dict[str, set[tuple[str, str]]] = {
    "tasks": set(),
    "jobs": {
        ("HGETALL", "running"), ("HKEYS", "running"),
        ("SMEMBERS", "keys['page:'] .. page .. ':' .. listing"),
        ("HKEYS", "keys.schedules"),
        ("SMEMBERS", "keys.unhandled_types"),
        ("HGETALL", "keys.types"),
        ("ZREMRANGEBYSCORE", "keys.alarms"),
        ("SMEMBERS", "keys.paused_types"),
        ("XRANGE", "keys.history"), ("XREVRANGE", "keys.history"), ("XTRIM", "keys.history"),
        ("HGETALL", "keys.marks"),
        # For checks and repairs alone.
        ("SMEMBERS", "keys.members"), ("SMEMBERS", "keys.idle"),
        # By whom the last plain jobs were sent and reported, when no job is counted any more.
        ("HGETALL", "meta"),
    },
    "logs": {
        # Groups of a log and readers of a partition (100), what is known of a partition, messages
        # of a segment (128), and what is trimmed by segments, of which 20 go at once.
        ("HGETALL", "groups"), ("HKEYS", "groups"), ("HGETALL", "offsets"), ("HGETALL", "state"),
        ("XRANGE", "messages"), ("XREVRANGE", "messages"), ("XTRIM", "messages"),
        ("XRANGE", "errors"),
        # Stages of batches on their way, of which each writer has one.
        ("HKEYS", "prepared"),
        # Members of a group (1000) and partitions (1024).
        ("HGETALL", "members"), ("HGETALL", "owners"), ("HGETALL", "group_owners"),
    },
}
# fmt: on
