"""Which commands a role needs, as the text of the scripts says."""

from __future__ import annotations

import re

import pytest

from penstock.store.keys import NamespaceKeys
from penstock.store.permissions import (
    OPTION_WORDS,
    READS,
    ROLES,
    WRITES,
    Role,
    acl_rules,
    commands_of,
    needed_by,
)
from penstock.store.script import CLUSTER, STANDALONE, Dialect, Script, load, scripts

each_dialect = pytest.mark.parametrize("dialect", [STANDALONE, CLUSTER], ids=["single", "cluster"])


@each_dialect
def test_every_command_that_is_called_by_name_is_found(dialect: Dialect) -> None:
    for script in scripts():
        called = set(re.findall(r"redis\.p?call\('(\w+)'", script.text(dialect)))

        assert called <= commands_of(script, dialect)


def test_commands_in_tables_and_variables_are_found() -> None:
    guarded = "local GUARDS = {hash = 'HLEN'}\nredis.call(GUARDS[KEYS[1]], KEYS[1])"
    chosen = "redis.call(ARGV[1] == '' and 'ZREM' or 'HDEL', KEYS[1]) -- never 'FLUSHALL'"

    assert commands_of(Script("guarded", guarded)) == {"HLEN"}
    assert commands_of(Script("chosen", chosen)) == {"ZREM", "HDEL"}


@each_dialect
def test_what_is_listed_is_what_scripts_use(dialect: Dialect) -> None:
    used = frozenset().union(*(commands_of(script, dialect) for script in scripts()))

    assert used - {"PUBLISH", "SPUBLISH"} == READS | WRITES
    assert not READS & WRITES


def test_option_words_are_those_that_scripts_use() -> None:
    words = {
        word
        for script in scripts()
        for dialect in (STANDALONE, CLUSTER)
        for word in re.findall(r"'([A-Z]+)'", script.text(dialect))
    }

    assert words >= OPTION_WORDS


def test_an_observer_changes_nothing() -> None:
    told = {"EVAL", "EVALSHA", "INFO", "PING", "SUBSCRIBE"}

    assert needed_by("observer") - READS == told


def test_each_role_does_what_the_one_below_it_does_and_more() -> None:
    assert needed_by("observer") < needed_by("producer") < needed_by("worker")
    assert commands_of(load("jobs/send_jobs")) <= needed_by("producer")
    assert not commands_of(load("tasks/start_tasks")) <= needed_by("producer")
    assert not commands_of(load("jobs/start_jobs")) <= needed_by("producer")


@pytest.mark.parametrize("role", ROLES)
def test_rules_name_one_namespace_and_no_category(role: Role) -> None:
    rules = acl_rules(role, NamespaceKeys("my shop*"))

    assert rules[:5] == [
        *("resetkeys", "~{my%20shop%2A[:}]*"),
        *("resetchannels", "&{my%20shop%2A[:}]*", "-@all"),
    ]
    assert all(re.fullmatch(r"\+[a-z|]+", rule) for rule in rules[5:])
    assert {f"+{command.lower()}" for command in needed_by(role)} <= set(rules)


def test_rules_for_a_cluster_have_its_commands_too() -> None:
    rules = acl_rules("worker", NamespaceKeys("shop"), CLUSTER)

    assert {"+spublish", "+ssubscribe", "+cluster|slots", "+asking"} <= set(rules)
