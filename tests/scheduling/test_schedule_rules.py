"""One example for each rule of the schedule pass."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from random import Random

import pytest
from scheduling_cases import (
    NOW,
    agent,
    holding,
    limits,
    pending,
    placed,
    slots,
    snapshot,
    verdict,
    wait_of,
)

from jupyterhub_backendai.model.slots import GIB, Limits, Slots
from jupyterhub_backendai.model.status import Result
from jupyterhub_backendai.scheduling.queue import Verdict, schedule, verdicts
from jupyterhub_backendai.scheduling.snapshot import Agent, GroupRule, Pending, Snapshot

STRICT = GroupRule("default", mode="strict")
OLD = NOW - 901  # longer ago than the default max_bypass


def codes(snap: Snapshot) -> dict[str, str]:
    return {wait.session_id: wait.code for wait in schedule(snap).waits}


class TestOrder:
    def test_first_in_first_out(self) -> None:
        some = [pending(c, cpu=1, submitted_at=NOW - 10 + i) for i, c in enumerate("dcba")]
        decision = schedule(snapshot(some, [agent("m", cpu=2)]))
        assert [p.session_id for p in decision.placements] == ["d", "c"]
        assert [(w.session_id, w.position) for w in decision.waits] == [("b", 1), ("a", 2)]

    def test_priority_comes_before_age(self) -> None:
        some = [pending("old", submitted_at=NOW - 500), pending("high", priority=20)]
        assert placed(schedule(snapshot(some, [agent("m", cpu=1)]))) == {"high": "m"}

    def test_equal_times_go_by_id(self) -> None:
        some = [pending("b"), pending("a")]
        assert placed(schedule(snapshot(some, [agent("m", cpu=1)]))) == {"a": "m"}

    def test_each_group_has_its_own_line(self) -> None:
        agents = [agent("m", cpu=1), agent("n", cpu=1, group="lab")]
        some = [pending(f"{g}{i}", group=g) for g in ("default", "lab") for i in range(3)]
        decision = schedule(snapshot(some, agents))
        assert placed(decision) == {"default0": "m", "lab0": "n"}
        assert {w.session_id: w.position for w in decision.waits} == {
            "default1": 1, "default2": 2, "lab1": 1, "lab2": 2,
        }  # fmt: skip

    def test_twelve_on_room_for_four(self) -> None:
        some = [pending(f"s{i:02}", submitted_at=NOW - 50 + i) for i in range(12)]
        decision = schedule(snapshot(some, [agent("m", cpu=4)]))
        assert [p.session_id for p in decision.placements] == ["s00", "s01", "s02", "s03"]
        assert [w.position for w in decision.waits] == list(range(1, 9))
        assert all(w.result is Result.NEED_RETRY for w in decision.waits)


class TestQuotas:
    def test_of_an_owner_hold_over_all_groups_and_within_the_pass(self) -> None:
        agents = [agent("m"), agent("n", group="lab")]
        some = [pending("a", owner="u", cpu=2), pending("b", owner="u", cpu=2, group="lab")]
        decision = schedule(snapshot(some, agents, owners={"u": limits(cpu=3)}))
        assert placed(decision) == {"a": "m"}
        assert wait_of(decision, "b").code == "owner_quota"
        assert wait_of(decision, "b").result is Result.NEED_RETRY

    def test_of_a_project_hold_over_its_members(self) -> None:
        some = [pending("a", project="p", cpu=2), pending("b", project="p", cpu=2)]
        snap = snapshot(some, [agent("m")], projects={"p": limits(cpu=3)})
        assert codes(snap) == {"b": "project_quota"}

    def test_sessions_are_counted_by_their_ids(self) -> None:
        held = [holding("h", "m", owner="u"), holding("h", "n", owner="u")]
        some = [pending("a", owner="u"), pending("b", owner="u")]
        snap = snapshot(some, [agent("m"), agent("n")], held, owners={"u": limits(sessions=2)})
        assert codes(snap) == {"b": "owner_sessions"}

    def test_of_project_sessions(self) -> None:
        some = [pending("a", project="p"), pending("b", project="p")]
        snap = snapshot(some, [agent("m")], projects={"p": limits(sessions=1)})
        assert codes(snap) == {"b": "project_sessions"}

    @pytest.mark.parametrize("rule", [STRICT, GroupRule("default", max_bypass=0)])
    def test_do_not_block_others(self, rule: GroupRule) -> None:
        some = [pending("a", owner="u", cpu=2), pending("b", cpu=4, submitted_at=NOW)]
        held = [holding("h", "n", owner="u", cpu=4)]
        snap = snapshot(
            some, [agent("m"), agent("n")], held, owners={"u": limits(cpu=4)}, rules=[rule]
        )
        assert placed(schedule(snap)) == {"b": "m"}

    def test_lowered_below_what_is_held_stop_only_what_asks_for_more(self) -> None:
        held = [holding("h", "m", owner="u", fgpu=2)]
        some = [pending("cpu", owner="u"), pending("gpu", owner="u", fgpu=1)]
        snap = snapshot(some, [agent("m", fgpu=8)], held, owners={"u": limits(fgpu=1)})
        assert placed(schedule(snap)) == {"cpu": "m"}

    def test_what_waited_too_long_for_its_quota_is_not_passed_by_its_owner(self) -> None:
        held = [holding("h", "n", owner="u", cpu=3)]
        some = [pending("big", owner="u", cpu=2, submitted_at=OLD), pending("small", owner="u")]
        owners = {"u": limits(cpu=4)}
        snap = snapshot(some, [agent("m"), agent("n")], held, owners)
        decision = schedule(snap)
        assert not decision.placements
        assert wait_of(decision, "small").code == "behind"
        assert wait_of(decision, "small").result is Result.SKIPPED
        young = [pending("big", owner="u", cpu=2), some[1]]
        assert placed(schedule(snapshot(young, snap.agents, held, owners))) == {"small": "n"}

    def test_what_waits_for_room_keeps_its_place_in_its_quotas(self) -> None:
        """Else room and quota could come free in turn and never together."""
        rules = [GroupRule("lab", max_bypass=0)]
        some = [
            pending("big", owner="u", project="p", cpu=3, group="lab", submitted_at=NOW - 90),
            pending("small", owner="u", project="p", cpu=2),
        ]
        agents = [agent("m"), agent("n", group="lab")]
        held = [holding("h", "n", cpu=2, group="lab")]
        for kept in ({"owners": {"u": limits(cpu=4)}}, {"projects": {"p": limits(cpu=4)}}):
            decision = schedule(snapshot(some, agents, held, rules=rules, **kept))  # type: ignore[arg-type]
            assert not decision.placements
            assert wait_of(decision, "small").code == "behind"

    def test_a_used_up_owner_quota_keeps_nothing_of_the_project(self) -> None:
        held = [holding("h", "m", owner="u", cpu=4)]
        some = [
            pending("mine", owner="u", project="p", cpu=4, submitted_at=OLD),
            pending("other", project="p", cpu=4),
        ]
        snap = snapshot(
            some, [agent("m", cpu=16)], held, {"u": limits(cpu=4)}, {"p": limits(cpu=4)}
        )
        assert placed(schedule(snap)) == {"other": "m"}


class TestStartTime:
    def test_is_not_undercut(self) -> None:
        some = [pending("a", not_before=NOW + 1)]
        decision = schedule(snapshot(some, [agent("m")]))
        assert [(w.code, w.result) for w in decision.waits] == [("not_before", Result.SKIPPED)]
        assert placed(schedule(snapshot(some, [agent("m")], now=NOW + 1))) == {"a": "m"}

    def test_that_has_not_come_is_before_nobody(self) -> None:
        some = [
            pending("later", cpu=4, not_before=NOW + 9, submitted_at=OLD),
            pending("a", cpu=4),
            pending("b", cpu=4, submitted_at=NOW),
        ]
        decision = schedule(snapshot(some, [agent("m")], rules=[STRICT]))
        assert placed(decision) == {"a": "m"}
        assert {w.session_id: w.position for w in decision.waits} == {"b": 1, "later": 2}

    def test_waiting_counts_from_it(self) -> None:
        held = [holding("h", "m", cpu=3)]
        late = pending("big", cpu=2, submitted_at=OLD - 9999, not_before=NOW - 10)
        snap = snapshot([late, pending("small")], [agent("m")], held)
        assert placed(schedule(snap)) == {"small": "m"}
        past = pending("big", cpu=2, submitted_at=OLD - 9999, not_before=OLD)
        snap = snapshot([past, pending("small")], [agent("m")], held)
        assert codes(snap) == {"big": "no_room", "small": "behind"}


class TestStrict:
    def test_everything_behind_the_first_without_room_waits(self) -> None:
        some = [pending(c, cpu=n, submitted_at=NOW - 9 + n) for c, n in (("a", 1), ("b", 4))]
        some.append(pending("c", cpu=1, submitted_at=NOW))
        decision = schedule(snapshot(some, [agent("m")], rules=[STRICT]))
        assert placed(decision) == {"a": "m"}
        assert [(w.code, w.result) for w in decision.waits] == [
            ("no_room", Result.NEED_RETRY),
            ("behind", Result.SKIPPED),
        ]

    def test_other_groups_go_on(self) -> None:
        agents = [agent("m", cpu=1), agent("n", group="lab")]
        some = [pending(c, submitted_at=NOW - 9) for c in "ab"] + [pending("c", group="lab")]
        assert placed(schedule(snapshot(some, agents, rules=[STRICT]))) == {"a": "m", "c": "n"}

    def test_a_full_chosen_machine_is_not_passed_on_and_blocks_no_other(self) -> None:
        agents = [agent("m", cpu=2), agent("n", cpu=2)]
        some = [
            pending("mine", cpu=2, agent="m", submitted_at=NOW - 9),
            pending("a", cpu=2, submitted_at=NOW - 8),
            pending("b", cpu=1, submitted_at=NOW - 7),
        ]
        held = [holding("h", "m", cpu=1)]
        decision = schedule(snapshot(some, agents, held, rules=[STRICT]))
        assert placed(decision) == {"a": "n"}
        assert {w.session_id: w.code for w in decision.waits} == {
            "mine": "agent_full", "b": "behind",
        }  # fmt: skip

    def test_what_can_never_start_does_not_block(self) -> None:
        some = [pending("huge", cpu=99, submitted_at=NOW - 9), pending("a")]
        assert placed(schedule(snapshot(some, [agent("m")], rules=[STRICT]))) == {"a": "m"}


class TestBackfill:
    def test_a_smaller_one_passes(self) -> None:
        some = [pending("big", cpu=4, submitted_at=NOW - 100), pending("small")]
        snap = snapshot(some, [agent("m")], [holding("h", "m")])
        assert placed(schedule(snap)) == {"small": "m"}

    def test_not_one_that_waited_longer_than_the_bound(self) -> None:
        some = [pending("big", cpu=4, submitted_at=OLD), pending("small")]
        snap = snapshot(some, [agent("m"), agent("n")], [holding("h", "m"), holding("i", "n")])
        assert codes(snap) == {"big": "no_room", "small": "behind"}
        assert wait_of(schedule(snap), "small").result is Result.SKIPPED

    def test_the_bound_is_the_group_s_own(self) -> None:
        some = [pending("big", cpu=4, submitted_at=NOW - 61), pending("small")]
        held = [holding("h", "m")]
        for bound, expected in ((60.0, {}), (62.0, {"small": "m"}), (math.inf, {"small": "m"})):
            snap = snapshot(
                some, [agent("m")], held, rules=[GroupRule("default", max_bypass=bound)]
            )
            assert placed(schedule(snap)) == expected

    def test_machines_that_are_too_small_for_it_stay_open(self) -> None:
        some = [pending("big", cpu=4, submitted_at=OLD), pending("small")]
        snap = snapshot(some, [agent("m"), agent("n", cpu=3)], [holding("h", "m")])
        assert placed(schedule(snap)) == {"small": "n"}

    def test_slots_that_it_does_not_lack_are_kept_for_it_and_no_more(self) -> None:
        """It waits for a GPU: others may work on cores beside it, but not on its own."""
        some = [
            pending("gpu", cpu=4, fgpu=1, submitted_at=OLD),
            pending("three", cpu=3, submitted_at=NOW - 9),
            pending("two", cpu=2, submitted_at=NOW - 8),
            pending("one", cpu=1, submitted_at=NOW - 7),
            pending("share", cpu=1, fgpu=0.5, submitted_at=NOW - 6),
        ]
        held = [holding("h", "m", cpu=0, fgpu=7.5)]
        decision = schedule(snapshot(some, [agent("m", cpu=8, fgpu=8)], held))
        assert placed(decision) == {"three": "m", "one": "m"}
        assert {w.session_id: w.code for w in decision.waits} == {
            "gpu": "no_room", "two": "behind", "share": "behind",
        }  # fmt: skip

    def test_two_that_wait_keep_the_larger_amount_not_the_sum(self) -> None:
        some = [pending(f"gpu{i}", cpu=3, fgpu=1, submitted_at=OLD + i / 10) for i in range(9)]
        held = [holding("h", "m", cpu=0, fgpu=8)]
        some.append(pending("cpu", cpu=5, submitted_at=NOW))
        assert placed(schedule(snapshot(some, [agent("m", cpu=8, fgpu=8)], held))) == {"cpu": "m"}

    def test_on_a_chosen_machine_only_that_one_is_kept(self) -> None:
        some = [
            pending("mine", cpu=4, agent="m", submitted_at=OLD),
            pending("a", submitted_at=NOW - 9),
            pending("also", agent="m", submitted_at=NOW - 8),
        ]
        snap = snapshot(some, [agent("m"), agent("n")], [holding("h", "m")])
        decision = schedule(snap)
        assert placed(decision) == {"a": "n"}
        assert {w.session_id: w.code for w in decision.waits} == {
            "mine": "agent_full", "also": "behind",
        }  # fmt: skip

    def test_kept_on_a_machine_and_in_the_group_counts_once(self) -> None:
        some = [
            pending("gpu", cpu=3, fgpu=1, submitted_at=OLD),
            pending("mine", cpu=4, fgpu=1, agent="m", submitted_at=OLD + 0.5),
            pending("cpu", cpu=4, submitted_at=NOW),
        ]
        held = [holding("h", "m", cpu=0, fgpu=8), holding("i", "n", cpu=8, fgpu=8)]
        agents = [agent("m", cpu=8, fgpu=8), agent("n", cpu=8, fgpu=8)]
        assert placed(schedule(snapshot(some, agents, held))) == {"cpu": "m"}
        first = [replace(some[1], submitted_at=OLD - 1), some[0], some[2]]
        assert placed(schedule(snapshot(first, agents, held))) == {"cpu": "m"}


class TestMachines:
    def test_one_that_does_not_answer_gets_nothing(self) -> None:
        agents = [agent("a", available=False), agent("b")]
        assert placed(schedule(snapshot([pending("s")], agents))) == {"s": "b"}
        assert codes(snapshot([pending("s")], agents[:1])) == {"s": "no_agent"}
        assert codes(snapshot([pending("s")], [])) == {"s": "no_agent"}
        assert codes(snapshot([pending("s", agent="a")], agents)) == {"s": "no_agent"}
        assert codes(snapshot([pending("s", agent="gone")], agents)) == {"s": "no_agent"}
        big = [agent("big", cpu=8, available=False), agent("b")]
        assert codes(snapshot([pending("s", cpu=6)], big)) == {"s": "no_agent"}

    def test_one_that_is_drained_gets_nothing_and_keeps_what_it_has(self) -> None:
        agents = [agent("a", schedulable=False), agent("b")]
        held = [holding("h", "a", cpu=1)]
        assert placed(schedule(snapshot([pending("s")], agents, held))) == {"s": "b"}
        assert codes(snapshot([pending("s", agent="a")], agents, held)) == {"s": "drained"}
        assert codes(snapshot([pending("s")], agents[:1], held)) == {"s": "drained"}
        full = [holding("h", "b", cpu=4)]
        assert codes(snapshot([pending("s")], agents, full)) == {"s": "no_room"}

    def test_those_behind_what_waits_for_a_drained_one_go_on(self) -> None:
        """In a strict group too: nobody knows when its admin is done."""
        agents = [agent("big", cpu=8, schedulable=False), agent("b")]
        some = [pending("s", cpu=6, submitted_at=OLD), pending("t")]
        rules = [GroupRule("default", "strict")]
        assert placed(schedule(snapshot(some, agents, rules=rules))) == {"t": "b"}

    def test_of_another_group_are_not_used(self) -> None:
        agents = [agent("a", group="lab"), agent("b")]
        assert placed(schedule(snapshot([pending("s")], agents))) == {"s": "b"}
        assert codes(snapshot([pending("s", agent="a")], agents)) == {"s": "no_agent"}

    def test_that_changed_their_group_still_hold_what_runs_there(self) -> None:
        held = [holding("h", "m", cpu=4, group="lab")]
        assert codes(snapshot([pending("s")], [agent("m")], held)) == {"s": "no_room"}

    def test_that_are_too_small_can_never_hold_it(self) -> None:
        assert codes(snapshot([pending("s", cpu=5)], [agent("m")])) == {"s": "never_fits"}
        agents = [agent("m"), agent("n", cpu=8)]
        assert codes(snapshot([pending("s", cpu=5, agent="m")], agents)) == {"s": "never_fits"}

    def test_two_of_one_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match="same name"):
            schedule(snapshot([pending("s")], [agent("m"), agent("m")]))

    def test_cpu_sessions_stay_off_machines_with_fgpu(self) -> None:
        agents = [agent("a", cpu=2, fgpu=8), agent("b", cpu=64)]
        assert placed(schedule(snapshot([pending("s")], agents))) == {"s": "b"}
        held = [holding("h", "b", cpu=64)]
        assert placed(schedule(snapshot([pending("s")], agents, held))) == {"s": "a"}
        assert placed(schedule(snapshot([pending("s", fgpu=1)], agents))) == {"s": "a"}

    def test_concentrated_fills_and_dispersed_spreads(self) -> None:
        agents = [agent("a"), agent("b"), agent("c")]
        held = [holding("h", "b", cpu=2), holding("i", "c", cpu=1)]
        assert placed(schedule(snapshot([pending("s")], agents, held))) == {"s": "b"}
        dispersed = [GroupRule("default", selection="dispersed")]
        snap = snapshot([pending("s")], agents, held, rules=dispersed)
        assert placed(schedule(snap)) == {"s": "a"}

    @pytest.mark.parametrize("selection", ["concentrated", "dispersed"])
    def test_ties_go_by_name(self, selection: str) -> None:
        rules = [GroupRule("default", selection=selection)]  # type: ignore[arg-type]
        snap = snapshot([pending("s")], [agent("b"), agent("a")], rules=rules)
        assert placed(schedule(snap)) == {"s": "a"}

    def test_that_failed_it_are_used_only_if_nothing_else_fits(self) -> None:
        agents = [agent("a"), agent("g", fgpu=1)]
        some = [pending("s", avoid=frozenset({"a"}))]
        assert placed(schedule(snapshot(some, agents))) == {"s": "g"}
        held = [holding("h", "g", cpu=4)]
        assert placed(schedule(snapshot(some, agents, held))) == {"s": "a"}

    def test_many_stay_in_order_as_they_fill(self) -> None:
        """More machines and moves than one block of the index holds."""
        random = Random(7)
        agents = [agent(f"m{i:03}", cpu=random.randint(1, 40)) for i in range(300)]
        some = [pending(f"s{i:04}", cpu=random.randint(1, 9)) for i in range(2000)]
        free = {a.name: a.capacity for a in agents}
        expected = {}
        for one in some:
            fits = [(f.cpu, f.mem, name) for name, f in free.items() if one.slots.fits(f)]
            if fits:
                expected[one.id] = name = min(fits)[2]
                free[name] = free[name] - one.slots
        assert 600 < len(expected) < 2000
        assert placed(schedule(snapshot(some, agents))) == expected


class TestVerdict:
    def test_now(self) -> None:
        snap = snapshot([], [agent("m")])
        assert verdict(snap, pending("new")) == Verdict("now", "Starts now.", 0)

    def test_waits_behind_those_that_wait(self) -> None:
        snap = snapshot([pending("a", cpu=4)], [agent("m")], [holding("h", "m")])
        told = verdict(snap, pending("new", cpu=4, submitted_at=NOW))
        assert told.code == "waits"
        assert told.ahead == 1
        assert told.reason.endswith("; 1 session is before you.")

    def test_higher_priority_is_ahead_of_those_that_wait(self) -> None:
        snap = snapshot([pending("a", cpu=4)], [agent("m")], [holding("h", "m")])
        assert verdict(snap, pending("new", cpu=4, priority=11, submitted_at=NOW)).ahead == 0

    def test_never(self) -> None:
        told = verdict(snapshot([], [agent("m")]), pending("new", cpu=5))
        assert (told.code, told.ahead) == ("never", 0)

    def test_with_a_start_time_counts_nobody(self) -> None:
        snap = snapshot([pending("a", cpu=4)], [agent("m")], [holding("h", "m")])
        told = verdict(snap, pending("new", not_before=NOW + 60))
        assert (told.code, told.ahead) == ("waits", 0)

    def test_leaves_the_snapshot_alone(self) -> None:
        snap = snapshot([pending("a")], [agent("m")])
        before = schedule(snap)
        verdict(snap, pending("new"))
        assert schedule(snap) == before


def test_ten_thousand_sessions_on_a_thousand_machines() -> None:
    """A guard against an accidental square, not a benchmark: it takes about 0.3 s."""
    random = Random(1)
    agents = [Agent(f"a{i}", "g", Slots(128000, 1024 * GIB + i, 8000)) for i in range(1000)]
    some = [
        Pending(
            f"p{i}", f"u{i % 997}", None, "g",
            Slots(random.randrange(500, 32000, 500), random.randrange(1, 64) * GIB,
                  random.choice([0, 0, 250, 500, 1000, 2000, 4000])),
            10, NOW - random.random() * 9000,
        )
        for i in range(10_000)
    ]  # fmt: skip
    owners = {f"u{i}": Limits(cpu=128000, sessions=20) for i in range(997)}
    snap = Snapshot(NOW, some, agents, [], owners, {}, {})
    began = time.process_time()
    decision = schedule(snap)
    assert time.process_time() - began < 5
    assert len(decision.placements) > 2000


def test_verdicts_of_many_cost_about_one_pass() -> None:
    """As above, a guard: the view of a user's options asks for each preset of each group."""
    line = [
        pending(f"s{i}", owner=f"u{i % 300}", cpu=1 + i % 4, submitted_at=NOW - 3000 + i)
        for i in range(3000)
    ]
    snap = snapshot(line, [agent("m", cpu=8)], [holding("h", "m", cpu=8)])
    began = time.process_time()
    schedule(snap)
    one_pass = time.process_time() - began
    began = time.process_time()
    told = verdicts(snap, [pending("new", cpu=c, submitted_at=NOW) for c in (1, 2, 4, 8) * 6])
    assert {verdict.ahead for verdict in told} == {3000}
    assert time.process_time() - began < 3 * one_pass


def test_amounts_of_nothing_ask_for_nothing() -> None:
    """A machine that holds more than it has now still takes what asks for none of that slot."""
    held = [holding("h", "m", mem=128)]
    some = [Pending("s", "u", None, "default", slots(cpu=1), 10, NOW)]
    assert placed(schedule(snapshot(some, [agent("m")], held))) == {"s": "m"}
