"""A small site and its users, for the tests of the model."""

from __future__ import annotations

from typing import Any

import pytest

from jupyterhub_backendai.model.catalog import (
    App,
    Catalog,
    Environment,
    Preset,
    ResourceGroup,
    Version,
)
from jupyterhub_backendai.model.errors import FieldError, RequestError
from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.policy import Policies, Policy, Quota
from jupyterhub_backendai.model.resolve import (
    AgentFacts,
    Context,
    Folder,
    SessionRequest,
    resolve,
)
from jupyterhub_backendai.model.slots import GIB, GPU_SLOTS, Slots

TORCH_29, TORCH_28 = "registry.example.org/torch:2.9", "registry.example.org/torch:2.8"

CATALOG = Catalog(
    environments=(
        Environment(name="python", image="example/python:3.11"),
        Environment(
            name="pytorch",
            title="PyTorch",
            versions=(Version(name="2.9", image=TORCH_29), Version(name="2.8", image=TORCH_28)),
            minimum={"cpu": 2, "mem": "4g"},
            apps=(App(name="tensorboard", title="TensorBoard", port=6006), App(name="terminal")),
        ),
        Environment(name="secret", image="example/secret:1"),
    ),
    presets=(
        Preset(name="small", cpu=1, mem="2g"),
        Preset(name="medium", cpu=4, mem="8g", shm="1g"),
        Preset(name="huge", cpu=500, mem="2t"),
        Preset(name="gpu", cpu=4, mem="16g", fgpu="0.5", resource_group="lab"),
    ),
    resource_groups=(
        ResourceGroup(name="default"),
        ResourceGroup(name="lab", groups={"vision"}, per_session={"cpu": 16}),
        ResourceGroup(name="private", users={"bob"}),
    ),
)
AGENTS = (
    AgentFacts("wide", "default", Slots(32_000, 16 * GIB, 0)),
    AgentFacts("deep", "default", Slots(8_000, 64 * GIB, 0)),
    AgentFacts("gpu-1", "lab", Slots(32_000, 128 * GIB, 6_000)),
)
FOLDERS = {
    f.name: f
    for f in (
        Folder(name="data"),
        Folder(name="models"),
        Folder(name="papers", permission="ro"),
        Folder(name=".config"),
        Folder(name="vision/pool", project="vision"),
        Folder(name="vision/data", project="vision"),
    )
}
DEFAULT = Policy(environments={"python", "pytorch"})


def context(policy: Policy = DEFAULT, **changes: Any) -> Context:
    """Alice, of the group `vision`, under `policy`."""
    given: dict[str, Any] = {
        "user": "alice",
        "groups": frozenset({"vision"}),
        "admin": False,
        "catalog": CATALOG,
        "policies": Policies(default=policy),
        "folders": FOLDERS,
        "names_in_use": frozenset({"taken"}),
        "agents": AGENTS,
    }
    return Context(**{**given, **changes})


ALICE = context()


def granted(options: object, of: Context = ALICE) -> SessionRequest:
    """What is granted; the test fails with the errors otherwise."""
    return resolve(options, of)


def refused(options: object, of: Context = ALICE) -> RequestError:
    """The refusal; the test fails where there is none."""
    with pytest.raises(RequestError) as caught:
        resolve(options, of)
    assert caught.value.errors
    return caught.value


def the_error(options: object, of: Context = ALICE) -> FieldError:
    """The one error of a refusal."""
    errors = refused(options, of).errors
    assert len(errors) == 1, errors
    return errors[0]


def places(options: object, of: Context = ALICE) -> list[tuple[str, str]]:
    """(field, code) of each error, sorted."""
    return sorted((e.field, e.code) for e in refused(options, of).errors)


def shared(uuid: str, **changes: Any) -> GpuDevice:
    """A GPU of five shares, in steps of 0.1."""
    given: dict[str, Any] = {
        "name": "NVIDIA L40S", "slot": "fgpu", "capacity": 5000, "quantum": 100,
        "memory": 45 * GIB, "provider": "memory",
    }  # fmt: skip
    return GpuDevice(uuid=uuid, **{**given, **changes})


def whole(uuid: str, **changes: Any) -> GpuDevice:
    """A GPU that is given as a whole."""
    given: dict[str, Any] = {"name": "NVIDIA H100", "slot": "gpu", "memory": 80 * GIB}
    return GpuDevice(uuid=uuid, **{**given, **changes})


def mig(uuid: str, profile: str = "1g.10gb", **changes: Any) -> GpuDevice:
    """A MIG device."""
    given: dict[str, Any] = {"name": "NVIDIA H100", "slot": "mig", "provider": "mig"}
    return GpuDevice(uuid=uuid, profile=profile, **{**given, **changes})


def machine(name: str, *devices: GpuDevice, group: str = "lab", **slots: Any) -> AgentFacts:
    """An agent with these devices."""
    sums = {slot: sum(d.capacity for d in devices if d.slot == slot) for slot in GPU_SLOTS}
    return AgentFacts(
        name, group, Slots(**{"cpu": 32_000, "mem": 128 * GIB, **slots}, **sums), devices
    )


# A lab with two GPUs in shares, and one machine with two whole ones and MIG devices of two sizes.
GPU_AGENTS = (
    machine("shares", shared("GPU-a"), shared("GPU-b")),
    machine(
        "h100", whole("GPU-c"), whole("GPU-d"), mig("MIG-1"), mig("MIG-2"), mig("MIG-3", "3g.40gb")
    ),
    AgentFacts("wide", "default", Slots(32_000, 16 * GIB)),
)

POLICIES_WITH_QUOTA = Policies(
    default=DEFAULT, projects={"vision": Quota(total={"cpu": 3}, max_sessions=4)}
)

WITH_GPUS = context(agents=GPU_AGENTS)
