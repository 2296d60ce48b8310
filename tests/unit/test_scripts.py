"""The headers of the Lua files say the same as the Python side."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError, ProtocolError
from penstock.store.command import QueueAbsent, QueueTaken
from penstock.store.commands import checks, processes, queues, staging, tasks, workers
from penstock.store.keys import (
    JOB_KEY_TYPES,
    QUEUE_KEY_TYPES,
    SIMULATED_CLOCK,
    TASK_KEY_TYPES,
    NamespaceKeys,
)
from penstock.store.script import (
    CLUSTER,
    SCRIPT_KINDS,
    SIMULATED,
    STANDALONE,
    Dialect,
    Script,
    scripts,
)
from tests.samples import SCRIPTS, sample_commands
from tests.stored import part_of

PACKAGE = Path(penstock.__file__).parent
COMMANDS = sample_commands(NamespaceKeys("ns"), process=7)
FUNCTIONS = [
    name
    for module in (checks, processes, queues, staging, tasks, workers)
    for name, function in getmembers(module, isfunction)
    if function.__module__ == module.__name__
    and str(function.__annotations__["return"]).startswith("Command[")
]
CHANNELS = {"wake", "hand", "job", "events", "cancel_job"}
PYTHON_TYPES = {"int": int, "string": str, "bytes": bytes}

# Everything that Redis 6.2 has and that takes a time known beforehand.
# fmt: off
PERMITTED = {
    "DEL", "UNLINK", "EXISTS", "GET", "SET", "TIME", "TYPE", "PTTL", "PEXPIRE", "PERSIST",
    "LLEN", "LINDEX", "LPUSH", "RPUSH", "LPOP", "RPOP", "LRANGE", "LREM", "LPOS",
    "HGET", "HMGET", "HSET", "HDEL", "HLEN", "HEXISTS", "HINCRBY", "HSCAN",
    "SADD", "SREM", "SPOP", "SCARD", "SISMEMBER",
    "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANGEBYLEX",
    "PUBLISH", "PUBSUB",
}
# These read all of something, so what they read must be bounded: tasks held by a worker (MAX_HELD),
# queues of a worker, workers of a queue, settings of a queue, or what was counted before.
BOUNDED_BY_KEY = {
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
}
# fmt: on
ANY_OF_SEVERAL = [["tasks"], ["key"]]
ON_A_CLUSTER_OF_REDIS_7 = {"SPUBLISH"}

REPLIES: dict[str, dict[str, list[Any]]] = {
    "start_tasks": {
        "ok": [b"ok", b"7", b"task"],
        "empty": [b"empty"],
        "paused": [b"paused"],
        "not_working": [b"not_working"],
        "apart": [b"apart"],
        "too_many": [b"too_many"],
    },
    "finish_tasks": {
        "ok": [[b"7"], b"ok", b"8", b"task"],
        "empty": [[], b"empty"],
        "idle": [[], b"idle"],
        "paused": [[], b"paused"],
        "not_working": [[], b"not_working"],
        "apart": [[], b"apart"],
        "too_many": [[], b"too_many"],
    },
    "stop_tasks": {"ok": [b"ok", b"7"]},
    "fail_tasks": {"ok": [b"ok", 1, b"7"]},
    "find_processes": {"ok": [b"ok", b"7"]},
    "enqueue_tasks": {
        "ok": [b"ok", 1],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "full": [b"full", 3, 3],
        "jobs": [b"jobs"],
    },
    "enqueue_unique_task": {
        "ok": [b"ok", 1],
        "exists": [b"exists", b"task"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "full": [b"full", 3, 3],
        "jobs": [b"jobs"],
    },
    "cancel_tasks": {"ok": [b"ok", 1]},
    "retry_dead_tasks": {"ok": [b"ok", 1, 0]},
    "page_tasks": {"ok": [b"ok", 1, b"task"]},
    "join_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "leave_queue": {"ok": [b"ok", 1, 0], "jobs": [b"jobs"]},
    "pass_work": {"ok": [b"ok"]},
    "pause_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "resume_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "other_layout": [b"other_layout", 3],
    },
    "configure_queue": {
        "ok": [b"ok"],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "other_layout": [b"other_layout", 3],
    },
    "delete_queue": {"ok": [b"ok", 1, 0, b"i1"], "no_queue": [b"no_queue"], "jobs": [b"jobs"]},
    "inspect_queue": {
        "ok": [b"ok", [b"incarnation", b"i1"], 1, 0, 0, 0, 0, 1, 0],
        "changed": [b"changed", b"w1"],
        "no_queue": [b"no_queue"],
    },
    "register_queue": {"ok": [b"ok"]},
    "unregister_queue": {"ok": [b"ok"]},
    "list_queues": {"ok": [b"ok", b"0", b"mail"]},
    "start_worker": {"ok": [b"ok"], "exists": [b"exists"]},
    "keep_worker_alive": {
        "ok": [b"ok", b"w2"],
        "paused": [b"paused", b"w2"],
        "lease_lost": [b"lease_lost"],
    },
    "pause_worker": {"ok": [b"ok"]},
    "list_paused_workers": {"ok": [b"ok", b"w1"]},
    "start_work": {"ok": [b"ok"], "lease_lost": [b"lease_lost"]},
    "stop_work": {"ok": [b"ok"]},
    "fail_worker": {"ok": [b"ok", b"mail"], "absent": [b"absent"]},
    "forget_worker": {"ok": [b"ok"], "alive": [b"alive"]},
    "list_workers": {"ok": [b"ok", 1, 0, b"9", b"w1", b"5", b"{}"]},
    "list_work": {"ok": [b"ok", b"mail"]},
    "describe_key": {"ok": [b"ok", b"list", -1]},
    "read_queue": {
        "ok": [b"ok", [], [], [], [], [], [], [], [], [], []],
        "counted": [b"counted", [], 0, 0, [], [], 0, 0, 0, 0, 0],
    },
    "stage_chunk": {"ok": [b"ok", 9], "too_much": [b"too_much", 9], "decided": [b"decided"]},
    "decide_batch": {
        "ok": [b"ok"],
        "known": [b"known"],
        "stage_lost": [b"stage_lost", 0],
        "no_queue": [b"no_queue"],
        "queue_exists": [b"queue_exists"],
        "jobs": [b"jobs"],
        "tasks": [b"tasks"],
        "too_large": [b"too_large", 9, 3],
        "other_layout": [b"other_layout", 3],
    },
    "drop_stages": {"ok": [b"ok", 1]},
    "move_tasks": {"ok": [b"ok", 2, 1], "no_room": [b"no_room", 3, 3, 1], "empty": [b"empty"]},
    "mend_unique_key": {"ok": [b"ok", 1], "changed": [b"changed", b"w1"]},
    "forget_failures": {"ok": [b"ok", 1]},
}

each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
each_reply = pytest.mark.parametrize(
    ("name", "word"), [(name, word) for name, words in REPLIES.items() for word in words]
)


def test_each_script_has_one_command_function_of_its_name() -> None:
    assert sorted(FUNCTIONS) == sorted(SCRIPTS)
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
def test_a_header_counts_its_parameters_from_one(script: Script) -> None:
    for kind in ("KEYS", "ARGV"):
        numbers = re.findall(rf"^-- {kind}\[(\d+)\]", script.source, re.MULTILINE)

        assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))


@each_script
def test_a_header_describes_every_parameter_that_it_counts(script: Script) -> None:
    counted = re.findall(r"^-- (?:KEYS|ARGV)\[", script.source, re.MULTILINE)

    assert len(script.keys) + len(script.arguments) == len(counted)


@each_script
def test_a_header_names_the_keys_that_the_command_passes(script: Script) -> None:
    passed = [part_of(key) for key in COMMANDS[script.name].keys]
    named = [key.name for key in script.keys]
    if named in ANY_OF_SEVERAL:
        assert passed == ["ready"]
    elif script.keys[-1].is_repeated:
        assert passed == [*named, named[-1]]
    else:
        assert passed == named


@each_script
def test_a_header_counts_the_arguments_that_the_command_passes(script: Script) -> None:
    arguments = script.arguments
    fixed = [argument for argument in arguments if not argument.is_repeated]
    args = COMMANDS[script.name].args
    extra = {"finish_tasks": 4}.get(script.name, 2 if len(fixed) < len(arguments) else 0)

    assert len(args) == len(fixed) + extra
    for argument, value in zip(arguments, args, strict=False):
        assert type(value) is PYTHON_TYPES[argument.type], argument.name


def test_only_the_last_parameter_of_a_kind_is_repeated() -> None:
    for script in SCRIPTS.values():
        for parameters in (script.keys, script.arguments):
            assert not any(parameter.is_repeated for parameter in parameters[:-1])


@each_script
def test_a_script_names_its_keys_as_its_header_does(script: Script) -> None:
    named = [key.name for key in script.keys if not key.is_repeated]
    locals_ = re.search(r"^local (.+) = (?:unpack\(KEYS.*\)|KEYS\[1\].*)$", script.source, re.M)

    if locals_ is None:
        assert len(named) <= 1 and "KEYS[" in code_of(script)
    else:
        assert locals_[1].split(", ") == named


def code_of(script: Script) -> str:
    return re.sub(r"^--.*\n", "", script.source, flags=re.MULTILINE)


def test_the_headers_agree_on_the_type_of_a_key() -> None:
    types = {(key.name, key.type) for script in SCRIPTS.values() for key in script.keys}

    assert len(types) == len({name for name, _ in types})


def test_the_samples_know_every_reply_of_every_header() -> None:
    known = {name: set(words) for name, words in REPLIES.items()}

    assert known == {name: set(script.replies) for name, script in SCRIPTS.items()}


@each_script
def test_a_script_answers_only_what_its_header_lists(script: Script) -> None:
    answered = set(re.findall(r"\{'(\w+)'", code_of(script)))

    assert answered <= set(script.replies)


@each_reply
def test_a_decoder_knows_the_reply(name: str, word: str) -> None:
    try:
        COMMANDS[name].decode(REPLIES[name][word])
    except ProtocolError as error:
        assert word == "other_layout" and "upgrade this program" in str(error)
    except (QueueAbsent, QueueTaken):
        assert word in ("no_queue", "queue_exists")
    except PenstockError as refusal:
        assert refusal.code in {
            "queue_full",
            "lease_lost",
            "worker_exists",
            "queue_not_found",
            "wrong_kind",
            "stage_lost",
            "batch_too_large",
            "payload_too_large",
        }
    else:
        assert word != "other_layout"


@each_script
def test_a_decoder_refuses_a_reply_that_its_header_does_not_list(script: Script) -> None:
    reply: list[Any] = [b"surprise", b"0", b"0"]
    if script.name == "finish_tasks":
        reply.insert(0, [])

    with pytest.raises(ProtocolError, match="run the same version of penstock everywhere"):
        COMMANDS[script.name].decode(reply)


@each_script
@pytest.mark.parametrize(
    ("dialect", "more"),
    [(STANDALONE, set()), (CLUSTER, ON_A_CLUSTER_OF_REDIS_7), (SIMULATED, set())],
    ids=["standalone", "cluster", "simulated"],
)
def test_a_script_uses_only_permitted_commands(
    script: Script, dialect: Dialect, more: set[str]
) -> None:
    used = set(re.findall(r"(?:redis\.call|call_in_chunks)\('(\w+)'", script.text(dialect)))
    whole = set(re.findall(r"redis\.call\('(\w+)', ([\w.\[\]]+)\)", script.text(dialect)))
    bounded = BOUNDED_BY_KEY.get(script.name, set())

    assert bounded <= whole
    assert used - {command for command, _ in bounded} <= PERMITTED | more


@each_script
def test_a_script_leaves_payloads_alone(script: Script) -> None:
    assert "cjson" not in script.text()
    assert "loadstring" not in script.text()


@each_script
def test_a_script_has_every_fragment_put_in(script: Script) -> None:
    assert "-- include" not in script.text()


def test_the_simulated_clock_has_one_name() -> None:
    source = files("penstock.store").joinpath("scripts/fragments/simulated_clock.lua").read_text()

    assert re.findall(r"'(\w+:\w+)'", source) == [SIMULATED_CLOCK]


each_file = pytest.mark.parametrize(
    "path", sorted(PACKAGE.glob("store/scripts/**/*.lua")), ids=lambda path: path.stem
)


@each_file
def test_a_line_of_lua_is_shorter_than_120_characters(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) >= 120] == []


def test_no_two_scripts_have_one_name() -> None:
    names = [script.name for script in scripts()]

    assert len(set(names)) == len(names)


def test_every_folder_of_scripts_is_a_kind() -> None:
    folders = {path.name for path in PACKAGE.glob("store/scripts/*") if path.is_dir()}

    assert folders == {*SCRIPT_KINDS, "fragments"}


@each_file
def test_no_script_spells_a_key(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text())
    # Scripts on jobs put a kind of key after the tag of the queue; which kinds there are is
    # written in keys.py. Listings (a state, a letter and a colon, as in `rT:email`) are no keys.
    kinds = JOB_KEY_TYPES.keys() | QUEUE_KEY_TYPES.keys() | CHANNELS
    forms = r"keys\['(\w+):'\]|\bkeys\.(\w+)|\bbase \.\. '(\w+):?'"
    used = {name for names in re.findall(forms, code) for name in names if name}
    listing = re.compile(r"[a-z*]?[ATNGW]:|0?:|\^\(-\?%d\+\):\(\.\*\)\$")
    texts = re.findall(r"'([^']*)'", re.sub(forms, "", code))
    spelled = [text for text in texts if ":" in text and not listing.fullmatch(text)]

    assert used <= kinds | {"is_used", "settings", "listeners", "base", "now"}
    assert spelled == ([SIMULATED_CLOCK] if path.stem == "simulated_clock" else [])


def test_no_python_file_spells_a_key() -> None:
    parts = {key.name for script in SCRIPTS.values() for key in script.keys}
    spelling = re.compile(rf"(^|[\w}}]):({'|'.join(sorted(parts))})(:|$)")
    guilty = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and spelling.search(node.value)
    }

    keys = [key for command in COMMANDS.values() for key in command.keys]
    assert all(spelling.search(key) for key in keys)
    assert guilty == set()


def test_every_key_of_a_queue_is_passed_to_some_script() -> None:
    parts = QUEUE_KEY_TYPES.keys() | TASK_KEY_TYPES.keys()
    passed = {part_of(key) for command in COMMANDS.values() for key in command.keys}

    assert parts <= passed
