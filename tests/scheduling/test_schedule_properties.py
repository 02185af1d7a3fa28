"""What holds for every snapshot, and for queues as they run on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scheduling_cases import limits, pending, placed, slots, verdict, verdict_by_a_pass

from jupyterhub_backendai.model.slots import Limits, Slots
from jupyterhub_backendai.scheduling.queue import schedule, verdicts
from jupyterhub_backendai.scheduling.snapshot import (
    Agent,
    Decision,
    GroupRule,
    Holding,
    Pending,
    Snapshot,
    Wait,
)

GROUPS, OWNERS, PROJECTS = ("g", "h"), ("ann", "ben", "cho"), ("cs101", "lab")
NAMES = tuple(f"m{i}" for i in range(5))
NOW = 1000.0
ROOM_CODES = {"no_room", "agent_full"}
QUOTA_CODES = {"owner_quota", "owner_sessions", "project_quota", "project_sessions"}

# Snapshots come from a seed: hypothesis' own draws repeat themselves so much that queues in which
# sessions compete are rare. Sizes are drawn, so that what fails is still made small.

seeds = st.integers(0, 2**64 - 1)
many = settings(max_examples=2 * settings().max_examples)  # what is seldom met


def size(random: Random) -> Slots:
    cpu, mem = random.choice([0, 1, 1, 2, 2, 3, 4]), random.choice([0, 1, 1, 2, 3])
    return slots(cpu, mem, random.choice([0, 0, 0, 0.5, 1, 3]))


def capacity(random: Random) -> Slots:
    return slots(random.choice([4, 5, 8, 12]), random.choice([4, 9, 12]), random.choice([0, 2, 4]))


def waiting(random: Random, index: int) -> Pending:
    return Pending(
        f"s{index:02}",
        random.choice(OWNERS),
        random.choice((None, *PROJECTS)),
        random.choice("gggggggh"),
        size(random),
        random.choice([10, 10, 10, 20]),
        random.randint(0, 10) * 100.0,
        random.choice([*NAMES[:3], "gone"]) if random.random() < 0.1 else None,
        random.choice([100.0, 900.0, 1001.0]) if random.random() < 0.2 else None,
        frozenset(random.sample(NAMES, random.choice([0, 0, 0, 1, 2]))),
    )


def holdings(random: Random, count: int) -> list[Holding]:
    """Some may hold more than there is, as after a machine or a limit was made smaller."""
    return [
        Holding(
            f"h{random.randint(0, i)}",
            random.choice(OWNERS),
            random.choice((None, *PROJECTS)),
            random.choice("gggggggh"),
            random.choice(NAMES[:3]),
            size(random),
        )
        for i in range(count)
    ]


def quota(random: Random) -> Limits:
    return Limits(
        random.choice([None, 9000, 6000, 4000]),
        None,
        random.choice([None, None, 3000, 1000]),
        sessions=random.choice([None, None, 5, 3, 0]),
    )


MODES = ("backfill", "backfill", "strict")
BOUNDS = (0.0, 500.0, math.inf)


@st.composite
def snapshots(
    draw: st.DrawFn, modes: Sequence[str] = MODES, bounds: Sequence[float] = BOUNDS
) -> Snapshot:
    random = Random(draw(seeds))
    count, machines = (
        draw(st.sampled_from([16, 12, 8, 4, 1, 0])),
        draw(st.sampled_from([2, 3, 1, 5, 0])),
    )
    return Snapshot(
        NOW,
        [waiting(random, index) for index in range(count)],
        [
            Agent(
                name,
                random.choice("gggggggh"),
                capacity(random),
                available=random.random() < 0.95,
                schedulable=random.random() < 0.95,
            )
            for name in NAMES[:machines]
        ],
        holdings(random, draw(st.sampled_from([6, 4, 8, 0]))),
        {name: quota(random) for name in random.choice([(), OWNERS[:2]])},
        {name: quota(random) for name in random.choice([(), PROJECTS[:1]])},
        {
            name: GroupRule(
                name,
                random.choice(modes),  # type: ignore[arg-type]
                random.choice(bounds),
                random.choice(["concentrated", "dispersed"]),  # type: ignore[arg-type]
            )
            for name in GROUPS
        },
    )


def turn(one: Pending) -> tuple[int, float, str]:
    return (-one.priority, one.submitted_at, one.id)


def rule_of(snap: Snapshot, one: Pending) -> GroupRule:
    return snap.rules.get(one.group, GroupRule(one.group))


def waited(snap: Snapshot, one: Pending) -> float:
    return snap.now - max(one.submitted_at, one.not_before or 0)


def after(snap: Snapshot, decision: Decision) -> list[Holding]:
    """What is held once the placements are made, those last and in their order."""
    by_id = {one.id: one for one in snap.pending}
    started = [
        Holding(p.session_id, s.owner, s.project, s.group, p.agent, s.slots)
        for p in decision.placements
        for s in [by_id[p.session_id]]
    ]
    return [*snap.holdings, *started]


def total(held: Sequence[Holding]) -> Slots:
    return sum((h.slots for h in held), Slots())


def exceeded(limit: Limits, held: Slots) -> list[str]:
    """Slots of which more is held than the limit."""
    most = {name: getattr(limit, name) for name, _ in held}
    return [name for name, amount in held if most[name] is not None and amount > most[name]]


def free_on(agent: Agent, held: Sequence[Holding]) -> Slots:
    return agent.capacity - total([h for h in held if h.agent == agent.name])


def takes(asked: Slots, free: Slots) -> bool:
    """Fits, where what is not asked does not count."""
    return all(amount == 0 or amount <= getattr(free, name) for name, amount in asked)


def could_run(one: Pending, agent: Agent) -> bool:
    return (
        agent.group == one.group
        and agent.available
        and agent.schedulable
        and one.agent in (None, agent.name)
        and one.slots.fits(agent.capacity)
    )


def protected(snap: Snapshot, decision: Decision) -> list[tuple[Pending, Wait]]:
    """Those that have waited for as long as their group's bound."""
    by_id = {one.id: one for one in snap.pending}
    pairs = [(by_id[wait.session_id], wait) for wait in decision.waits]
    return [(p, w) for p, w in pairs if waited(snap, p) >= rule_of(snap, p).max_bypass]


