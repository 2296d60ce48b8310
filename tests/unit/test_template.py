"""A filled template is the packed command, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.parcels import groups_of
from penstock.client.template import Template
from penstock.client.wire import ReplyError, pack
from penstock.codec.elements import TAG, plain_element
from penstock.model.job_options import make_options
from penstock.store.command import Command, Operation
from penstock.store.commands.jobs import send_jobs
from penstock.store.commands.tasks import cancel_tasks, enqueue_tasks
from penstock.store.keys import NamespaceKeys

DIGEST = "a" * 40


@given(
    queue=st.sampled_from(["mail", "with space", "100% sure", "{a}:b", "ü%d%b"]),
    lane=st.text("0123456789abcdef.", min_size=1, max_size=30),
    number=st.integers(1, 2**53),
    task=st.binary(max_size=300) | st.binary(max_size=20).map(TAG.__add__),
)
def test_a_filled_template_is_the_packed_command(
    queue: str, lane: str, number: int, task: bytes
) -> None:
    keys = NamespaceKeys("50% off").queue(queue)

    def build(operation: Operation, task: bytes) -> Command[int]:
        return enqueue_tasks(keys, operation, (task,))

    template = Template(build, DIGEST, values=1, usual=[b"ok"], more=1)
    command = build(Operation(lane, number), task)

    packed = pack("EVALSHA", DIGEST, len(command.keys), *command.keys, *command.args)

    for _ in range(2):
        assert template.fill(lane, number, plain_element(task)) == packed


@given(
    lane=st.text("0123456789abcdef.", min_size=1, max_size=30),
    number=st.integers(1, 2**53),
    id_number=st.integers(0, 2**63 - 1),
    data=st.binary(max_size=300),
    tenant=st.sampled_from(["", "acme", "100% sure"]),
)
def test_so_it_is_for_a_job(
    lane: str, number: int, id_number: int, data: bytes, tenant: str
) -> None:
    keys = NamespaceKeys("50% off").queue("mail")
    options = make_options("e%d", {"tenant": tenant, "priority": -5, "delay": 1})

    def build(operation: Operation, id_number: int, data: bytes) -> Command[dict[int, int]]:
        return send_jobs(keys, operation, groups_of(options, [id_number], [data]))

    template = Template(build, DIGEST, values=2, usual=[b"ok"], more=0)
    command = build(Operation(lane, number), id_number, data)

    packed = pack("EVALSHA", DIGEST, len(command.keys), *command.keys, *command.args)

    assert template.fill(lane, number, b"%d" % id_number, data) == packed


def test_the_usual_answer_says_nothing_more() -> None:
    template = Template(
        lambda operation, task: enqueue_tasks(NamespaceKeys("n").queue("q"), operation, (task,)),
        DIGEST,
        values=1,
        usual=[b"ok"],
        more=1,
    )

    assert template.is_usual([b"ok", 7])
    for reply in ([b"ok"], [b"ok", 0, b"7"], [b"full", 1], ReplyError("ERR"), None):
        assert not template.is_usual(reply)
        assert reply != template.whole_usual


def test_a_command_of_another_form_is_refused() -> None:
    keys = NamespaceKeys("n").queue("q")

    with pytest.raises(AssertionError, match="not of this form"):
        Template(
            lambda operation, task: cancel_tasks(keys, operation, task),
            DIGEST,
            values=1,
            usual=[b"ok"],
            more=1,
        )
