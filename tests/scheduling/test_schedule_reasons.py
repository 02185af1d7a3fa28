"""Each sentence, word by word, as the person who waits reads it."""

from __future__ import annotations

import pytest
from scheduling_cases import (
    NOW,
    agent,
    holding,
    limits,
    pending,
    reason,
    slots,
    snapshot,
    verdict,
    wait_of,
)

from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Result
from jupyterhub_backendai.model.steps import Step
from jupyterhub_backendai.scheduling import reasons
from jupyterhub_backendai.scheduling.queue import schedule
from jupyterhub_backendai.scheduling.snapshot import GroupRule, Pending

OLD = NOW - 901
TWO = [agent("m1"), agent("m2")]


def fill(**cpu: float) -> list:
    """Machines by name, with so many cores of each taken."""
    return [holding(f"on {name}", name, cpu=n) for name, n in cpu.items()]


class TestRoom:
    def test_less_than_is_asked_is_free(self) -> None:
        some = [pending(f"s{i}", cpu=2, submitted_at=NOW - 10 + i) for i in range(3)]
        assert reason(snapshot(some, TWO, fill(m1=3, m2=4)), "s2") == (
            "Waiting for 2 CPU cores: 1 is free on the two machines of default; "
            "2 sessions are before you."
        )

    def test_one_before(self) -> None:
        some = [pending(f"s{i}", cpu=2, submitted_at=NOW - 10 + i) for i in range(2)]
        assert reason(snapshot(some, TWO, fill(m1=3, m2=4)), "s1").endswith(
            "; 1 session is before you."
        )

    def test_one_machine_with_nothing_free(self) -> None:
        assert reason(snapshot([pending("s", cpu=1)], [agent("m")], fill(m=4)), "s") == (
            "Waiting for 1 CPU core: none is free on the machine of default; you are next."
        )

    def test_half_a_core(self) -> None:
        snap = snapshot([pending("s", cpu=2)], [agent("m")], fill(m=3.5))
        assert "Waiting for 2 CPU cores: 0.5 is free on" in reason(snap, "s")
        snap = snapshot([pending("s", cpu=2)], [agent("m")], fill(m=2.5))
        assert "Waiting for 2 CPU cores: 1.5 are free on" in reason(snap, "s")

    def test_split_over_machines(self) -> None:
        assert reason(snapshot([pending("s", cpu=2)], TWO, fill(m1=3, m2=3)), "s") == (
            "Waiting for 2 CPU cores: 2 are free on the two machines of default, "
            "but not on one machine: the most on one machine is 1; you are next."
        )

    def test_split_over_many_machines(self) -> None:
        agents = [agent(f"m{i}") for i in range(13)]
        held = [holding(f"h{i}", f"m{i}", cpu=3.5) for i in range(13)]
        assert reason(snapshot([pending("s", cpu=1)], agents, held), "s") == (
            "Waiting for 1 CPU core: 6.5 are free on the 13 machines of default, "
            "but not on one machine: the most on one machine is 0.5; you are next."
        )

    def test_memory(self) -> None:
        held = [holding("h", "m", mem=61)]
        assert reason(snapshot([pending("s", mem=8)], [agent("m")], held), "s") == (
            "Waiting for 8 GB of memory: 3 GB is free on the machine of default; you are next."
        )

    def test_figures_that_look_equal_are_not_told_as_equal(self) -> None:
        held = [holding("h", "m", mem=60)]
        snap = snapshot([pending("s", mem=4 + 1 / GIB)], [agent("m")], held)
        assert "Waiting for 4 GB of memory: a little less is free on the" in reason(snap, "s")

    def test_two_slots(self) -> None:
        held = [holding("h", "m", cpu=3, mem=64)]
        assert reason(snapshot([pending("s", cpu=2, mem=8)], [agent("m")], held), "s") == (
            "Waiting for 2 CPU cores and 8 GB of memory: 1 CPU core and no memory are free "
            "on the machine of default; you are next."
        )

    def test_two_slots_split(self) -> None:
        held = [holding("h", "m1", cpu=3, mem=60), holding("i", "m2", cpu=3, mem=62)]
        assert reason(snapshot([pending("s", cpu=3, mem=5)], TWO, held), "s") == (
            "Waiting for 3 CPU cores and 5 GB of memory: 2 CPU cores and 6 GB of memory are free "
            "on the two machines of default, but not on one machine: the most on one machine is "
            "1 CPU core and 4 GB of memory; you are next."
        )

    def test_each_on_another_machine(self) -> None:
        held = [holding("h", "m1", cpu=4, mem=0), holding("i", "m2", cpu=0, mem=64)]
        assert reason(snapshot([pending("s", cpu=2, mem=8)], TWO, held), "s") == (
            "Waiting for 2 CPU cores and 8 GB of memory on one machine: "
            "no machine of default has them free together; you are next."
        )

    def test_fgpu_counts_machines_that_have_it(self) -> None:
        agents = [agent("m1"), agent("g1", fgpu=4)]
        held = [holding("h", "g1", fgpu=2.5)]
        assert reason(snapshot([pending("s", fgpu=2)], agents, held), "s") == (
            "Waiting for 2 FGPU: 1.5 are free on the machine of default with FGPU; you are next."
        )
        agents.append(agent("g2", fgpu=1))
        assert "2.5 are free on the two machines of default that have FGPU, but not on one" in (
            reason(snapshot([pending("s", fgpu=2)], agents, held), "s")
        )

    def test_machines_that_do_not_answer_are_not_counted(self) -> None:
        agents = [agent("m1"), agent("m2", available=False)]
        assert "none is free on the machine of default;" in reason(
            snapshot([pending("s")], agents, fill(m1=4)), "s"
        )

    def test_what_starts_in_this_pass_is_not_free(self) -> None:
        some = [pending("a", cpu=3), pending("s", cpu=2)]
        assert "1 is free" in reason(snapshot(some, [agent("m")]), "s")

    def test_chosen_machine(self) -> None:
        snap = snapshot([pending("s", cpu=2, agent="m1")], TWO, fill(m1=3))
        assert reason(snap, "s") == (
            "Waiting for 2 CPU cores on m1, which you chose: 1 is free there; you are next."
        )
        held = [holding("h", "m1", cpu=3, mem=64)]
        assert reason(snapshot([pending("s", cpu=2, agent="m1")], TWO, held), "s") == (
            "Waiting for 2 CPU cores and 1 GB of memory on m1, which you chose: "
            "1 CPU core and no memory are free there; you are next."
        )