def waits_for_room(wait: Wait) -> bool:
    return wait.code in ROOM_CODES or wait.reason.startswith("There is room")


@given(snapshots())
def test_each_is_placed_or_waits_and_positions_have_no_gaps(snap: Snapshot) -> None:
    decision = schedule(snap)
    told = [p.session_id for p in decision.placements] + [w.session_id for w in decision.waits]
    assert sorted(told) == sorted(one.id for one in snap.pending)
    group_of = {one.id: one.group for one in snap.pending}
    for group in GROUPS:
        positions = [w.position for w in decision.waits if group_of[w.session_id] == group]
        assert sorted(positions) == list(range(1, len(positions) + 1))
    for wait in decision.waits:
        event(wait.code)
        assert wait.reason.endswith(".")


@given(snapshots())
def test_machines_never_give_more_than_they_have(snap: Snapshot) -> None:
    decision = schedule(snap)
    held = after(snap, decision)
    agents = {agent.name: agent for agent in snap.agents}
    by_id = {one.id: one for one in snap.pending}
    for placement in decision.placements:
        agent, one = agents[placement.agent], by_id[placement.session_id]
        assert could_run(one, agent)
        assert takes(one.slots, free_on(agent, held) + one.slots)


@given(snapshots())
def test_a_drained_machine_is_as_one_that_does_not_answer(snap: Snapshot) -> None:
    """But for the words, for those who wait for it alone."""
    drained = {agent.name for agent in snap.agents if not agent.schedulable}
    silent = [
        replace(agent, schedulable=True, available=False) if agent.name in drained else agent
        for agent in snap.agents
    ]
    decision, as_silent = schedule(snap), schedule(replace(snap, agents=silent))
    assert decision.placements == as_silent.placements
    assert decision.endings == as_silent.endings
    for wait, other in zip(decision.waits, as_silent.waits, strict=True):
        event(wait.code)
        if other.code == "no_agent":
            assert replace(wait, code=other.code, reason=other.reason) == other
            assert ("draining" in wait.reason) <= bool(drained)
            assert wait.code == "no_agent" or "The admin has been told" not in wait.reason
        else:
            assert wait == other


