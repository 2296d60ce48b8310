"""The headers of the Lua files say the same as the Python side, for every kind of queue."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib.resources import files
from inspect import getmembers, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import PenstockError, ProtocolError
from penstock.model.jobs import STATE_CODES
from penstock.store.command import QueueAbsent, QueueTaken
from penstock.store.commands import (
    checks,
    history,
    job_checks,
    job_records,
    job_rules,
    job_staging,
    jobs,
    log_batches,
    log_groups,
    log_members,
    logs,
    processes,
    queues,
    staging,
    tasks,
    workers,
)
from penstock.store.commands.job_rules import MoreToDo
from penstock.store.commands.jobs import IdTaken
from penstock.store.commands.logs import NoPartition
from penstock.store.generated import GENERATED
from penstock.store.keys import (
    KEY_TYPES,
    SIMULATED_CLOCK,
    NamespaceKeys,
)
from penstock.store.kinds import KINDS
from penstock.store.linking import LinkError
from penstock.store.script import (
    CLUSTER,
    SCRIPT_KINDS,
    SIMULATED,
    STANDALONE,
    Script,
    scripts,
)
from tests import job_replies, log_replies, replies
from tests.job_samples import HELD
from tests.kinds import SAMPLES, each_kind
from tests.log_samples import NO_LOG
from tests.script_commands import BOUNDED, BOUNDED_BY_SCRIPT, PERMITTED
from tests.stored import part_of

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(penstock.__file__).parent
FOLDER = PACKAGE / "store/scripts/fragments"
FRAGMENTS = {
    str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.lua")
} | GENERATED.keys()
MODULES = {
    "tasks": (checks, processes, queues, staging, tasks, workers),
    "jobs": (jobs, job_records, job_rules, job_staging, job_checks, history),
    "logs": (logs, log_batches, log_groups, log_members),
}
OF_ONE_SCRIPT = {
    "list_served": "list_work",
    "read_log": "read_job_lists",
    "read_attempts": "read_job_lists",
    "read_stored_jobs": "read_jobs",
}
"""Functions that are not named as their script."""
HELD_PROCESSES: dict[str, Any] = {"tasks": 7, "jobs": dict.fromkeys(HELD, 7), "logs": NO_LOG}
COMMANDS = {
    kind: samples.of_scripts(NamespaceKeys("ns"), HELD_PROCESSES[kind], 100)
    for kind, samples in SAMPLES.items()
}
REPLIES = {
    "tasks": replies.REPLIES,
    "jobs": job_replies.REPLIES,
    "logs": log_replies.REPLIES,
}
WITHOUT_A_REPLY = {"explain_job": {"ok"}}
"""Replies that have no sample, as they are tested elsewhere."""
CHANNELS = {"wake", "hand", "job", "events", "cancel_job"}
NOTED = {"is_used", "settings", "listeners", "base", "now"}
"""What scripts on jobs note beside their keys."""
QUEUE_KEYS = {name for kind in KINDS.values() for name in kind.key_types}
TYPES = {name: type_ for kind in KINDS.values() for name, type_ in kind.key_types.items()}
STANDS_FOR = {"tasks": "ready", "key": "ready", "lines": "log"}
"""What a header calls a key of which it may be given several -> what the sample gives it."""
PYTHON_TYPES = {"int": int, "string": str, "bytes": bytes}
MANY = 2
"""How many each sample passes of what a script takes any number of."""
COMPOSED = {"finish_tasks": 4, "send_jobs": 23, "fire_schedule": 7, "report_jobs": 6 * 7}
"""Scripts whose last argument stands for several -> how many the sample passes."""
BEGIN_WITH_REFUSED = ("finish_tasks", "report_jobs")
"""Scripts whose reply has the refused processes before its word."""

COUNTS_FIRST = ("read_queue",)
"""Scripts that read a whole list because they have counted it before."""
NEVER_ANSWERED = {
    "fire_schedule": {"conflict"},  # The ids of its jobs are never given.
    "delete_jobs": {"empty"},  # It keeps the answers to what others have reported.
}
REFUSALS = {
    "full": "queue_full",
    "conflict": "job_conflict",
    "no_number": "store_error",
    "tasks": "wrong_kind",
    "jobs": "wrong_kind",
    "logs": "wrong_kind",
    "group": "wrong_kind",
    "stale": "offset_refused",
    "back": "offset_refused",
    "lease_lost": "lease_lost",
    "stage_lost": "stage_lost",
    "decided": "stage_lost",
    "too_much": "batch_too_large",
    "too_large": "payload_too_large",
}
"""Word of a reply -> code of the error that the client sees."""
_OF_READERS = ("note_group", "take_partition", "seek_group", "mark_partition", "keep_member")
REFUSALS_OF = {
    ("put_schedule", "too_many"): "queue_full",
    ("mark_history", "too_many"): "queue_full",
    ("start_worker", "exists"): "worker_exists",
    ("inspect_queue", "no_queue"): "queue_not_found",
    ("describe_log", "absent"): "log_not_found",
    ("note_group", "absent"): "log_not_found",
    **{(name, "too_many"): "queue_full" for name in _OF_READERS},
    ("note_job", "lease_lost"): "",
    # These tell which script to send instead.
    ("leave_queue", "jobs"): "",
    ("delete_queue", "jobs"): "",
    ("leave_jobs", "tasks"): "",
}
"""The same for one script, where it differs; empty if it is no error."""
ON_A_CLUSTER_OF_REDIS_7 = {"SPUBLISH"}


def each_script(
    wanted: Callable[[Script], bool] = lambda script: True,
) -> pytest.MarkDecorator:
    """Run a test for every script that is wanted, of every kind."""
    return pytest.mark.parametrize(
        ("kind", "script"),
        [
            pytest.param(kind, script, id=f"{kind}-{name}")
            for kind, samples in SAMPLES.items()
            for name, script in samples.scripts.items()
            if wanted(script)
        ],
    )


each_reply = pytest.mark.parametrize(
    ("kind", "name", "word"),
    [
        pytest.param(kind, name, word, id=f"{kind}-{name}-{word}")
        for kind, of_kind in REPLIES.items()
        for name, words in of_kind.items()
        for word in words
    ],
)


def names_keys_itself(script: Script) -> bool:
    """Whether it puts the names of its keys after the tag of the queue."""
    return "lib.keys_beside(" in script.source


@each_kind
def test_each_script_has_a_command_function_of_its_name(kind: str) -> None:
    functions = [
        name
        for module in MODULES[kind]
        for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and str(function.__annotations__["return"]).startswith("Command[")
    ]

    assert len(functions) == len(set(functions))
    assert {OF_ONE_SCRIPT.get(name, name) for name in functions} == set(SAMPLES[kind].scripts)
    assert set(COMMANDS[kind]) == set(SAMPLES[kind].scripts)


def test_each_script_is_tested_with_a_kind() -> None:
    tested = [script for samples in SAMPLES.values() for script in samples.scripts.values()]

    assert sorted(it.name for it in tested) == sorted(it.name for it in scripts())


@each_script()
def test_a_script_belongs_to_the_function_of_its_name(kind: str, script: Script) -> None:
    assert COMMANDS[kind][script.name].script is script


@each_script()
def test_a_header_says_what_the_script_is_for_and_what_it_answers(
    kind: str, script: Script
) -> None:
    purpose = script.source.splitlines()[0]

    assert re.fullmatch(r"-- [A-Z].+[.:,a-z]", purpose)
    assert script.keys
    assert script.replies


@each_script()
def test_a_header_describes_every_parameter_and_counts_from_one(kind: str, script: Script) -> None:
    for which, described in (("KEYS", script.keys), ("ARGV", script.arguments)):
        numbers = re.findall(rf"^-- {which}\[(\d+)\]", script.source, re.MULTILINE)

        assert [int(number) for number in numbers] == list(range(1, len(described) + 1))
        assert not any(parameter.is_repeated for parameter in described[:-1])


@each_script()
def test_a_header_names_the_keys_that_the_command_passes(kind: str, script: Script) -> None:
    passed = [part_of(key) for key in COMMANDS[kind][script.name].keys]
    named = [STANDS_FOR.get(key.name, key.name) for key in script.keys]
    if script.keys[-1].is_repeated:
        named += [named[-1]] * (MANY - 1)

    assert passed == named


@each_script()
def test_a_header_gives_the_type_that_a_key_has(kind: str, script: Script) -> None:
    types = TYPES | KEY_TYPES | {"key": "any", "tasks": "list", "lines": "list"}

    assert {key.name: key.type for key in script.keys} == {
        key.name: types[key.name] for key in script.keys
    }


@each_script()
def test_a_header_counts_the_arguments_that_the_command_passes(kind: str, script: Script) -> None:
    fixed = [argument for argument in script.arguments if not argument.is_repeated]
    args = COMMANDS[kind][script.name].arguments
    repeated = MANY if len(fixed) < len(script.arguments) else 0

    assert len(args) == len(fixed) + COMPOSED.get(script.name, repeated)
    for argument, value in zip(fixed, args, strict=False):
        assert type(value) is PYTHON_TYPES[argument.type], argument.name


@each_script(
    lambda script: any(it.is_repeated for it in script.arguments) and script.name != "report_jobs"
)
def test_a_header_gives_the_type_of_what_is_passed_any_number_of_times(
    kind: str, script: Script
) -> None:
    repeated = script.arguments[-1]
    passed = COMMANDS[kind][script.name].arguments[len(script.arguments) - 1 :]
    of_one_type = passed[:1] if script.name in COMPOSED else passed

    assert {type(value) for value in of_one_type} == {PYTHON_TYPES[repeated.type]}


@each_script(lambda script: not names_keys_itself(script))
def test_a_script_names_its_keys_as_its_header_does(kind: str, script: Script) -> None:
    named = [key.name for key in script.keys if not key.is_repeated]
    locals_ = re.search(r"^local (.+) = (?:unpack\(KEYS.*\)|KEYS\[1\].*)$", script.source, re.M)

    if locals_ is None:
        assert len(named) <= 1 and "KEYS[" in code_of(script.source)
    else:
        assert locals_[1].split(", ") == named


@each_script(names_keys_itself)
def test_a_script_names_its_parameters_as_its_header_does(kind: str, script: Script) -> None:
    body = code_of(script.source)
    for index, key in enumerate(script.keys, start=1):
        holder = "keys" if key.name == "meta" else key.name
        assert re.search(rf"\b{holder}\b", body), key.name
        assert f"KEYS[{index}]" in body
    for argument in script.arguments:
        is_named = argument.is_repeated or re.search(rf"\b{argument.name}_?\b", body)
        assert is_named or "ARGV[" in body, argument.name


@each_kind
def test_the_samples_know_every_reply_of_every_header(kind: str) -> None:
    known = {name: set(words) for name, words in REPLIES[kind].items()}

    assert known == {
        name: set(script.replies) - WITHOUT_A_REPLY.get(name, set())
        for name, script in SAMPLES[kind].scripts.items()
    }


@each_script()
def test_a_script_answers_what_its_header_lists(kind: str, script: Script) -> None:
    answered = answers_of(script) - {"superseded"} - NEVER_ANSWERED.get(script.name, set())

    assert answered == set(script.replies)


@each_reply
def test_a_decoder_knows_the_reply(kind: str, name: str, word: str) -> None:
    code = REFUSALS_OF.get((name, word), REFUSALS.get(word, ""))
    try:
        COMMANDS[kind][name].decode(REPLIES[kind][name][word])
    except (QueueAbsent, QueueTaken, IdTaken, MoreToDo, NoPartition):
        assert word in ("no_queue", "queue_exists", "taken", "more", "no_partition", "other_log")
    except ProtocolError as error:
        assert word == "other_layout" and "upgrade this program" in str(error)
    except PenstockError as refusal:
        assert refusal.code == code
    else:
        assert code == ""
        assert word not in ("other_layout", "queue_exists")


@each_script()
def test_a_decoder_refuses_a_reply_that_its_header_does_not_list(kind: str, script: Script) -> None:
    reply: list[Any] = [b"surprise", b"0", b"0"]
    if script.name in BEGIN_WITH_REFUSED:
        reply.insert(0, [])

    with pytest.raises(ProtocolError, match="run the same version of penstock everywhere"):
        COMMANDS[kind][script.name].decode(reply)


@each_script()
def test_a_script_uses_only_permitted_commands(kind: str, script: Script) -> None:
    allowed = BOUNDED[kind] | BOUNDED_BY_SCRIPT[kind].get(script.name, set())
    for dialect, more in (
        (STANDALONE, set()),
        (CLUSTER, ON_A_CLUSTER_OF_REDIS_7),
        (SIMULATED, set()),
    ):
        text = code_of(script.text(dialect))
        permitted = PERMITTED[kind] | more
        used = set(re.findall(r"(?:redis\.call|call_in_chunks)\('(\w+)'", text))
        bounded = {
            (command, key)
            for command, key in re.findall(r"redis\.call\('(\w+)', ([^,)]+)[,)]", text)
            if command not in permitted
        }

        assert BOUNDED_BY_SCRIPT[kind].get(script.name, set()) <= bounded <= allowed
        assert used - {command for command, _ in bounded} <= permitted


@each_script()
def test_a_script_reads_no_more_of_a_list_than_it_says(kind: str, script: Script) -> None:
    text = code_of(script.text())

    if script.name in COUNTS_FIRST:
        text = re.sub(r"\('[LZ]RANGE', \w+, 0, -1\)", "", text)
    # Up to the end means up to any length, but where the start says how far from the end.
    assert not re.search(r"\('(?:LRANGE|ZRANGE)', [^()]*, 0, -1", text)
    for call in re.findall(r"\('(?:ZRANGEBYSCORE|ZREVRANGEBYSCORE|HSCAN|XRANGE)',[^\n]+", text):
        assert "'LIMIT'" in call or "'COUNT'" in call


@each_script()
def test_a_script_has_no_loop_without_an_end(kind: str, script: Script) -> None:
    text = code_of(script.text())
    loops = re.findall(r"\bwhile (.+) do$", text, re.MULTILINE)

    assert not re.search(r"\brepeat\b|\bgoto\b", text)
    assert all("<" in condition for condition in loops)


@each_script()
def test_a_script_leaves_payloads_alone(kind: str, script: Script) -> None:
    assert "cjson" not in script.text()
    assert "loadstring" not in script.text()


@each_script()
def test_a_script_has_every_fragment_put_in(kind: str, script: Script) -> None:
    assert set(script.included) <= FRAGMENTS
    assert "-- include" not in script.text()


@each_script()
def test_a_script_touches_only_keys_that_are_declared(kind: str, script: Script) -> None:
    text = code_of(script.text())
    used = set(re.findall(r"\bkeys\.(\w+)", text)) | set(re.findall(r"keys\['(\w+):'\]", text))

    assert used <= KINDS[kind].key_types.keys() | CHANNELS | NOTED


@each_script()
def test_a_guard_gives_each_key_its_type(kind: str, script: Script) -> None:
    types = KINDS[kind].key_types
    for type_, names in re.findall(r"\b(hash|zset|set|list|stream) = \{([^}]+)\}", script.text()):
        for name in re.findall(r"'(\w+)'", names):
            assert types[name] == type_, name
    for name, command in re.findall(r"\b(\w+) = '(HLEN|ZCARD|SCARD)'", script.text()):
        if name not in ("hash", "zset", "set"):
            assert types[name] == {"HLEN": "hash", "ZCARD": "zset", "SCARD": "set"}[command], name


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


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_a_script_includes_only_what_it_uses(script: Script) -> None:
    for fragment in script.included:
        others = tuple(name for name in script.included if name != fragment)
        with pytest.raises(LinkError, match="no fragment that is included defines it"):
            replace(script, included=others).text()


def test_every_folder_of_scripts_is_a_kind() -> None:
    folders = {path.name for path in PACKAGE.glob("store/scripts/*") if path.is_dir()}

    assert folders == {*SCRIPT_KINDS, "fragments"}


@each_file
def test_no_script_spells_a_key(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text())
    # Scripts on jobs put a kind of key after the tag of the queue; which kinds there are is
    # written in keys.py. Listings (a state, a letter and a colon, as in `rT:email`) are no keys.
    forms = r"keys\['(\w+):'\]|\bkeys\.(\w+)|\bbase \.\. '(\w+):?'"
    used = {name for names in re.findall(forms, code) for name in names if name}
    listing = re.compile(r"[a-z*]?[ATNGW]:|0?:|\^\(-\?%d\+\):\(\.\*\)\$")
    texts = re.findall(r"'([^']*)'", re.sub(forms, "", code))
    spelled = [text for text in texts if ":" in text and not listing.fullmatch(text)]

    assert used <= QUEUE_KEYS | CHANNELS | NOTED
    assert spelled == ([SIMULATED_CLOCK] if path.stem == "simulated_clock" else [])


def test_no_python_file_spells_a_key() -> None:
    parts = {key.name for script in scripts() for key in script.keys} | QUEUE_KEYS
    spelling = re.compile(rf"(^|[\w}}]):({'|'.join(sorted(parts))})(:|$)")
    guilty = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and spelling.search(node.value)
    }

    passed = [key for of_kind in COMMANDS.values() for it in of_kind.values() for key in it.keys]
    assert all(spelling.search(key) for key in passed)
    assert guilty == set()


@each_kind
def test_every_key_is_passed_to_some_script_or_named_by_one(kind: str) -> None:
    passed = {part_of(key) for command in COMMANDS[kind].values() for key in command.keys}
    code = "".join(code_of(script.text()) for script in SAMPLES[kind].scripts.values())
    named = set(re.findall(r"\bkeys\.(\w+)|keys\['(\w+):'\]", code))
    # What is about all queues, workers and batches is among the samples of tasks.
    shared = [it for it in COMMANDS["tasks"].values() if it.script.kind not in KINDS]
    used = passed | {name for pair in named for name in pair}
    used |= {part_of(key) for command in shared for key in command.keys}

    assert KINDS[kind].key_types.keys() | KEY_TYPES.keys() <= used


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
        words |= set(re.findall(r"(?:\{|insert\(\w+, 1, )'([a-z_]+)'", body))
        for pair in re.findall(
            r"(?:return|reply =) \{[^{}\n]* and '([a-z_]+)' or '([a-z_]+)'", body
        ):
            words |= set(pair)
        called = (set(re.findall(r"([\w.]+)\(", body)) & functions.keys()) - seen
        seen |= called
        todo += [functions[name] for name in called]
    states = set(STATE_CODES.values())
    return words - {"incarnation", "max_length", "priority", "born", "keep_ms"} - states
