"""What a user is told that they may choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import AgentFacts, Context
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.scheduling.snapshot import Agent, Snapshot
from jupyterhub_backendai.site.options import _View

CATALOG = Catalog(
    environments=({"name": "python", "image": "python:3"},),  # type: ignore[arg-type]
    presets=(
        {"name": "share", "cpu": 1, "mem": "1g", "fgpu": 0.5},  # type: ignore[arg-type]
        {"name": "plain", "cpu": 1, "mem": "1g"},  # type: ignore[arg-type]
    ),
    resource_groups=({"name": "cpu"}, {"name": "gpu"}),  # type: ignore[arg-type]
)
AGENTS = (
    Agent("c1", "cpu", Slots(4000, 8 * GIB)),
    Agent("g1", "gpu", Slots(4000, 8 * GIB, 2000)),
)


def view(agents: Sequence[Agent] = AGENTS) -> dict[str, Any]:
    context = Context(
        "alice", frozenset(), False, CATALOG, Policies(),
        agents=tuple(AgentFacts(a.name, a.group, a.capacity) for a in agents),
    )  # fmt: skip
    return _View(context, Snapshot(0.0, [], agents, [], {}, {}, {}), True).as_dict()


def test_a_preset_with_fgpu_is_for_groups_that_have_some() -> None:
    found = view()
    groups = {group["name"]: group for group in found["resource_groups"]}
    told = {
        (name, preset["name"]): preset["verdict"]
        for name, group in groups.items()
        for preset in group["presets"]
    }
    assert {name: bool(group["gpus"]) for name, group in groups.items()} == {
        "cpu": False, "gpu": True,
    }  # fmt: skip
    assert {place: verdict["code"] for place, verdict in told.items()} == {
        ("cpu", "share"): "never", ("cpu", "plain"): "now",
        ("gpu", "share"): "now", ("gpu", "plain"): "now",
    }  # fmt: skip
    assert told["cpu", "share"]["text"] == "Never fits: asks 0.5 FGPU, no machine of cpu has any."
    # The default is what can be granted, and its verdict is of that.
    assert found["default"]["verdict"]["code"] == "now"
    assert "FGPU" not in found["default"]["summary"]


def test_an_agent_that_is_drained_is_told_and_not_counted() -> None:
    other = Agent("c2", "cpu", Slots(2000, 4 * GIB))
    found = view([replace(AGENTS[0], schedulable=False), other, AGENTS[1]])
    group = found["resource_groups"][0]
    assert [(a["name"], a["available"], a["schedulable"]) for a in group["agents"]] == [
        ("c1", True, False), ("c2", True, True),
    ]  # fmt: skip
    assert [a["free"]["cpu"] for a in group["agents"]] == [0, 2000]
    assert (group["free"]["cpu"], group["capacity"]["cpu"]) == (2000, 2000)
    assert group["limits"]["cpu"]["most"] == 4000, "what it has can be waited for"
    alone = view([replace(AGENTS[0], schedulable=False)])["resource_groups"][0]
    (verdict,) = (p["verdict"] for p in alone["presets"] if p["name"] == "plain")
    assert verdict["code"] == "waits"
    assert "the admin is draining its machine" in verdict["text"]