@given(snapshots())
def test_quotas_hold_over_all_groups(snap: Snapshot) -> None:
    decision = schedule(snap)
    held = after(snap, decision)
    by_id = {one.id: one for one in snap.pending}
    for placement in decision.placements:
        one = by_id[placement.session_id]
        for limit, mine in (
            (snap.owner_limits.get(one.owner), [h for h in held if h.owner == one.owner]),
            (
                snap.project_limits.get(one.project or "?"),
                [h for h in held if h.project == one.project],
            ),
        ):
            if limit is not None:
                over = exceeded(limit, total(mine))
                assert all(getattr(one.slots, name) == 0 for name in over)
                most = limit.sessions
                assert most is None or len({h.session_id for h in mine}) <= most


@given(snapshots())
def test_start_times_are_not_undercut(snap: Snapshot) -> None:
    started = placed(schedule(snap))
    assert all(one.not_before is None or one.not_before <= NOW
               for one in snap.pending if one.id in started)  # fmt: skip


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_the_parts_does_not_matter(snap: Snapshot, random: Random) -> None:
    def mixed(some: Sequence) -> list:
        return random.sample(list(some), len(some))

    other = Snapshot(
        snap.now,
        mixed(snap.pending),
        mixed(snap.agents),
        mixed(snap.holdings),
        dict(mixed(list(snap.owner_limits.items()))),
        dict(mixed(list(snap.project_limits.items()))),
        dict(mixed(list(snap.rules.items()))),
    )
    assert schedule(other) == schedule(snap)


@given(snapshots(modes=["strict"]))
def test_strict_never_passes(snap: Snapshot) -> None:
    decision = schedule(snap)
    by_id = {one.id: one for one in snap.pending}
    for group in snap.rules:
        lacking = [turn(by_id[w.session_id]) for w in decision.waits
                   if w.code == "no_room" and by_id[w.session_id].group == group]  # fmt: skip
        for session in placed(decision):
            one = by_id[session]
            assert one.group != group or not lacking or turn(one) < min(lacking)


@given(snapshots(bounds=[0.0, 300.0]))
@many
def test_nothing_takes_what_one_before_it_waited_too_long_for(snap: Snapshot) -> None:
    """No placement increases what a protected session before it lacks, on any machine."""
    decision = schedule(snap)
    held = after(snap, decision)
    first = len(snap.holdings)
    by_id = {one.id: one for one in snap.pending}
    for old, wait in protected(snap, decision):
        if rule_of(snap, old).mode == "strict" or not waits_for_room(wait):
            continue
        for agent in (a for a in snap.agents if could_run(old, a)):
            for n in range(first, len(held)):
                new = by_id[held[n].session_id]
                if held[n].agent == agent.name and turn(new) > turn(old):
                    event("placed behind a protected one")
                    left = free_on(agent, held[: n + 1])
                    for name, amount in new.slots:
                        assert amount == 0 or getattr(left, name) >= getattr(old.slots, name)


@given(snapshots(bounds=[0.0, 300.0]))
@many
def test_nor_its_quota(snap: Snapshot) -> None:
    decision = schedule(snap)
    held = after(snap, decision)
    first = len(snap.holdings)
    by_id = {one.id: one for one in snap.pending}
    for old, wait in protected(snap, decision):
        limit = snap.owner_limits.get(old.owner)
        counts = wait.code in QUOTA_CODES or waits_for_room(wait)
        if limit is None or not counts:
            continue
        for n in range(first, len(held)):
            new = by_id[held[n].session_id]
            if new.owner == old.owner and turn(new) > turn(old):
                event(f"placed behind a protected one: {wait.code}")
                mine = [h for h in held[: n + 1] if h.owner == old.owner]
                over = exceeded(limit, total(mine) + old.slots)
                assert all(getattr(new.slots, name) == 0 for name in over)
                sessions = len({h.session_id for h in mine})
                assert limit.sessions is None or sessions < limit.sessions


