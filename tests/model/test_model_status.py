"""The transition table as data."""

from __future__ import annotations

import itertools

import pytest

from jupyterhub_backendai.model.status import (
    FINAL,
    HOLDING,
    LIVE,
    TRANSITIONS,
    IllegalTransition,
    Status,
    check_transition,
)

S = Status


def reachable(start: Status) -> set[Status]:
    found, new = set(), {start}
    while new:
        found |= new
        new = {after for status in new for after in TRANSITIONS[status]} - found
    return found


def test_every_status_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Status)
    assert all(status.value == status.name for status in Status)


@pytest.mark.parametrize("status", Status)
def test_each_status_reaches_an_end_and_ends_are_ends(status: Status) -> None:
    if status in FINAL:
        assert reachable(status) == {status}
        assert status.is_final
    else:
        assert reachable(status) & FINAL
        assert not status.is_final
        # One step is enough to fail, whatever happens.
        assert S.ERROR in TRANSITIONS[status]


def test_everything_is_reached_from_the_beginning() -> None:
    assert reachable(S.PENDING) == set(Status)


def test_live_and_final_part_all_statuses() -> None:
    assert set(Status) == LIVE | FINAL
    assert not LIVE & FINAL
    assert {S.TERMINATED, S.CANCELLED, S.ERROR} == FINAL


def test_who_has_a_place_holds_resources_until_it_is_gone() -> None:
    assert LIVE - {S.PENDING, S.HIBERNATED} == HOLDING
    assert {status for status in Status if status.holds_resources} == HOLDING


def test_where_a_container_may_be_the_end_leads_through_terminating() -> None:
    for status in (S.PREPARING, S.PULLING, S.CREATING, S.RUNNING):
        assert not TRANSITIONS[status] & {S.TERMINATED, S.CANCELLED}
        assert S.TERMINATING in TRANSITIONS[status]


def test_only_a_session_on_its_way_can_go_back_in_line() -> None:
    back = {status for status in Status if S.PENDING in TRANSITIONS[status]}
    assert back == {S.SCHEDULED, S.PREPARING, S.PULLING, S.CREATING, S.HIBERNATED}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(Status, Status)))
def test_the_check_is_the_table(old: Status, new: Status) -> None:
    if new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition, match=f"{old.value} to {new.value}"):
            check_transition(old, new)
