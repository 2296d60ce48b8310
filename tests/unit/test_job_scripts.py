"""The headers of the Lua files on jobs say the same as the Python side."""

from __future__ import annotations

import re
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError, ProtocolError
from penstock.model.jobs import STATE_CODES
from penstock.store.command import QueueAbsent, QueueTaken
from penstock.store.commands import history, job_checks, job_records, job_rules, job_staging, jobs
from penstock.store.commands.job_rules import MoreToDo
from penstock.store.commands.jobs import IdTaken
from penstock.store.generated import GENERATED
from penstock.store.keys import JOB_KEY_TYPES, QUEUE_KEY_TYPES, NamespaceKeys
from penstock.store.script import CLUSTER, SIMULATED, STANDALONE, Script
from tests.job_replies import REPLIES
from tests.job_samples import HELD, SCRIPTS, sample_job_commands
from tests.stored import part_of

COMMANDS = sample_job_commands(NamespaceKeys("ns"), dict.fromkeys(HELD, 7))
FOLDER = Path(penstock.__file__).parent / "store/scripts/fragments"
FRAGMENTS = {
    str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.lua")
} | GENERATED.keys()
OF_ONE_SCRIPT = {
    "read_log": "read_job_lists",
    "read_attempts": "read_job_lists",
    "read_stored_jobs": "read_jobs",
}
FUNCTIONS = {
    OF_ONE_SCRIPT.get(name, name)
    for module in (jobs, job_records, job_rules, job_staging, job_checks, history)
    for name, function in getmembers(module, isfunction)
    if function.__module__ == module.__name__
    and not name.startswith("_")
    and str(function.__annotations__["return"]).startswith("Command[")
}
PYTHON_TYPES = {"int": int, "string": str, "bytes": bytes}
MANY = 2
"""How many each sample passes of what a script takes any number of."""
COMPOSED = {"send_jobs": 23, "fire_schedule": 7, "report_jobs": 6 * 7}
"""Scripts whose last argument stands for several -> how many the sample passes."""

# Everything that Redis 6.2 has and that takes a time known beforehand.
# fmt: off
PERMITTED = {
    "DEL", "UNLINK", "EXISTS", "GET", "SET", "TIME",
    "LLEN", "LINDEX", "LPUSH", "RPUSH", "LPOP", "LRANGE", "LTRIM", "LPOS",
    "HGET", "HMGET", "HSET", "HDEL", "HLEN", "HEXISTS", "HINCRBY", "HSCAN", "HRANDFIELD",
    "SADD", "SREM", "SPOP", "SCARD", "SISMEMBER", "SRANDMEMBER",
    "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE",
    "XADD", "XLEN", "XINFO",
    "PUBLISH", "PUBSUB",
}
# These read or remove all of something, so that must be bounded: jobs held by a worker (MAX_HELD),
# jobs of a page (512), schedules and types of a queue, workers, or a count that is given.
BOUNDED = {
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
}
# fmt: on
NEVER_ANSWERED = {
    "fire_schedule": {"conflict"},  # The ids of its jobs are never given.
    "delete_jobs": {"empty"},  # It keeps the answers to what others have reported.
}

each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
each_reply = pytest.mark.parametrize(
    ("name", "word"), [(name, word) for name, words in REPLIES.items() for word in words]
)


def test_each_script_has_a_command_function_of_its_name() -> None:
    assert set(SCRIPTS) == FUNCTIONS
    assert set(COMMANDS) == set(SCRIPTS)


@each_script
def test_a_script_belongs_to_the_function_of_its_name(script: Script) -> None:
    assert COMMANDS[script.name].script is script


@each_script
def test_a_header_says_what_the_script_is_for_and_what_it_answers(script: Script) -> None:
    purpose = script.source.splitlines()[0]

    assert re.fullmatch(r"-- [A-Z].+[.:,a-z]", purpose)
    assert script.keys
    assert script.replies


@each_script
def test_a_header_describes_every_parameter_and_counts_from_one(script: Script) -> None:
    for kind, described in (("KEYS", script.keys), ("ARGV", script.arguments)):
        numbers = re.findall(rf"^-- {kind}\[(\d+)\]", script.source, re.MULTILINE)

        assert [int(number) for number in numbers] == list(range(1, len(described) + 1))
        assert not any(parameter.is_repeated for parameter in described[:-1])