class TestBehind:
    def test_backfill(self) -> None:
        some = [pending("big", cpu=4, submitted_at=OLD), pending("s")]
        assert reason(snapshot(some, [agent("m")], fill(m=1)), "s") == (
            "There is room, but it is kept for a session before this one; 1 session is before you."
        )

    def test_strict(self) -> None:
        some = [pending("big", cpu=4, submitted_at=OLD), pending("s")]
        rules = [GroupRule("default", mode="strict")]
        assert reason(snapshot(some, [agent("m")], fill(m=1), rules=rules), "s") == (
            "default starts sessions strictly in order; 1 session is before you."
        )

    def test_own_quota(self) -> None:
        some = [pending("big", cpu=8, owner="u", submitted_at=OLD), pending("s", owner="u")]
        held = [holding("h", "m", owner="u", cpu=2)]
        snap = snapshot(some, [agent("m", cpu=16)], held, {"u": limits(cpu=8)})
        assert reason(snap, "s") == (
            "What is left of your 8 CPU cores is kept for a session of yours before this one."
        )

    def test_sessions(self) -> None:
        some = [pending("big", cpu=8, owner="u", submitted_at=OLD), pending("s", owner="u")]
        snap = snapshot(some, [agent("m", cpu=8)], fill(m=1), {"u": limits(sessions=1)})
        assert reason(snap, "s") == (
            "What is left of your 1 session is kept for a session of yours before this one."
        )

    def test_project(self) -> None:
        some = [
            pending("big", cpu=8, project="cs101", submitted_at=OLD),
            pending("s", cpu=1, mem=8, project="cs101"),
        ]
        held = [holding("h", "m", project="cs101", cpu=2)]
        snap = snapshot(
            some, [agent("m", cpu=16)], held, projects={"cs101": limits(cpu=8, mem=9.5)}
        )
        assert reason(snap, "s") == (
            "What is left of the 8 CPU cores and 9.5 GB of memory of your project cs101 "
            "is kept for a session before this one."
        )


