"""Sentences of a session as they read to its owner, and to somebody else."""

from __future__ import annotations

import re

import pytest

from jupyterhub_backendai.model.slots import GIB, Limits, Slots
from jupyterhub_backendai.scheduling import reasons
from jupyterhub_backendai.scheduling.reasons import Machines
from jupyterhub_backendai.service.pages.words import said_to
from jupyterhub_backendai.site.ending import ended_by

WANTED, FREE = Slots(4000, 8 * GIB), Slots(1000, 4 * GIB)
LIMITS = Limits(cpu=2000, mem=4 * GIB, fgpu=0, sessions=2)
NO_ROOM = reasons.no_room(WANTED, Machines("default", 2, FREE, FREE))
SENTENCES = [
    *(reasons.waiting(NO_ROOM, position) for position in (1, 2, 3)),
    reasons.agent_full(WANTED, "local", FREE),
    reasons.kept_room(2),
    reasons.in_order("default", 1),
    *(reasons.sessions_full(2, 2, project) for project in (None, "lab")),
    *(reasons.quota_full(WANTED, ["cpu"], FREE, LIMITS, project) for project in (None, "lab")),
    *(reasons.quota_kept(["cpu", "sessions"], LIMITS, project) for project in (None, "lab")),
    reasons.machine_silent("local"),
    reasons.machine_drained("local"),
    reasons.machine_gone("local", "default"),
    *(reasons.never_allowed(WANTED, ["cpu", "mem"], LIMITS, project) for project in (None, "lab")),
    *(reasons.never_allowed(WANTED, ["sessions"], LIMITS, project) for project in (None, "lab")),
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_an_owner_is_told_is_told_of_them_to_others(sentence: str) -> None:
    assert re.search(r"\b[Yy]ou", sentence)
    assert said_to("alice", sentence, "alice") == sentence
    told = said_to("admin", sentence, "alice")
    assert not re.search(r"\b[Yy]ou", told)
    assert len(told) > len(sentence) / 2


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        (NO_ROOM + "; you are next.", NO_ROOM + "; it is next."),
        (
            "You have 2 of 2 sessions. This one starts when one of them ends.",
            "alice has 2 of 2 sessions. This one starts when one of them ends.",
        ),
        (
            "You hold 2 of your 2 CPU cores; this session asks 1. "
            "It starts when enough of yours end.",
            "alice holds 2 of their 2 CPU cores; this session asks 1. "
            "It starts when enough of theirs end.",
        ),
        (
            "Starts when your-job has ended in success.",
            "Starts when your-job has ended in success.",
        ),
        ("Memory ran out.", "Memory ran out."),
    ],
)
def test_how_it_reads(sentence: str, told: str) -> None:
    assert said_to("admin", sentence, "alice") == told


@pytest.mark.parametrize(
    ("by", "reader", "told"),
    [
        ("alice", "alice", "You ended it."),
        ("admin", "alice", "admin ended it."),
        ("admin", "admin", "You ended it."),
        ("alice", "admin", "alice ended it."),
        ("You", "alice", "You ended it."),  # as it was kept once, of owners
        ("You", "admin", "alice ended it."),
    ],
)
def test_who_ended_it(by: str, reader: str, told: str) -> None:
    more = " Its command got 10 seconds to end."
    assert said_to(reader, ended_by(by) + more, "alice") == told + more