@given(snapshots(modes=["backfill"], bounds=[math.inf]))
def test_without_a_bound_nothing_waits_that_would_fit(snap: Snapshot) -> None:
    decision = schedule(snap)
    held = after(snap, decision)
    by_id = {one.id: one for one in snap.pending}
    for wait in decision.waits:
        assert wait.code != "behind"
        one = by_id[wait.session_id]
        if wait.code in ROOM_CODES:
            assert not any(
                takes(one.slots, free_on(agent, held))
                for agent in snap.agents
                if could_run(one, agent)
            )


@given(snapshots())
def test_an_idle_cluster_starts_what_fits(snap: Snapshot) -> None:
    for one in snap.pending:
        one = replace(one, agent=None, not_before=None)
        idle = replace(snap, pending=[one], holdings=[], owner_limits={}, project_limits={})
        fits = any(could_run(one, agent) for agent in snap.agents)
        assert bool(schedule(idle).placements) == fits
        assert (verdict(replace(idle, pending=[]), one).code == "now") == fits


@given(snapshots(), seeds)
@many
def test_verdicts_of_many_are_what_a_pass_with_each_of_them_says(snap: Snapshot, seed: int) -> None:
    random = Random(seed)
    asker = replace(
        waiting(random, 0),
        id="\uffff",
        priority=random.choice([5, 10, 10, 20]),
        submitted_at=random.choice([NOW, NOW, 500.0]),
    )
    candidates = [
        replace(asker, group=one.group, slots=one.slots, agent=one.agent, not_before=one.not_before)
        for one in (waiting(random, index) for index in range(8))
    ]
    told = verdicts(snap, candidates)
    assert told == [verdict_by_a_pass(snap, candidate) for candidate in candidates]
    for one in told:
        event(one.code)


# ---- queues that run on


@dataclass(frozen=True)
class Job:
    """A session with the seconds that it runs."""

    pending: Pending
    runs: float


def run(jobs: Sequence[Job], agents: Sequence[Agent], rule: GroupRule, **quota: dict) -> dict:
    """When each job started: a pass at each arrival and each end, until nothing happens."""
    arriving = sorted(jobs, key=lambda job: job.pending.submitted_at)
    by_id = {job.pending.id: job for job in jobs}
    line: list[Pending] = []
    running: list[tuple[float, Holding]] = []
    starts: dict[str, float] = {}
    while arriving or running:
        now = min([job.pending.submitted_at for job in arriving[:1]] + [end for end, _ in running])
        running = [(end, held) for end, held in running if end > now]
        while arriving and arriving[0].pending.submitted_at <= now:
            line.append(arriving.pop(0).pending)
        snap = Snapshot(
            now, line, agents, [held for _, held in running],
            quota.get("owners", {}), quota.get("projects", {}), {rule.name: rule},
        )  # fmt: skip
        decision = schedule(snap)
        for held in after(snap, decision)[len(running) :]:
            starts[held.session_id] = now
            running.append((now + by_id[held.session_id].runs, held))
        line = [one for one in line if one.id not in starts]
    return starts


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Job], list[Agent], GroupRule]:
    """More is asked than there is, so that a line forms."""
    random = Random(draw(seeds))
    agents = [Agent(f"m{i}", "g", capacity(random)) for i in range(draw(st.integers(1, 3)))]
    jobs, now = [], 0.0
    for i in range(draw(st.integers(1, 30))):
        now += random.randint(0, 3)
        one = replace(pending(f"s{i:02}", group="g", submitted_at=now), slots=size(random))
        one = replace(one, owner=random.choice(OWNERS), project=random.choice((None, *PROJECTS)))
        if any(one.slots.fits(agent.capacity) for agent in agents):
            jobs.append(Job(one, float(random.randint(1, 30))))
    mode = draw(st.sampled_from(["backfill", "backfill", "strict"]))
    return jobs, agents, GroupRule("g", mode, draw(st.sampled_from([0.0, 5.0, 20.0])))  # type: ignore[arg-type]


