"""Which jobs are meant: a state, and perhaps a type, a tenant, a tag or why they are dead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from penstock.errors import InvalidArgument
from penstock.model.jobs import DEATH_REASONS, STATE_CODES, JobState, check_state
from penstock.model.names import check_name

if TYPE_CHECKING:
    from penstock.model.jobs import JobInfo

MAX_PAGE = 1000


class FilterSettings(TypedDict, total=False):
    """What jobs can be chosen by, beside their state."""

    type: str
    tenant: str
    tag: str
    reason: str
    """why they are dead; the store has no list of these, so all dead ones are looked at"""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A checked choice. Each part that is empty stands for any."""

    state: JobState
    type: str = ""
    tenant: str = ""
    tag: str = ""
    reason: str = ""


def make_filter(state: str, which: FilterSettings) -> JobFilter:
    for name, value in which.items():
        if name not in FilterSettings.__annotations__:
            known = ", ".join(FilterSettings.__annotations__)
            raise InvalidArgument(f"jobs cannot be chosen by {name!r}, only by state, {known}")
        if value != "":
            check_name(name, value)  # type: ignore[arg-type]
    chosen = JobFilter(check_state(state), **which)
    if chosen.reason and chosen.state != "dead":
        raise InvalidArgument(f"only dead jobs have a reason, not {state} ones; leave it out")
    if chosen.reason and chosen.reason not in DEATH_REASONS:
        raise InvalidArgument(
            f"no job is dead because of {chosen.reason!r}; give one of {', '.join(DEATH_REASONS)}"
        )
    return chosen


def check_one(which: FilterSettings) -> None:
    """Refuse several filters together: the store has no counts for those."""
    if which.get("reason"):
        raise InvalidArgument(
            "jobs are not counted by why they are dead; `page` and `retry` can choose by it"
        )
    given = [name for name, value in which.items() if value]
    if len(given) > 1:
        raise InvalidArgument(
            f"jobs are counted by type, tenant or tag, one at a time, not by {' and '.join(given)}"
        )


def is_counted(chosen: JobFilter) -> bool:
    """Whether the list that `listing_of` names has no other jobs."""
    return not chosen.reason and [chosen.type, chosen.tenant, chosen.tag].count("") >= 2


def listing_of(chosen: JobFilter) -> str:
    """The list in the store that has all chosen jobs, and as few others as possible."""
    code = STATE_CODES[chosen.state]
    if chosen.tag:
        return f"{code}G:{chosen.tag}"
    if chosen.tenant:
        return f"{code}N:{chosen.tenant}"
    return f"{code}T:{chosen.type}" if chosen.type else f"{code}A:"


def matches(job: JobInfo, chosen: JobFilter) -> bool:
    """Whether a job is chosen; it may have changed since it was listed."""
    return (
        job.state == chosen.state
        and chosen.type in ("", job.type)
        and chosen.tenant in ("", job.tenant)
        and (not chosen.tag or chosen.tag in job.tags)
        and chosen.reason in ("", job.reason)
    )


def check_page(limit: int) -> None:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"a page has 1 to {MAX_PAGE} jobs; limit is {limit!r}")