@each_script
def test_a_header_names_the_keys_that_the_command_passes(script: Script) -> None:
    passed = [part_of(key) for key in COMMANDS[script.name].keys]
    named = [key.name for key in script.keys]

    assert passed == ["log" if name == "lines" else name for name in named]


@each_script
def test_a_header_gives_the_type_that_a_key_has(script: Script) -> None:
    types = QUEUE_KEY_TYPES | JOB_KEY_TYPES | {"lines": JOB_KEY_TYPES["log"]}

    assert all(key.type == types[key.name] for key in script.keys)


@each_script
def test_a_header_counts_the_arguments_that_the_command_passes(script: Script) -> None:
    fixed = [argument for argument in script.arguments if not argument.is_repeated]
    args = COMMANDS[script.name].args
    repeated = MANY if len(fixed) < len(script.arguments) else 0

    assert len(args) == len(fixed) + COMPOSED.get(script.name, repeated)
    for argument, value in zip(fixed, args, strict=False):
        assert type(value) is PYTHON_TYPES[argument.type], argument.name


@each_script
def test_a_header_gives_the_type_of_what_is_passed_any_number_of_times(script: Script) -> None:
    repeated = [argument for argument in script.arguments if argument.is_repeated]
    if repeated and script.name not in COMPOSED:
        for value in COMMANDS[script.name].args[-MANY:]:
            assert type(value) is PYTHON_TYPES[repeated[0].type]


@each_script
def test_a_script_names_its_parameters_as_its_header_does(script: Script) -> None:
    body = code_of(script.source)
    for index, key in enumerate(script.keys, start=1):
        holder = "keys" if key.name == "meta" else key.name
        assert re.search(rf"\b{holder}\b", body), key.name
        assert f"KEYS[{index}]" in body
    for argument in script.arguments:
        is_named = argument.is_repeated or re.search(rf"\b{argument.name}_?\b", body)
        assert is_named or "ARGV[" in body, argument.name


def test_the_samples_know_every_reply_of_every_header() -> None:
    known = {name: set(words) for name, words in REPLIES.items()}
    unknown = {"explain_job": {"ok"}}

    for name, script in SCRIPTS.items():
        assert known[name] == set(script.replies) - unknown.get(name, set()), name


@each_script
def test_a_script_answers_only_what_its_header_lists(script: Script) -> None:
    answered = answers_of(script) - {"superseded"} - NEVER_ANSWERED.get(script.name, set())

    assert answered == set(script.replies)


@each_reply
def test_a_decoder_knows_the_reply(name: str, word: str) -> None:
    refusals = {"full": "queue_full", "conflict": "job_conflict", "tasks": "wrong_kind"}
    refusals["no_number"] = "store_error"
    refusals |= {"too_many": "queue_full"} if name in ("put_schedule", "mark_history") else {}
    if name == "leave_jobs":
        del refusals["tasks"]  # It tells recovery which script to send instead.
    try:
        COMMANDS[name].decode(REPLIES[name][word])
    except (QueueAbsent, QueueTaken, IdTaken, MoreToDo):
        assert word in ("no_queue", "queue_exists", "taken", "more")
    except ProtocolError as error:
        assert word == "other_layout" and "upgrade this program" in str(error)
    except PenstockError as refusal:
        assert refusal.code == refusals[word]
    else:
        assert word not in (*refusals, "other_layout", "queue_exists")


@each_script
def test_a_decoder_refuses_a_reply_that_its_header_does_not_list(script: Script) -> None:
    reply: list[Any] = [b"surprise", b"0", b"0"]
    if script.name == "report_jobs":
        reply.insert(0, [])

    with pytest.raises(ProtocolError, match="run the same version of penstock everywhere"):
        COMMANDS[script.name].decode(reply)


