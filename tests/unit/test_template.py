"""A filled template is the packed command, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.template import TaskTemplate
from penstock.client.wire import pack
from penstock.codec.elements import TAG
from penstock.store.command import Command, Operation
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

    template = TaskTemplate(build, DIGEST)
    command = build(Operation(lane, number), task)

    packed = pack("EVALSHA", DIGEST, len(command.keys), *command.keys, *command.args)

    assert template.fill(lane, number, task) == packed
    assert template.fill(lane, number, task) == packed


def test_a_command_of_another_form_is_refused() -> None:
    keys = NamespaceKeys("n").queue("q")

    with pytest.raises(AssertionError, match="not of this form"):
        TaskTemplate(lambda operation, task: cancel_tasks(keys, operation, task), DIGEST)
