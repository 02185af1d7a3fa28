"""A made-up site: what the options form gets from the server."""

from __future__ import annotations

import copy
from typing import Any, Literal

from jupyterhub_backendai.model.catalog import Environment, ResourceGroup
from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice
from jupyterhub_backendai.model.request import AgentFacts
from jupyterhub_backendai.model.slots import GPU_SLOTS, SLOT_NAMES, Slots, format_slot
from jupyterhub_backendai.site import form_rules
from jupyterhub_backendai.site.gpus import GroupGpus

GIB = 2**30


def amounts(
    cpu: float, mem: float, fgpu: float = 0, gpu: float = 0, mig: float = 0
) -> dict[str, int]:
    """Cores, GiB and GPUs as raw amounts."""
    return {
        "cpu": int(cpu * 1000), "mem": int(mem * GIB), "fgpu": int(fgpu * 1000),
        "gpu": int(gpu * 1000), "mig": int(mig * 1000),
    }  # fmt: skip


def preset(
    name: str, cpu: float, mem: float, fgpu: float = 0, shm: float | None = None, code: str = "now",
    text: str = "Starts now.", description: str = "",
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name,
        "description": description,
        **amounts(cpu, mem, fgpu),
        "shm": None if shm is None else int(shm * GIB),
        "mig_profile": None,
        "verdict": {"code": code, "text": text, "ahead": 0},
    }


def limits(most: float, free: float, left: float | None, unit: int) -> dict[str, int | None]:
    return {
        "most": int(most * unit),
        "free": int(free * unit),
        "left": None if left is None else int(left * unit),
    }


def gpus(
    group: dict[str, Any], *devices: GpuDevice, most: float, free: float
) -> list[dict[str, Any]]:
    """What the server tells of these devices of a group, of which one session may have `most` and
    could be given `free` now (units of a slot)."""
    facts = AgentFacts("gpu-01", group["name"], Slots(), devices)
    made = GroupGpus(ResourceGroup(name=group["name"]), [facts], {})
    told = made.told(
        dict.fromkeys(made.kinds, int(most * 1000)), dict.fromkeys(GPU_SLOTS, 3000), ()
    )
    for kind in told:
        kind["limits"]["free"] = int(free * 1000)
    return told


def simulated(
    uuid: str, slot: Literal["fgpu", "gpu", "mig"], profile: str | None = None
) -> GpuDevice:
    """A GPU that is none."""
    return GpuDevice(
        uuid=uuid, name="NVIDIA H100", slot=slot, profile=profile, memory=80 * GIB,
        capacity=5000 if slot == "fgpu" else 1000, quantum=100 if slot == "fgpu" else 1000,
        provider="simulated",
    )  # fmt: skip


def judged(group: dict[str, Any]) -> dict[str, Any]:
    """A group with what the server judges by: real sentences on made-up figures."""
    limits, name = group["limits"], group["name"]
    left = {slot: limits[slot]["left"] for slot in SLOT_NAMES}

    def never(most: dict[str, int], whose: str) -> list[dict[str, Any]]:
        text = f"Never fits: {whose} has "
        return [
            form_rules.bound(slot, most[slot], "never", f"{text}{format_slot(slot, most[slot])}.")
            for slot in SLOT_NAMES
        ]

    def free(agents: list[dict[str, Any]]) -> list[Slots]:
        return [Slots(**agent["free"]) for agent in agents if agent["available"]]

    ends = never(
        {slot: limits[slot]["most"] for slot in SLOT_NAMES}, f"the largest machine of {name}"
    )
    made = group | form_rules.judged(ends, left, free(group["agents"]), group["waiting"], name)
    made["agents"] = [
        agent
        | form_rules.judged(
            never(agent["capacity"], agent["name"]), left, free([agent]), group["waiting"], name,
            agent["name"],
        )
        for agent in group["agents"]
    ]  # fmt: skip
    return made


DEFAULT_GROUP: dict[str, Any] = {
    "name": "default",
    "title": "",
    "description": "CPU only",
    "choose_agent": True,
    "waiting": 0,
    "agents": [
        {
            "name": "cpu-01",
            "available": True,
            "schedulable": True,
            "capacity": amounts(32, 128),
            "free": amounts(20, 96),
        },
        {
            "name": "cpu-02",
            "available": False,
            "schedulable": True,
            "capacity": amounts(32, 128),
            "free": amounts(0, 0),
        },
    ],
    "capacity": amounts(64, 256),
    "free": amounts(20, 96),
    "limits": {
        "cpu": limits(32, 20, 16, 1000),
        "mem": limits(128, 96, 40, GIB),
        "shm": limits(128, 96, None, GIB),
        "fgpu": limits(0, 0, 0, 1000),
        "gpu": limits(0, 0, 0, 1000),
        "mig": limits(0, 0, 0, 1000),
    },
    "gpus": [],
    "presets": [
        preset("small", 2, 4),
        preset("medium", 4, 16, shm=2),
        preset("large", 16, 64, code="waits", text="Not now: 40 GB is left to you."),
        preset("huge", 64, 256, code="never", text="Never fits: the largest machine has 32 cores."),
    ],
    "usual": {},
}