class TestQuotas:
    def told(self, held: list, mine: Pending, **quota: dict) -> str:
        return reason(snapshot([mine], [agent("m", cpu=99, mem=999)], held, **quota), mine.id)

    def test_slots(self) -> None:
        held = [holding("h", "m", owner="u", cpu=6)]
        told = self.told(held, pending("s", owner="u", cpu=4), owners={"u": limits(cpu=8)})
        assert told == (
            "You hold 6 of your 8 CPU cores; this session asks 4. "
            "It starts when enough of yours end."
        )

    def test_memory(self) -> None:
        held = [holding("h", "m", owner="u", mem=6)]
        told = self.told(held, pending("s", owner="u", mem=4), owners={"u": limits(mem=8)})
        assert told.startswith("You hold 6 GB of your 8 GB of memory; this session asks 4 GB. It")

    def test_two_slots(self) -> None:
        held = [holding("h", "m", owner="u", cpu=1, mem=6)]
        mine = pending("s", owner="u", cpu=1, mem=4)
        assert self.told(held, mine, owners={"u": limits(cpu=1, mem=8)}) == (
            "You hold 1 of your 1 CPU core and 6 GB of your 8 GB of memory; "
            "this session asks 1 CPU core and 4 GB of memory. It starts when enough of yours end."
        )

    def test_project(self) -> None:
        held = [holding("h", "m", project="cs101", cpu=30)]
        mine = pending("s", project="cs101", cpu=4)
        assert self.told(held, mine, projects={"cs101": limits(cpu=32)}) == (
            "Your project cs101 uses 30 of its 32 CPU cores; this session asks 4. "
            "It starts when enough of its sessions end."
        )

    @pytest.mark.parametrize(
        ("held", "limit", "told"),
        [
            (3, 3, "You have 3 of 3 sessions. This one starts when one of them ends."),
            (1, 1, "You have 1 of 1 session. This one starts when it ends."),
            (5, 3, "You have 5 of 3 sessions. This one starts when three of them end."),
            (2, 1, "You have 2 of 1 session. This one starts when two of them end."),
        ],
    )
    def test_sessions(self, held: int, limit: int, told: str) -> None:
        some = [holding(f"h{i}", "m", owner="u") for i in range(held)]
        mine = pending("s", owner="u")
        assert self.told(some, mine, owners={"u": limits(sessions=limit)}) == told

    def test_sessions_of_a_project(self) -> None:
        held = [holding(f"h{i}", "m", project="cs101") for i in range(5)]
        mine = pending("s", project="cs101")
        assert self.told(held, mine, projects={"cs101": limits(sessions=5)}) == (
            "Your project cs101 has 5 of 5 sessions. This one starts when one of them ends."
        )


