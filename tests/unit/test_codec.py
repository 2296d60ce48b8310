"""Tasks to elements and events, and back."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.codec.elements import TAG, plain_element, task_of
from penstock.codec.events import decode_event
from penstock.codec.notices import Notice, done_notice, open_notice
from penstock.model.events import Event

TASKS = st.binary(max_size=100) | st.binary(max_size=40).map(TAG.__add__)


@given(task=TASKS)
@example(task=b"")
@example(task=TAG)
@example(task=TAG + TAG)
@example(task=plain_element(TAG))
def test_a_task_comes_back_from_its_element(task: bytes) -> None:
    assert task_of(plain_element(task)) == task


@given(task=st.binary(max_size=100).filter(lambda task: not task.startswith(TAG)))
@example(task=TAG[:-1])
@example(task=b"a" + TAG)
def test_an_ordinary_task_is_its_own_element(task: bytes) -> None:
    assert plain_element(task) == task


@given(first=TASKS, second=TASKS)
def test_distinct_tasks_have_distinct_elements(first: bytes, second: bytes) -> None:
    assert (plain_element(first) == plain_element(second)) is (first == second)


@given(
    task=TASKS, key=st.binary(min_size=1, max_size=1025), holder=st.binary(min_size=8, max_size=8)
)
def test_a_unique_task_comes_back_from_its_element(task: bytes, key: bytes, holder: bytes) -> None:
    element = TAG + struct.pack(">H", len(key)) + key + holder + task

    assert task_of(element) == task
    assert plain_element(task) != element


@given(task=TASKS, result=TASKS, worker=st.text("abc.~_-09", min_size=1, max_size=255))
def test_a_done_event_says_who_finished_what_with_which_result(
    task: bytes, result: bytes, worker: str
) -> None:
    message = struct.pack(">H", len(worker)) + worker.encode()
    message += struct.pack(">I", len(task)) + task + result

    event = decode_event("done", "mail", message)

    assert event == Event("done", "mail", task=task, worker=worker, result=result)


@given(task=TASKS)
def test_a_cancel_event_has_the_task(task: bytes) -> None:
    assert decode_event("cancel", "mail", b"17 " + task) == Event("cancel", "mail", task=task)


def test_work_and_delete_events_are_counts() -> None:
    assert decode_event("work", "mail", b"3") == Event("work", "mail", count=3)
    assert decode_event("delete", "mail", b"0 17") == Event("delete", "mail")


@given(number=st.integers(0, 2**63 - 1), outcome=st.binary(max_size=100))
def test_a_notice_that_a_job_is_done_begins_as_expected(number: int, outcome: bytes) -> None:
    assert open_notice(done_notice(number) + outcome) == Notice(number, "d", "", outcome)
