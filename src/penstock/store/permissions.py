"""What a user of Redis must be allowed to do, by role: the commands of the scripts that the role
runs, read off their text, and what the connection sends itself. A worker runs all scripts.

A rule is about a command, not about a script, so roles are as far apart as the commands of their
scripts are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from penstock.errors import PermissionMissing
from penstock.store.script import STANDALONE, load, scripts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.store.keys import NamespaceKeys
    from penstock.store.script import Dialect, Script

Role = Literal["producer", "worker", "observer"]
ROLES: tuple[Role, ...] = ("producer", "worker", "observer")

# fmt: off
OPTION_WORDS = frozenset({
    "COUNT", "LIMIT", "MATCH", "MAXLEN", "MINID", "NUMPAT", "NUMSUB", "PX", "SHARDNUMSUB", "STREAM",
    "WITHSCORES", "XX",
})
"""What scripts write in capitals and is no command."""
READS = frozenset({
    "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HRANDFIELD", "HSCAN",
    "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE", "PTTL", "PUBSUB", "SCARD", "SISMEMBER", "SMEMBERS",
    "SRANDMEMBER", "TIME", "TYPE", "XINFO", "XLEN", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT",
    "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZSCORE",
})
"""Commands of scripts that change nothing and tell nobody."""
WRITES = frozenset({
    "DEL", "HDEL", "HINCRBY", "HSET", "LPOP", "LPUSH", "LREM", "LSET", "LTRIM", "PERSIST",
    "PEXPIRE", "RPOP", "RPUSH", "SADD", "SET", "SPOP", "SREM", "UNLINK", "XADD", "XDEL", "XTRIM",
    "ZADD", "ZREM", "ZREMRANGEBYSCORE",
})
"""The others, but for those that tell. Listed here, as to read them off all scripts takes half a
second, which no process should pay that may do everything; a test compares the lists.
"""
_PRODUCER_SCRIPTS = (
    "queues/register_queue", "queues/unregister_queue",
    "tasks/enqueue_tasks", "tasks/enqueue_unique_task", "tasks/cancel_tasks", "tasks/move_tasks",
    "jobs/send_jobs", "jobs/cancel_jobs", "jobs/change_job", "jobs/retry_jobs", "jobs/move_jobs",
    "jobs/put_schedule", "jobs/remove_schedule",
    "batches/stage_chunk", "batches/decide_batch", "batches/drop_stages",
    "logs/put_log", "logs/open_partition", "logs/append_messages",
)
_OF_CONNECTIONS = frozenset({"EVAL", "EVALSHA", "INFO", "PING"})
_OF_DOCTOR = ("select", "script|load")
"""What is allowed beside what is needed: a database other than 0, and `penstock doctor`."""
_OF_CLUSTERS = ("asking", "cluster|info", "cluster|slots")
_PUBLISH = {"channels": "PUBLISH", "sharded_channels": "SPUBLISH"}
_SUBSCRIBE = {"channels": "SUBSCRIBE", "sharded_channels": "SSUBSCRIBE"}

# How each is tried before Redis 7, behind its key, so that it changes nothing if that is absent.
_TRIES: dict[str, tuple[str, ...]] = {
    "HDEL": ("f",), "HEXISTS": ("f",), "HGET": ("f",), "HMGET": ("f",), "HSCAN": ("0",),
    "LINDEX": ("0",), "LPOS": ("e",), "LRANGE": ("0", "0"), "LREM": ("0", "e"),
    "LSET": ("0", "e"), "LTRIM": ("0", "0"), "PEXPIRE": ("1",), "SISMEMBER": ("m",), "SREM": ("m",),
    "XRANGE": ("-", "+"), "XREVRANGE": ("+", "-"), "XTRIM": ("MAXLEN", "0"), "ZCOUNT": ("0", "0"),
    "XDEL": ("1-1",),
    "ZRANGE": ("0", "0"), "ZRANGEBYLEX": ("-", "+"), "ZRANGEBYSCORE": ("0", "0"), "ZREM": ("m",),
    "ZREMRANGEBYSCORE": ("0", "0"), "ZREVRANGEBYSCORE": ("0", "0"), "ZSCORE": ("m",),
    # These are refused for what they are given.
    "HSET": ("f", "v", "f"), "HINCRBY": ("f", "x"), "SET": ("v", "PX", "0"),
    "XADD": ("0", "f", "v"), "ZADD": ("x", "m"),
}
_PUSHES: dict[str, tuple[str, ...]] = {"LPUSH": ("e",), "RPUSH": ("e",), "SADD": ("m",)}
"""The same for those that need a key of another type."""
_WITHOUT_KEYS = frozenset({"PUBSUB", "TIME"})
_NOT_IN_SCRIPTS = frozenset({"SUBSCRIBE", "SSUBSCRIBE"}) | _OF_CONNECTIONS
# fmt: on

_COMMENT = re.compile(r"--[^\n]*")
_CAPITALS = re.compile(r"'([A-Z]+)'")


@cache
def commands_of(script: Script, dialect: Dialect = STANDALONE) -> frozenset[str]:
    """The commands of Redis that a script uses. Commands are written in capitals, in quotes, also
    where a variable or a table has them.
    """
    code = _COMMENT.sub("", script.text(dialect))
    return frozenset(_CAPITALS.findall(code)) - OPTION_WORDS


@cache
def needed_by(role: Role, dialect: Dialect = STANDALONE) -> frozenset[str]:
    """Every command that a client in this role sends, and its scripts run."""
    own = _OF_CONNECTIONS | {_SUBSCRIBE[dialect.channels]}
    if role == "worker":
        return own | READS | WRITES | {_PUBLISH[dialect.channels]}
    used = [commands_of(script, dialect) for script in scripts()]
    used = [commands for commands in used if commands <= READS]
    if role == "producer":
        used += [commands_of(load(name), dialect) for name in _PRODUCER_SCRIPTS]
    return own.union(*used)


def acl_rules(role: Role, keys: NamespaceKeys, dialect: Dialect = STANDALONE) -> list[str]:
    """What a user of this role is given behind its name and password: nothing but this."""
    commands = [*needed_by(role, dialect), *_OF_DOCTOR]
    if dialect.channels == "sharded_channels":
        commands += _OF_CLUSTERS
    allowed = sorted({f"+{command.lower()}" for command in commands})
    return ["resetkeys", f"~{keys.pattern}", "resetchannels", f"&{keys.pattern}", "-@all", *allowed]


class Probe:
    """What asks a server which commands are denied to the user who asks."""

    def __init__(self, keys: NamespaceKeys, name: str, dialect: Dialect) -> None:
        """`name` is random, as what is tried is tried on a queue that nobody has."""
        queue = keys.queue(name)
        self.key = queue.named("memory", "probe")
        self._channel = queue.events
        self._dialect = dialect
        self.subscribe = (_SUBSCRIBE[dialect.channels], self._channel)
        """what tells before Redis 7 whether the user may listen"""

    def request(self, can_check: bool) -> Sequence[str]:
        """The command that asks; `can_check` says that the server is at least Redis 7. Its answer
        has names of denied commands.
        """
        needed = sorted(needed_by("worker", self._dialect))
        if can_check:
            text, asked = _text("check_commands"), json.dumps([self._form(one) for one in needed])
            return ("EVAL", text, "0", asked)
        tried = [one for one in needed if one not in _NOT_IN_SCRIPTS]
        pushes = [[one, self.key, *_PUSHES[one]] for one in tried if one in _PUSHES]
        others = [self._try(one) for one in tried if one not in _PUSHES]
        asked = json.dumps(others)
        return ("EVAL", _text("try_commands"), "0", asked, json.dumps(pushes), self.key)

    def _form(self, command: str) -> list[str]:
        """As much of it as tells its keys and channels."""
        forms: dict[str, list[str]] = {
            "PUBSUB": ["NUMSUB"],
            "XINFO": ["STREAM", self.key],
            "EVAL": ["", "0"],
            "EVALSHA": ["", "0"],
            **{name: [] for name in ("INFO", "PING", "TIME")},
            **{name: [self._channel] for name in (*_PUBLISH.values(), *_SUBSCRIBE.values())},
        }
        return [command, *forms.get(command, [self.key])]

    def _try(self, command: str) -> list[str]:
        end = [""] if command in _PUBLISH.values() else _TRIES.get(command, ())
        return [*self._form(command), *end]


@dataclass(frozen=True)
class Permissions:
    """What is denied to a user of Redis, of all that penstock can need."""

    user: str
    denied: frozenset[str]
    keys: NamespaceKeys
    dialect: Dialect

    def lacks(self, role: Role) -> frozenset[str]:
        return self.denied & needed_by(role, self.dialect)

    def check_role(self, role: Role) -> None:
        """Raises PermissionMissing if the role needs something that is denied."""
        self._refuse(self.lacks(role), f"{'an' if role == 'observer' else 'a'} {role}")

    def check_script(self, script: Script) -> None:
        """The same for one script. One that stops half way would leave a job half written."""
        self._refuse(self.denied & commands_of(script, self.dialect), f"script {script.name!r}")

    def check_connection(self) -> None:
        """The same for what every role needs before anything else."""
        self._refuse(self.denied & _OF_CONNECTIONS, "every client")

    def rules_for(self, lacking: Iterable[str]) -> str:
        """What gives the user what it lacks."""
        rules = [f"+{command.lower()}" for command in sorted(lacking)]
        if needed_by("observer", self.dialect) & READS - _WITHOUT_KEYS <= self.denied:
            rules.insert(0, f"~{self.keys.pattern}")  # not one of them can be read
        if {*_PUBLISH.values(), *_SUBSCRIBE.values()} & set(lacking):
            rules.append(f"&{self.keys.pattern}")
        return f"ACL SETUSER {self.user} {' '.join(rules)}"

    def _refuse(self, lacking: frozenset[str], who: str) -> None:
        if lacking:
            names = ", ".join(sorted(lacking))
            raise PermissionMissing(
                f"the Redis user {self.user!r} may not run {names} on the keys and channels of "
                f"namespace {self.keys.namespace!r}, which {who} needs, so nothing was written; "
                f"add the rule with `{self.rules_for(lacking)}`, or all rules of a role with "
                "`penstock acl`"
            )


@cache
def _text(name: str) -> str:
    path = files("penstock.store").joinpath("probes", f"{name}.lua")
    return path.read_text(encoding="utf-8")