@each_script
def test_a_script_uses_only_permitted_commands(script: Script) -> None:
    for dialect, more in ((STANDALONE, set()), (CLUSTER, {"SPUBLISH"}), (SIMULATED, set())):
        text = code_of(script.text(dialect))
        permitted = PERMITTED | more
        used = set(re.findall(r"(?:redis\.call|call_in_chunks)\('(\w+)'", text))
        bounded = {
            (command, key)
            for command, key in re.findall(r"redis\.call\('(\w+)', ([^,)]+)[,)]", text)
            if command not in permitted
        }

        assert bounded <= BOUNDED
        assert used - {command for command, _ in bounded} <= permitted


@each_script
def test_a_script_reads_no_more_of_a_list_than_it_says(script: Script) -> None:
    text = code_of(script.text())

    # Up to the end means up to any length, but where the start says how far from the end.
    assert not re.search(r"\('(?:LRANGE|ZRANGE)', [^()]*, 0, -1", text)
    for call in re.findall(r"\('(?:ZRANGEBYSCORE|ZREVRANGEBYSCORE|HSCAN|XRANGE)',[^\n]+", text):
        assert "'LIMIT'" in call or "'COUNT'" in call


@each_script
def test_a_script_has_no_loop_without_an_end(script: Script) -> None:
    text = code_of(script.text())
    loops = re.findall(r"\bwhile (.+) do$", text, re.MULTILINE)

    assert not re.search(r"\brepeat\b|\bgoto\b", text)
    assert all("<" in condition for condition in loops)


@each_script
def test_a_script_leaves_payloads_alone(script: Script) -> None:
    assert "cjson" not in script.text()
    assert "loadstring" not in script.text()


@each_script
def test_a_script_has_every_fragment_put_in(script: Script) -> None:
    assert set(script.included) <= FRAGMENTS
    assert "-- include" not in script.text()


@each_script
def test_a_script_touches_only_kinds_of_keys_that_are_written_down(script: Script) -> None:
    channels = {"wake", "hand", "job", "events", "cancel_job"}
    noted = {"is_used", "settings", "listeners", "base", "now"}
    text = code_of(script.text())
    used = set(re.findall(r"\bkeys\.(\w+)", text)) | set(re.findall(r"keys\['(\w+):'\]", text))

    assert used <= JOB_KEY_TYPES.keys() | QUEUE_KEY_TYPES.keys() | channels | noted


@each_script
def test_a_guard_gives_each_key_its_type(script: Script) -> None:
    types = QUEUE_KEY_TYPES | JOB_KEY_TYPES
    for kind, names in re.findall(r"\b(hash|zset|set|list|stream) = \{([^}]+)\}", script.text()):
        for name in re.findall(r"'(\w+)'", names):
            assert types[name] == kind, name
    for name, command in re.findall(r"\b(\w+) = '(HLEN|ZCARD|SCARD)'", script.text()):
        if name not in ("hash", "zset", "set"):
            assert types[name] == {"HLEN": "hash", "ZCARD": "zset", "SCARD": "set"}[command], name


def code_of(text: str) -> str:
    """Lua without its comments."""
    return re.sub(r"--.*", "", text)


def answers_of(script: Script) -> set[str]:
    """The words that the script, and what it calls, put first in a table: those are answers, but
    where it goes through keys, or through settings.
    """
    keys = r"\b(?:hash|zset|set|list|stream) = \{[^}]*\}|ipairs\(\{[^}]*\}\)"
    text = re.sub(keys, "", code_of(script.text()))
    function = re.compile(
        r"^(?:(?:local )?function ([\w.]+)|(\w+) = function)\("
        r"(?:[^\n]* end,?$|[^\n]*\n(?:.*\n)*?end,?$)",
        re.MULTILINE,
    )
    functions = {match[1] or f"lib.{match[2]}": match[0] for match in function.finditer(text)}
    words: set[str] = set()
    todo, seen = [function.sub("", text)], set[str]()
    while todo:
        body = todo.pop()
        words |= set(re.findall(r"(?:\{|insert\(reply, 1, )'([a-z_]+)'", body))
        for pair in re.findall(r"return \{[^{}\n]* and '([a-z_]+)' or '([a-z_]+)'", body):
            words |= set(pair)
        called = (set(re.findall(r"([\w.]+)\(", body)) & functions.keys()) - seen
        seen |= called
        todo += [functions[name] for name in called]
    states = set(STATE_CODES.values())
    return words - {"incarnation", "max_length", "priority"} - states