class TestNever:
    def told(self, mine: Pending, agents: list, **quota: dict) -> str:
        found = verdict(snapshot([], agents, **quota), mine)
        assert found.code == "never"
        return found.reason

    def test_larger_than_the_largest(self) -> None:
        assert self.told(pending("s", cpu=3), [agent("m", cpu=2), agent("n", cpu=1)]) == (
            "Never fits: asks 3 CPU cores, the largest machine of default has 2."
        )

    def test_two_slots(self) -> None:
        assert self.told(pending("s", cpu=3, mem=65), [agent("m", cpu=1)]) == (
            "Never fits: asks 3 CPU cores and 65 GB of memory, "
            "the most on one machine of default is 1 CPU core and 64 GB of memory."
        )

    def test_no_fgpu_at_all(self) -> None:
        assert self.told(pending("s", fgpu=1), TWO) == (
            "Never fits: asks 1 FGPU, no machine of default has any."
        )

    def test_not_together(self) -> None:
        agents = [agent("m", cpu=8, mem=4), agent("n", cpu=2)]
        assert self.told(pending("s", cpu=8, mem=8), agents) == (
            "Never fits: no machine of default has 8 CPU cores and 8 GB of memory together."
        )

    def test_on_the_chosen_machine(self) -> None:
        agents = [agent("m"), agent("n", cpu=8)]
        assert self.told(pending("s", cpu=5, agent="m"), agents) == (
            "Never fits: asks 5 CPU cores, m has 4."
        )
        assert self.told(pending("s", fgpu=1, agent="m"), agents) == (
            "Never fits: asks 1 FGPU, m has none."
        )
        assert self.told(pending("s", cpu=5, mem=65, agent="m"), agents) == (
            "Never fits: asks 5 CPU cores and 65 GB of memory, m has 4 CPU cores and 64 GB of "
            "memory."
        )

    def test_above_a_limit(self) -> None:
        mine = pending("s", owner="u", project="p", fgpu=10)
        agents = [agent("m", fgpu=10)]
        assert self.told(mine, agents, owners={"u": limits(fgpu=6)}) == (
            "Never fits: asks 10 FGPU, your limit is 6."
        )
        assert self.told(mine, agents, projects={"p": limits(fgpu=6)}) == (
            "Never fits: asks 10 FGPU, the limit of your project p is 6."
        )
        assert self.told(mine, agents, owners={"u": limits(cpu=0.5, fgpu=0)}) == (
            "Never fits: asks 1 CPU core and 10 FGPU, your limit is 0.5 CPU cores and no FGPU."
        )
        assert self.told(mine, agents, owners={"u": limits(sessions=0)}) == (
            "Never starts: your limit is 0 sessions."
        )


class TestMachines:
    def test_none_answers(self) -> None:
        told = "default has no machine that answers. The admin has been told."
        assert reason(snapshot([pending("s")], []), "s") == told
        assert reason(snapshot([pending("s")], [agent("m", available=False)]), "s") == told

    def test_the_large_one_does_not_answer(self) -> None:
        agents = [agent("m"), agent("n", cpu=8, available=False)]
        assert reason(snapshot([pending("s", cpu=6)], agents), "s") == (
            "No machine of default that answers has 6 CPU cores; one that does not answer may. "
            "The admin has been told."
        )

    def test_one_that_never_answered_may_have_anything(self) -> None:
        unknown = agent("n", cpu=0, mem=0, available=False)
        told = "default has no machine that answers. The admin has been told."
        assert reason(snapshot([pending("s", fgpu=1)], [unknown]), "s") == told
        assert reason(snapshot([pending("s", agent="n")], [unknown]), "s") == (
            "n, which you chose, does not answer. The admin has been told."
        )
        assert "one that does not answer may" in reason(
            snapshot([pending("s", fgpu=1)], [agent("m"), unknown]), "s"
        )
        assert reason(snapshot([pending("s", fgpu=1)], [agent("m")]), "s").startswith("Never fits")

    def test_the_chosen_one(self) -> None:
        agents = [agent("m"), agent("n", available=False)]
        assert reason(snapshot([pending("s", agent="n")], agents), "s") == (
            "n, which you chose, does not answer. The admin has been told."
        )
        assert reason(snapshot([pending("s", agent="x")], agents), "s") == (
            "x, which you chose, is not a machine of default. "
            "Cancel this session and choose another."
        )


