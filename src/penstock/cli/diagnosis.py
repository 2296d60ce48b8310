"""What facts about a server mean for the tasks in it: pure judgement, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.cli.render import size
from penstock.connection.wire import version_of
from penstock.model.history import BEGINNING, place_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.connection.address import Endpoint
    from penstock.model.history import HistoryBounds

Level = Literal["ok", "warning", "problem"]

_SLOW_S = 0.05
_CLOCK_S = 1.0
_NEARLY_FULL = 0.8
_FULL = 0.95
_SLOTS = "16384"
_BEHIND_S = 86400


class Finding(NamedTuple):
    """One thing that was looked at."""

    check: str
    level: Level
    message: str
    advice: str = ""


def judge_round_trip(round_trip_s: float) -> Finding:
    message = f"a request takes {round_trip_s * 1000:.2f} ms"
    if round_trip_s < _SLOW_S:
        return Finding("round trip", "ok", message)
    advice = "each claim and heartbeat takes as long; run workers nearer to the server"
    return Finding("round trip", "warning", message, advice)


def judge_version(info: Mapping[str, str]) -> Finding:
    redis = info.get("redis_version", "unknown")
    valkey = info.get("valkey_version")
    message = f"Valkey {valkey} (as Redis {redis})" if valkey else f"Redis {redis}"
    if version_of(dict(info)) >= (6, 2):
        return Finding("version", "ok", message)
    return Finding("version", "problem", message, "use Redis 6.2 or newer, or Valkey")


def judge_role(info: Mapping[str, str]) -> Finding:
    role = info.get("role", "unknown")
    if role == "slave":
        advice = "give the URL of the primary, or a redis+sentinel:// URL that finds it"
        return Finding("role", "problem", "this server is a replica and takes no tasks", advice)
    replicas = info.get("connected_slaves", "0")
    return Finding("role", "ok", f"primary with {replicas} connected replicas")


def judge_persistence(info: Mapping[str, str], appendfsync: str | None) -> Finding:
    """`appendfsync` is None where the server does not tell."""

    def found(level: Level, message: str, advice: str = "") -> Finding:
        return Finding("durability", level, message, advice)

    if info.get("aof_enabled") != "1":
        return found(
            "warning",
            "the append-only file is off, so a restart can lose accepted tasks",
            "CONFIG SET appendonly yes, and the same in redis.conf",
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        return found(
            "problem",
            "the last write of the append-only file failed",
            "look for a full disk, and in the log of the server",
        )
    if appendfsync == "no":
        return found(
            "warning",
            "the append-only file is on, but appendfsync is 'no': a power cut loses many seconds",
            "CONFIG SET appendfsync everysec, and the same in redis.conf",
        )
    how = f"appendfsync {appendfsync}" if appendfsync else "how often it is synced is not told"
    return found("ok", f"append-only file on, {how}")


def judge_eviction(info: Mapping[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", "noeviction")
    message = f"maxmemory-policy is '{policy}'"
    if policy == "noeviction":
        return Finding("eviction", "ok", message)
    return Finding(
        "eviction",
        "problem",
        f"{message}: a full server would drop tasks silently",
        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
    )


def judge_memory(info: Mapping[str, str]) -> Finding:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not limit:
        return Finding("memory", "ok", f"{size(used)} used, no limit set")
    share = used / limit
    message = f"{size(used)} of {size(limit)} used ({share:.0%})"
    if share < _NEARLY_FULL:
        return Finding("memory", "ok", message)
    advice = "when it is full no task is accepted; let workers catch up, or raise maxmemory"
    return Finding("memory", "problem" if share >= _FULL else "warning", message, advice)


def judge_clock(ahead_s: float) -> Finding:
    """`ahead_s` is how far the server's clock is ahead of ours."""
    way = "ahead of" if ahead_s > 0 else "behind"
    if abs(ahead_s) < _CLOCK_S:
        message = f"the server's is {abs(ahead_s) * 1000:.1f} ms {way} this machine's"
        return Finding("clock", "ok", message)
    return Finding(
        "clock",
        "warning",
        f"the server's is {abs(ahead_s):.1f} s {way} this machine's",
        "leases count on the server's clock and are safe, but times will look odd; use NTP on both",
    )


def judge_access(endpoint: Endpoint, user: str | None, is_open: bool) -> Finding:
    """`user` is None where the server does not tell; `is_open`: it needs no password."""
    name = f"logged in as '{user}'" if user else "the server does not tell which user this is"
    if endpoint.path or endpoint.host in ("localhost", "127.0.0.1", "::1"):
        return Finding("access", "ok", f"{name}, on this machine")
    if is_open:
        return Finding(
            "access",
            "warning",
            f"{name}, which needs no password: everyone who reaches {endpoint} can do anything",
            "set a password (requirepass or ACL SETUSER) and put it into the URL",
        )
    return Finding("access", "ok", name)


def judge_permissions(role: str, lacking: Collection[str], rules: str) -> Finding:
    """`lacking` is what the user may not run; `rules` would give it that."""
    who = f"{'an' if role == 'observer' else 'a'} {role}"
    if not lacking:
        return Finding("permissions", "ok", f"the user may do everything that {who} does")
    names = ", ".join(sorted(lacking))
    message = f"the user may not run {names} on the keys and channels of the namespace, so it"
    message = f"{message} cannot be {who}"
    other = "give the role that it has with --role, or add" if role == "worker" else "add"
    return Finding("permissions", "problem", message, f"{other} the rule with `{rules}`")


def judge_cluster(info: Mapping[str, str], is_cluster_url: bool) -> Finding:
    """`info` is CLUSTER INFO and INFO together."""
    if not is_cluster_url:
        if info.get("redis_mode") != "cluster":
            return Finding("cluster", "ok", "a server of its own, not a cluster")
        advice = "use a redis+cluster:// URL"
        return Finding("cluster", "problem", "this server is one node of a cluster", advice)
    state, slots = info.get("cluster_state"), info.get("cluster_slots_ok", "0")
    message = f"state {state}, {slots} of {_SLOTS} slots served"
    if state == "ok" and slots == _SLOTS:
        return Finding("cluster", "ok", f"{message} by {info.get('cluster_size')} primaries")
    advice = "queues in the other slots cannot be used; look at CLUSTER NODES and mend it"
    return Finding("cluster", "problem", message, advice)


def judge_readers(queue: str, bounds: HistoryBounds) -> list[Finding]:
    """The readers of a history that have fallen behind."""
    found = []
    for mark in bounds.marks:
        behind_s = bounds.now - place_key(mark.place)[0] / 1000
        first = bounds.first or mark.place
        if mark.place == bounds.last or (mark.place == BEGINNING and not bounds.length):
            continue
        name = f"reader {mark.reader!r} of the history of queue {queue!r}"
        advice = (
            "let it read on, raise history_cap (penstock job configure), or forget it, which a "
            "week of silence does too"
        )
        if place_key(mark.place) < place_key(first) and mark.place != BEGINNING:
            message = f"{name} has lost entries: it has read up to {mark.place}, and the oldest "
            found.append(Finding("readers", "problem", f"{message}is {first}", advice))
        elif bounds.length > bounds.cap / 2:
            message = f"{name} has fallen behind: {bounds.length} entries are kept of at most "
            found.append(Finding("readers", "warning", f"{message}{bounds.cap}", advice))
        elif mark.place != BEGINNING and behind_s > _BEHIND_S:
            message = f"{name} has fallen behind: it has read up to {behind_s / 3600:.0f} hours ago"
            found.append(Finding("readers", "warning", message, advice))
    return found
