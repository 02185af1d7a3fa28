"""A made-up site: what the options form gets from the server."""

from __future__ import annotations

import copy
from typing import Any

GIB = 2**30


def amounts(cpu: float, mem: float, fgpu: float = 0) -> dict[str, int]:
    """Cores, GiB and shares as raw amounts."""
    return {"cpu": int(cpu * 1000), "mem": int(mem * GIB), "fgpu": int(fgpu * 1000)}


def preset(
    name: str, cpu: float, mem: float, fgpu: float = 0, shm: float | None = None, code: str = "now",
    text: str = "Starts now.", description: str = "",
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name,
        "description": description,
        **amounts(cpu, mem, fgpu),
        "shm": None if shm is None else int(shm * GIB),
        "verdict": {"code": code, "text": text, "ahead": 0},
    }


def limits(
    most: float, free: float | None, left: float | None, unit: int, why: str = ""
) -> dict[str, Any]:
    def raw(amount: float | None) -> int | None:
        return None if amount is None else int(amount * unit)

    return {"most": raw(most), "free": raw(free), "left": raw(left), "why": why}


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
            "capacity": amounts(32, 128),
            "free": amounts(20, 96),
        },
        {"name": "cpu-02", "available": False, "capacity": amounts(32, 128), "free": amounts(0, 0)},
    ],
    "capacity": amounts(64, 256),
    "free": amounts(20, 96),
    "limits": {
        "cpu": limits(32, 20, 16, 1000, "the largest machine of default"),
        "mem": limits(128, 96, 40, GIB, "the largest machine of default"),
        "shm": limits(128, 96, None, GIB),
        "fgpu": limits(0, 0, 0, 1000),
    },
    "has_fgpu": False,
    "presets": [
        preset("small", 2, 4),
        preset("medium", 4, 16, shm=2),
        preset("large", 16, 64, code="waits", text="Not now: 40 GB is left to you."),
        preset("huge", 64, 256, code="never", text="Never fits: the largest machine has 32 cores."),
    ],
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
            "capacity": amounts(64, 512, 20),
            "free": amounts(44, 402, 1.5),
        },
        {
            "name": "gpu-02",
            "available": True,
            "capacity": amounts(64, 512, 20),
            "free": amounts(12, 80, 1),
        },
    ],
    "capacity": amounts(128, 1024, 40),
    "free": amounts(56, 482, 7.5),
    "limits": {
        "cpu": limits(32, 44, 16, 1000, "your limit for one session"),
        "mem": limits(128, 402, 40, GIB, "your limit for one session"),
        "shm": limits(128, 402, None, GIB),
        "fgpu": limits(6, 1.5, 3, 1000, "your limit for one session"),
    },
    "has_fgpu": True,
    "presets": [
        preset("small", 2, 4),
        preset("gpu-small", 4, 16, 1, shm=2),
        preset("gpu-pair", 16, 96, 10, code="never", text="Never fits: your limit is 6 FGPU."),
    ],
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
            "minimum": {"cpu": 1000, "mem": GIB, "shm": None, "fgpu": None},
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
            "minimum": {"cpu": 2000, "mem": 8 * GIB, "shm": None, "fgpu": None},
            "apps": [{"name": "tensorboard", "title": "TensorBoard", "port": 6006}],
        },
        {
            "name": "r", "title": "R", "description": "4.5, tidyverse", "icon": "chart-line",
            "versions": [{"name": "default", "image": "lab/r:4.5", "description": ""}],
            "minimum": {"cpu": None, "mem": None, "shm": None, "fgpu": None}, "apps": [],
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
    "ports": {
        "most": 10, "from": 1024, "to": 65535,
        "reserved": {"2000": "the session itself", "8888": "Jupyter", "7681": "the terminal"},
    },
    "threads": {"most": 1000},
    "home": "/home/work",
    "last": None,
    "default": {
        "summary": "Python 3.13, 2 cores, 4 GB",
        "verdict": {"code": "now", "text": "Starts now.", "ahead": 0},
    },
    "draft": None,
    "spec": SPEC,
    "errors": [],
}  # fmt: skip


def view(**changes: Any) -> dict[str, Any]:
    """The site with some of its keys replaced; `spec` is merged into the default one."""
    made = copy.deepcopy(VIEW)
    made["spec"] |= changes.pop("spec", {})
    return made | copy.deepcopy(changes)


def error(field: str, message: str, code: str = "bad") -> dict[str, str]:
    return {"field": field, "code": code, "message": message}