class TestDrained:
    """Machines that take no sessions because their admin says so."""

    def told(self, mine: Pending, agents: list) -> tuple[str, str]:
        wait = wait_of(schedule(snapshot([mine], agents)), "s")
        assert wait.result is Result.NEED_RETRY
        assert wait.stopped_by is Step.AGENTS
        return wait.code, wait.reason

    def test_all_of_a_group(self) -> None:
        drained = [agent(name, schedulable=False) for name in "mn"]
        later = "This session waits until that is over."
        assert self.told(pending("s"), drained[:1]) == (
            "drained",
            f"default takes no sessions now: the admin is draining its machine. {later}",
        )
        assert self.told(pending("s"), drained) == (
            "drained",
            f"default takes no sessions now: the admin is draining its machines. {later}",
        )

    def test_some_and_the_others_do_not_answer(self) -> None:
        agents = [agent("m", schedulable=False), agent("n", available=False)]
        assert self.told(pending("s"), agents) == (
            "no_agent",
            "default takes no sessions now: the admin is draining some of its machines, "
            "and the others do not answer. The admin has been told.",
        )

    def test_the_large_one(self) -> None:
        agents = [agent("m"), agent("n", cpu=8, schedulable=False)]
        head = "No machine of default that takes sessions now has 6 CPU cores"
        assert self.told(pending("s", cpu=6), agents) == (
            "drained",
            f"{head}: the admin is draining one that does. This session waits until that is over.",
        )
        silent = agent("o", cpu=8, available=False)
        assert self.told(pending("s", cpu=6), [*agents, silent]) == (
            "no_agent",
            f"{head}; one that does not answer may, and one that the admin is draining. "
            "The admin has been told.",
        )

    @pytest.mark.parametrize("available", [True, False])
    def test_the_chosen_one(self, available: bool) -> None:
        """Whether it answers or not: one that is mended is switched off at some time."""
        agents = [agent("m"), agent("n", schedulable=False, available=available)]
        assert self.told(pending("s", agent="n"), agents) == (
            "drained",
            "n, which you chose, takes no sessions now: the admin is draining it. "
            "This session waits until that is over. "
            "To start sooner, cancel it and choose another machine.",
        )

    def test_what_is_free_there_is_not_counted(self) -> None:
        agents = [agent("m", cpu=2), agent("n", cpu=2), agent("o", cpu=8, schedulable=False)]
        held = [holding("h", "m", cpu=2), holding("i", "n")]
        assert reason(snapshot([pending("s", cpu=2)], agents, held), "s") == (
            "Waiting for 2 CPU cores: 1 is free on the two machines of default; you are next."
        )

    def test_what_never_fits_does_not_wait_for_it(self) -> None:
        agents = [agent("m"), agent("n", cpu=8, schedulable=False)]
        assert reason(snapshot([pending("s", cpu=9)], agents), "s").startswith("Never fits")


def test_start_time() -> None:
    snap = snapshot([pending("s", not_before=1796115600.0)], [agent("m")])
    assert reason(snap, "s") == "Starts at 2026-12-01 09:00 UTC or later, when there is room."


def test_numbers() -> None:
    assert [reasons.number(n) for n in (0, 1, 2, 12, 13)] == ["no", "one", "two", "twelve", "13"]


def test_no_sentence_names_another_user() -> None:
    some = [
        pending("big", cpu=4, owner="alice", submitted_at=OLD),
        pending("s", cpu=2, owner="bob"),
        pending("t", cpu=1, owner="bob"),
    ]
    held = [holding("h", "m", owner="alice", cpu=3)]
    snap = snapshot(some, [agent("m")], held, owners={"alice": limits(cpu=4)})
    waits = schedule(snap).waits
    assert len(waits) == 2
    assert not any("alice" in wait.reason for wait in waits)


def test_three_slots_are_listed() -> None:
    machines = reasons.Machines("lab", 1, Slots(), Slots())
    assert reasons.no_room(slots(1, 1, 1), machines) == (
        "Waiting for 1 CPU core, 1 GB of memory and 1 FGPU: no CPU core, no memory and no FGPU "
        "are free on the machine of lab"
    )
