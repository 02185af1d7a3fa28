"""Which GPUs a container has, in Docker's words: pure.

Always by device requests, which name each device. A variable would be overruled by an image that
has another in it, or by its user. Requests are either of the Container Device Interface, which
Docker knows since version 25 and has switched on since 28.2, or of the older `nvidia` driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..model.gpus import Granted

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
VOID = "void"
CDI_KIND = "nvidia.com/gpu"
_NVIDIA_NODE = re.compile(r"/dev/(nvidia|dri(/|$))")
# What Docker says where nobody there knows how to give a container a GPU.
_NO_DRIVER = "could not select device driver"
_NO_DEVICE = (
    "unresolvable CDI devices",
    "CDI device injection failed",
    "nvidia-container-cli",
    "nvidia-container-runtime",
)


def real_devices(granted: Iterable[Granted]) -> list[str]:
    """UUIDs of those that exist."""
    return [one.uuid for one in granted if one.provider != "simulated"]


def device_requests(granted: Iterable[Granted], cdi: bool) -> tuple[dict[str, Any], ...]:
    """The devices of a session as `HostConfig.DeviceRequests`, none without any."""
    uuids = real_devices(granted)
    if not uuids:
        return ()
    request: dict[str, Any] = {"Driver": "nvidia", "DeviceIDs": uuids, "Capabilities": [["gpu"]]}
    if cdi:
        names = [f"{CDI_KIND}={uuid}" for uuid in uuids]
        request = {"Driver": "cdi", "DeviceIDs": names, "Capabilities": []}
    return ({**request, "Count": 0, "Options": {}},)


def visible_devices(granted: Iterable[Granted], cdi: bool) -> str:
    """The variable that a host's `nvidia` runtime goes by, so that it never adds a device.

    With the older driver Docker sets it itself, beside what the image says: that both say the same
    leaves nothing to which of the two is read.
    """
    uuids = real_devices(granted)
    return ",".join(uuids) if uuids and not cdi else VOID


def cdi_of(info: Mapping[str, Any]) -> bool:
    """Whether a daemon gives NVIDIA's devices by CDI, from what `docker info` says.

    Since 28.2 it is on by itself, and lists the devices that it has found, if any, by the names
    that they have been given; they must have their UUIDs. Before that somebody has switched it on.
    """
    if not info.get("CDISpecDirs"):
        return False
    found = info.get("DiscoveredDevices")
    if found is None:
        return not _lists_devices(str(info.get("ServerVersion", "")))
    names = (str(one.get("ID", "")) for one in found if one.get("Source") == "cdi")
    return any(name.startswith((f"{CDI_KIND}=GPU-", f"{CDI_KIND}=MIG-")) for name in names)


def _lists_devices(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= (28, 2)


def without_gpus(host_config: Mapping[str, Any]) -> dict[str, Any]:
    """A host config less what gives a container GPUs; requests for other devices stay."""
    kept = dict(host_config)
    if requests := kept.pop("DeviceRequests", None):
        others = [one for one in requests if not _asks_for_gpus(one)]
        if others:
            kept["DeviceRequests"] = others
    if devices := kept.pop("Devices", None):
        others = [one for one in devices if not _NVIDIA_NODE.match(str(one.get("PathOnHost", "")))]
        if others:
            kept["Devices"] = others
    if str(kept.get("Runtime", "")).startswith("nvidia"):
        del kept["Runtime"]
    return kept


def _asks_for_gpus(request: Mapping[str, Any]) -> bool:
    driver = request.get("Driver") or ""
    names = request.get("DeviceIDs") or ()
    capabilities = {name for group in request.get("Capabilities") or () for name in group}
    if driver == "cdi":
        return any(str(name).startswith("nvidia.com/") for name in names)
    return driver == "nvidia" or "gpu" in capabilities


def refusal(text: str, agent: str) -> str | None:
    """What to tell a user of Docker's refusal to give a container its GPU; None for any other."""
    if _NO_DRIVER in text:
        return (
            f"Docker on {agent} cannot give GPUs to containers. Tell your admin: the NVIDIA "
            "Container Toolkit must be installed there and Docker restarted "
            "(nvidia-ctk runtime configure --runtime=docker)."
        )
    if any(sign in text for sign in _NO_DEVICE):
        return (
            f"Docker on {agent} could not give the session its GPU. Start it again; if it happens "
            "again, tell your admin: Docker's list of GPUs may be old "
            "(nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml)."
        )
    return None
