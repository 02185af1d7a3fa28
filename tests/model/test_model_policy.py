"""Catalog and policies: what is offered, to whom, and whose limits count."""

from __future__ import annotations

import pytest
from model_samples import CATALOG, TORCH_28
from pydantic import ValidationError

from jupyterhub_backendai.model.catalog import Environment, Preset, ResourceGroup
from jupyterhub_backendai.model.policy import Policies, Policy, Quota
from jupyterhub_backendai.model.slots import GIB, Limits, Slots

OWN, STAFF, STUDENTS, REST = (Policy(priority=n) for n in (1, 2, 3, 4))
POLICIES = Policies(
    default=REST,
    users={"alice": OWN},
    groups={"staff": STAFF, "students": STUDENTS},
    projects={"cs101": Quota(max_sessions=40), "cs102": Quota()},
)


@pytest.mark.parametrize(
    ("user", "groups", "policy"),
    [
        ("alice", [], OWN),
        ("alice", ["staff"], OWN),
        ("bob", ["staff", "students"], STAFF),
        ("bob", ["students", "staff"], STAFF),  # the order of the configuration, not of the user
        ("bob", ["students"], STUDENTS),
        ("bob", ["others"], REST),
        ("Alice", [], REST),
    ],
)
def test_whose_policy_counts(user: str, groups: list[str], policy: Policy) -> None:
    assert POLICIES.of(user, groups) is policy
    assert POLICIES.of(user, frozenset(groups)) is policy


def test_the_project_of_a_session_that_names_none() -> None:
    assert POLICIES.project_of(["cs102", "cs101"]) == "cs101"
    assert POLICIES.project_of(["cs102"]) == "cs102"
    assert POLICIES.project_of(["staff"]) is None


def test_limits_are_what_the_schedule_pass_knows() -> None:
    policy = Policy(total={"cpu": 8, "mem": "32g", "fgpu": "1.5"}, max_sessions=3)
    assert policy.limits == Limits(8000, 32 * GIB, 1500, sessions=3)
    assert Policy().limits == Limits()
    assert Quota(total={"cpu": "0.5"}).limits == Limits(cpu=500)


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": {"cpu": -1}},
        {"total": {"cpu": "NaN"}},
        {"total": {"shm": "1g"}},
        {"per_session": {"tpu": 1}},
        {"max_sessions": -1},
        {"priority": 101},
        {"max_preopen_ports": 1000},
        {"environments": "pytorch"},
        {"maxsessions": 3},
    ],
)
def test_wrong_policies(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Policy(**wrong)  # type: ignore[arg-type]


def test_a_group_is_for_everybody_unless_it_names_somebody() -> None:
    assert ResourceGroup(name="a").admits("x", [])
    for group in (ResourceGroup(name="a", users=set()), ResourceGroup(name="a", groups=set())):
        assert not group.admits("x", ["y"])
    both = ResourceGroup(name="a", users={"bob"}, groups={"lab"})
    assert both.admits("bob", [])
    assert both.admits("eve", ["lab", "x"])
    assert not both.admits("eve", ["x"])


def test_finding_things_in_the_catalog() -> None:
    torch = CATALOG.environment("pytorch")
    assert torch is not None
    assert torch.label == "PyTorch"
    version = torch.version("2.8")
    assert version is not None
    assert version.image == TORCH_28
    assert torch.version("1") is None
    assert CATALOG.environment("Pytorch") is None
    assert CATALOG.group("lab") is not None
    assert CATALOG.group("nowhere") is None
    assert [p.name for p in CATALOG.presets_of("default")] == ["small", "medium", "huge"]
    assert [p.name for p in CATALOG.presets_of("lab")] == ["small", "medium", "huge", "gpu"]


def test_short_forms_of_an_environment() -> None:
    short = Environment(name="r", image="rocker/r:4", apps=["jupyterlab", {"name": "rstudio"}])
    assert [(v.name, v.image) for v in short.versions] == [("default", "rocker/r:4")]
    assert [a.name for a in short.apps] == ["jupyterlab", "rstudio"]
    assert short.label == "r"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "r"},
        {"name": "r", "versions": []},
        {"name": "", "image": "a"},
        {"name": "a/b", "image": "a"},
        {"name": "r\n", "image": "a"},
        {"name": "r", "image": "Not An Image"},
        {"name": "r", "image": "a", "icon": "x y"},
        {"name": "r", "image": "a", "command": "start.sh"},
        {"name": "r", "image": "a", "apps": [{"name": "x", "port": 80}]},
        {"name": "r", "image": "a", "minimum": {"cpu": "lots"}},
        {"name": "r", "image": "a", "titel": "R"},
    ],
)
def test_wrong_environments(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Environment(**wrong)  # type: ignore[arg-type]


def test_a_preset_is_exact_and_its_shared_memory_is_part_of_its_memory() -> None:
    preset = Preset(name="p", cpu="0.1", mem="2g", shm="2g", fgpu=0.3)
    assert preset.slots == Slots(100, 2 * GIB, 300)
    for wrong in ({"shm": "3g"}, {"shm": 0}, {"shm": "1k"}, {"cpu": 0}, {"mem": 0}, {"fgpu": -1}):
        with pytest.raises(ValidationError):
            Preset(**{"name": "p", "cpu": 1, "mem": "2g", **wrong})