@given(workloads())
def test_everything_starts_in_the_end(work: tuple[list[Job], list[Agent], GroupRule]) -> None:
    jobs, agents, rule = work
    owners = {"ann": limits(cpu=5, mem=4, fgpu=3), "ben": limits(cpu=5, mem=4, fgpu=3, sessions=1)}
    projects = {"cs101": limits(cpu=6, mem=6, fgpu=4)}
    assert len(run(jobs, agents, rule)) == len(jobs)
    assert len(run(jobs, agents, rule, owners=owners, projects=projects)) == len(jobs)


@given(workloads())
@many
def test_the_first_in_line_starts_as_if_nobody_were_behind_it(
    work: tuple[list[Job], list[Agent], GroupRule],
) -> None:
    """Take away all that start behind it once it is protected: it starts at the same time."""
    jobs, agents, rule = work
    starts = run(jobs, agents, rule)
    passes = sorted({*starts.values(), *(starts[j.pending.id] + j.runs for j in jobs)})
    for job in jobs:
        one = job.pending
        since = next((t for t in passes if t >= one.submitted_at + rule.max_bypass), math.inf)
        before = [j for j in jobs if turn(j.pending) < turn(one)]
        if starts[one.id] <= since or any(starts[j.pending.id] >= since for j in before):
            continue
        event("a first in line that is protected")
        rest = [j for j in jobs
                if turn(j.pending) <= turn(one) or starts[j.pending.id] < since]  # fmt: skip
        assert run(rest, agents, rule)[one.id] == starts[one.id]


def stream(**more: object) -> list[Job]:
    """Two cores of a two-core machine, always taken again as soon as one comes free."""
    return [
        Job(pending(f"small{i:04}", cpu=1, mem=0, submitted_at=float(i), **more), 2.5)
        for i in range(200)
    ]


@pytest.mark.parametrize("machines", [1, 3])
def test_a_stream_of_small_ones_does_not_starve_a_large_one(machines: int) -> None:
    agents = [Agent(f"m{i}", "default", slots(2, 1)) for i in range(machines)]
    small = [
        replace(job, pending=replace(job.pending, id=f"{job.pending.id}-{m}", submitted_at=at))
        for job in stream()
        for m in range(machines)
        for at in [job.pending.submitted_at + m / machines]
    ]
    large = Job(pending("large", cpu=2, mem=0, submitted_at=1.5), 1)
    bounded = run([*small, large], agents, GroupRule("default", max_bypass=100))
    assert 101.5 <= bounded["large"] <= 104
    endless = run([*small, large], agents, GroupRule("default", max_bypass=math.inf))
    assert endless["large"] > 199


def test_nor_does_one_s_own_stream_starve_one_s_large_one_of_the_quota() -> None:
    agents = [Agent("m", "default", slots(16, 1))]
    jobs = [*stream(owner="u"), Job(pending("large", cpu=2, owner="u", submitted_at=1.5), 1)]
    rule = GroupRule("default", max_bypass=100)
    bounded = run(jobs, agents, rule, owners={"u": limits(cpu=2)})
    assert 101.5 <= bounded["large"] <= 104


def test_a_machine_that_stays_full_does_not_hold_up_one_that_needs_any() -> None:
    """Why room is kept on all machines: m0 lacks least, but its session does not end."""
    agents = [Agent("m0", "default", slots(2, 1)), Agent("m1", "default", slots(2, 1))]
    forever = Job(pending("forever", cpu=1, mem=0, submitted_at=-1.0), 10_000)
    large = Job(pending("large", cpu=2, mem=0, submitted_at=1.5), 1)
    starts = run([forever, *stream(), large], agents, GroupRule("default", max_bypass=100))
    assert starts["large"] <= 104


def test_a_full_queue_runs_in_order() -> None:
    agents = [Agent("m", "default", slots(4, 8))]
    jobs = [Job(pending(f"s{i:02}", submitted_at=float(i)), 30 + i) for i in range(12)]
    starts = run(jobs, agents, GroupRule("default"))
    assert sorted(starts, key=lambda s: (starts[s], s)) == [job.pending.id for job in jobs]
    busy = [len(list(same)) for _, same in groupby(sorted(starts.values()))]
    assert sum(busy) == 12