GPU_GROUP: dict[str, Any] = {
    "name": "gpu-lab",
    "title": "",
    "description": "8 A100 GPUs, 5 FGPU each",
    "choose_agent": True,
    "waiting": 0,
    "agents": [
        {
            "name": "gpu-01",
            "available": True,
            "schedulable": True,
            "capacity": amounts(64, 512, 20),
            "free": amounts(44, 402, 1.5),
        },
        {
            "name": "gpu-02",
            "available": True,
            "schedulable": True,
            "capacity": amounts(64, 512, 20),
            "free": amounts(12, 80, 1),
        },
    ],
    "capacity": amounts(128, 1024, 40),
    "free": amounts(56, 482, 7.5),
    "limits": {
        "cpu": limits(32, 44, 16, 1000),
        "mem": limits(128, 402, 40, GIB),
        "shm": limits(128, 402, None, GIB),
        "fgpu": limits(6, 1.5, 3, 1000),
        "gpu": limits(0, 0, 3, 1000),
        "mig": limits(0, 0, 3, 1000),
    },
    "gpus": [],
    "presets": [
        preset("small", 2, 4),
        preset("gpu-small", 4, 16, 1, shm=2),
        preset("gpu-pair", 16, 96, 10, code="never", text="Never fits: your limit is 6 FGPU."),
    ],
    "usual": {},
}


GPU_GROUP["gpus"] = gpus(
    GPU_GROUP,
    GpuDevice(
        uuid="GPU-a", name="NVIDIA A100", slot="fgpu", capacity=5000, quantum=100, provider="mps",
        memory=79 * GIB, enforcement=Enforcement(memory="hard", compute="soft"),
    ),
    most=6, free=1.5,
)  # fmt: skip


def least(name: str, title: str, **minimum: Any) -> dict[str, Any]:
    """What an environment needs, and the ports of its apps."""
    environment = Environment(
        name=name, title=title, versions=({"name": "1", "image": "lab/x:1"},), minimum=minimum,
        apps=({"name": "tensorboard", "title": "TensorBoard", "port": 6006},),
    )  # type: ignore[arg-type] # fmt: skip
    return {
        "needs": form_rules.needs(environment),
        "closed_ports": form_rules.ports_of_apps(environment),
    }


SPEC: dict[str, Any] = {
    "name": None, "type": "interactive", "environment": "python", "version": "3.13", "image": None,
    "env": {}, "resource_group": "default", "agent": "auto", "preset": "small",
    "resources": {}, "count": 1,
    "cluster": {"mode": "single-node", "size": 1}, "threads": {"omp": None, "openblas": None},
    "mounts": [], "preopen_ports": [], "batch": None, "owner": None, "project": None,
}  # fmt: skip

VIEW: dict[str, Any] = {
    "user": {"name": "mkim", "admin": False, "projects": ["gpu-lab", "cs101"]},
    "environments": [
        {
            "name": "python", "title": "Python", "description": "NumPy, pandas", "icon": "code",
            "versions": [
                {"name": "3.13", "image": "lab/python:3.13", "description": "current"},
                {"name": "3.12", "image": "lab/python:3.12", "description": ""},
            ],
            **least("python", "Python", cpu=1, mem="1g"),
            "apps": [{"name": "terminal", "title": "Terminal", "port": None}],
        },
        {
            "name": "pytorch", "title": "PyTorch", "icon": "fire",
            "description": "CUDA 13, torchvision",
            "versions": [
                {"name": "2.9", "image": "lab/pytorch:2.9-py313-cuda13",
                 "description": "Python 3.13, CUDA 13"},
                {"name": "2.8", "image": "lab/pytorch:2.8-py312-cuda12",
                 "description": "Python 3.12, CUDA 12"},
            ],
            **least("pytorch", "PyTorch", cpu=2, mem="8g"),
            "apps": [{"name": "tensorboard", "title": "TensorBoard", "port": 6006}],
        },
        {
            "name": "r", "title": "R", "description": "4.5, tidyverse", "icon": "chart-line",
            "versions": [{"name": "default", "image": "lab/r:4.5", "description": ""}],
            **least("r", "R"), "apps": [],
        },
    ],
    "manual_image": False,
    "resource_groups": [DEFAULT_GROUP, GPU_GROUP],
    "folders": [
        {"name": "attention", "permission": "rw", "project": None, "auto": False},
        {"name": "datasets", "permission": "rw", "project": None, "auto": False},
        {"name": "homework", "permission": "rw", "project": None, "auto": False},
        {"name": "results", "permission": "rw", "project": None, "auto": False},
        {"name": "cs101/lectures", "permission": "ro", "project": "cs101", "auto": False},
        {"name": ".config", "permission": "rw", "project": None, "auto": True},
    ],
    "folders_enabled": True,
    "folder_limit": {"most": 20, "used": 5},
    "rules": form_rules.field_rules(),
    "ports": form_rules.port_rules(10),
    "home": "/home/work",
    "last": None,
    "default": {
        "summary": "Python 3.13, 2 cores, 4 GB",
        "verdict": {"code": "now", "text": "Starts now.", "ahead": 0},
    },
    "viewer": "mkim",
    "ticket": "the-ticket",
    "kept": False,
    "from_link": False,
    "note": "",
    "draft": None,
    "spec": SPEC,
    "errors": [],
}  # fmt: skip


def view(**changes: Any) -> dict[str, Any]:
    """The site with some of its keys replaced; `spec` is merged into the default one."""
    made = copy.deepcopy(VIEW)
    made["spec"] |= changes.pop("spec", {})
    return made | copy.deepcopy(changes)


def as_served(made: dict[str, Any]) -> dict[str, Any]:
    """The site as the server would send it now, after a test changed its figures."""
    return made | {"resource_groups": [judged(group) for group in made["resource_groups"]]}


def error(field: str, message: str, code: str = "bad") -> dict[str, str]:
    return {"field": field, "code": code, "message": message}
