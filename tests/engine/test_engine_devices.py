"""Which GPUs a container gets: requests, the variable beside them, and nothing from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from golden_cases import GPU, IMAGE, SITE, granted, session
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.engine.create import apply_settings, overruled
from jupyterhub_backendai.engine.devices import (
    cdi_of,
    device_requests,
    refusal,
    visible_devices,
    without_gpus,
)
from jupyterhub_backendai.engine.settings import ContainerSettings, container_settings

CLASSIC = {"Driver": "nvidia", "Count": -1, "DeviceIDs": [], "Capabilities": [["gpu"]]}
OLD = {"Driver": "", "Count": 1, "Capabilities": [["gpu", "utility"]]}
NIC = {"Driver": "cdi", "DeviceIDs": ["vendor.com/nic=0"], "Capabilities": []}
CDI = {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"], "Capabilities": []}
NODE = {"PathOnHost": "/dev/nvidia0", "PathInContainer": "/dev/nvidia0"}
FUSE = {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse"}
THEIRS: dict[str, Any] = {
    "DeviceRequests": [CLASSIC, OLD, NIC, CDI],
    "Devices": [NODE, FUSE],
    "Runtime": "nvidia",
    "NetworkMode": "x",
}


def settings(gpus: bool = True, **facts: Any) -> ContainerSettings:
    return container_settings(session({}, **facts), IMAGE, replace(SITE, gpus=gpus))


def test_requests_by_both_ways() -> None:
    two = (granted("whole"), granted("whole", uuid="GPU-2"))
    (classic,) = device_requests(two, cdi=False)
    assert classic == {
        "Driver": "nvidia",
        "Count": 0,
        "DeviceIDs": [GPU, "GPU-2"],
        "Capabilities": [["gpu"]],
        "Options": {},
    }
    (cdi,) = device_requests(two, cdi=True)
    assert cdi == {
        "Driver": "cdi",
        "Count": 0,
        "DeviceIDs": [f"nvidia.com/gpu={GPU}", "nvidia.com/gpu=GPU-2"],
        "Capabilities": [],
        "Options": {},
    }
    for way in (True, False):
        assert device_requests((), way) == device_requests((granted("simulated"),), way) == ()


def test_the_variable_never_widens_what_was_requested() -> None:
    two = (granted("whole"), granted("whole", uuid="GPU-2"))
    assert visible_devices(two, cdi=False) == f"{GPU},GPU-2"
    assert visible_devices(two, cdi=True) == "void"
    assert visible_devices((), cdi=False) == "void"
    assert visible_devices((granted("simulated"),), cdi=False) == "void"
    # Whatever the image or a user says.
    image = replace(IMAGE, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    for facts in ({}, {"granted": two}, {"granted": two, "cdi": True}):
        found = container_settings(session({}, **facts), image, SITE).environment
        assert found["NVIDIA_VISIBLE_DEVICES"] == visible_devices(
            facts.get("granted", ()),  # type: ignore[arg-type]
            bool(facts.get("cdi")),
        )


@pytest.mark.parametrize(
    ("info", "cdi"),
    [
        ({}, False),  # Docker before 25
        ({"CDISpecDirs": []}, False),  # switched off
        ({"CDISpecDirs": None}, False),
        # Before it lists devices somebody has switched it on; since then it lists none where there
        # are none, and is on by itself.
        ({"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"], "ServerVersion": "27.5.1"}, True),
        ({"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"], "ServerVersion": "28.1.0-rc.2"}, True),
        ({"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"], "ServerVersion": "28.2.2"}, False),
        ({"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"], "ServerVersion": "29.0.1+dfsg1"}, False),
        ({"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, False),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": []}, False),
        (
            {
                "CDISpecDirs": ["/etc/cdi"],
                "DiscoveredDevices": [
                    {"Source": "cdi", "ID": name}
                    for name in ("vendor.com/nic=0", "nvidia.com/gpu=0", "nvidia.com/gpu=all")
                ],
            },
            False,
        ),
        (
            {
                "CDISpecDirs": ["/etc/cdi"],
                "DiscoveredDevices": [{"Source": "cdi", "ID": f"nvidia.com/gpu={GPU}"}],
            },
            True,
        ),
    ],
)
def test_whether_docker_has_cdi(info: dict[str, Any], cdi: bool) -> None:
    assert cdi_of(info) is cdi


def test_what_an_admin_gives_stays_where_sessions_have_no_gpus_of_ours() -> None:
    found = apply_settings({"host_config": THEIRS}, settings(gpus=False))["host_config"]
    assert {name: found[name] for name in THEIRS} == THEIRS
    assert overruled({"host_config": THEIRS}, settings(gpus=False)) == []


def test_elsewhere_a_session_has_its_own_devices_and_no_others() -> None:
    none = settings()
    found = apply_settings({"host_config": THEIRS}, none)["host_config"]
    assert (found["DeviceRequests"], found["Devices"]) == ([NIC], [FUSE])
    assert "Runtime" not in found
    assert found["NetworkMode"] == "x"
    assert overruled({"host_config": THEIRS}, none) == ["DeviceRequests", "Devices", "Runtime"]
    own = settings(granted=(granted("whole"),))
    assert own.device_requests is not None
    found = apply_settings({"host_config": THEIRS}, own)["host_config"]
    assert found["DeviceRequests"] == [NIC, *own.device_requests]
    plain = {"Runtime": "kata", "Devices": [FUSE], "DeviceRequests": []}
    found = apply_settings({"host_config": plain}, none)["host_config"]
    assert (found["Runtime"], found["Devices"]) == ("kata", [FUSE])
    assert "DeviceRequests" not in found
    assert overruled({"host_config": plain}, none) == []


@given(st.lists(st.sampled_from([CLASSIC, OLD, NIC, CDI])), st.lists(st.sampled_from([NODE, FUSE])))
def test_no_gpu_comes_from_a_host_config(
    requests: list[dict[str, Any]], devices: list[dict[str, str]]
) -> None:
    kept = without_gpus({"DeviceRequests": requests, "Devices": devices})
    assert kept.get("DeviceRequests", []) == [one for one in requests if one is NIC]
    assert kept.get("Devices", []) == [one for one in devices if one is FUSE]


def test_a_cgroup_of_its_own_overrules_the_admins() -> None:
    facts = session({}, granted=(granted("memory"),))
    gpu = replace(facts.gpu, cgroup_parent="fgpu-1.slice")
    own = container_settings(replace(facts, gpu=gpu), IMAGE, SITE)
    theirs = {"host_config": {"CgroupParent": "users.slice"}}
    assert apply_settings(theirs, own)["host_config"]["CgroupParent"] == "fgpu-1.slice"
    assert overruled(theirs, own) == ["CgroupParent"]
    assert apply_settings(theirs, settings())["host_config"]["CgroupParent"] == "users.slice"


def test_what_sessions_are_told_of_their_gpus() -> None:
    one = granted("mps", amount=1500, memory=3 * 2**30, percent=30)
    found = settings(granted=(one,)).environment
    assert {name: value for name, value in found.items() if name.startswith("FGPU_")} == {
        "FGPU_SHARES": "1.5",
        "FGPU_SHARES_PER_GPU": "5",
        "FGPU_MEMORY_BYTES": "3221225472",
        "FGPU_SM_PERCENT": "30",
        "FGPU_PROVIDER": "mps",
        "FGPU_ENFORCEMENT": "memory=hard,compute=soft,faults=none",
        "FGPU_VERIFIED": "no",
    }
    two = (granted("whole"), granted("whole", uuid="GPU-2"))
    found = settings(granted=two).environment
    assert found["FGPU_MEMORY_BYTES"] == "48301604864,48301604864"
    assert "FGPU_SHARES" not in found
    assert not any(name.startswith("FGPU_") for name in settings().environment)


def test_what_docker_says_where_it_cannot_give_gpus() -> None:
    said = refusal('could not select device driver "nvidia" with capabilities: [[gpu]]', "box1")
    assert said is not None
    assert "box1" in said
    assert "NVIDIA Container Toolkit" in said
    said = refusal(f"unresolvable CDI devices nvidia.com/gpu={GPU}", "box1")
    assert said is not None
    assert "nvidia-ctk cdi generate" in said
    assert refusal("bind source path does not exist", "box1") is None
