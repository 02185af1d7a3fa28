"""A container's settings as arguments of Docker's `create_container`."""

from __future__ import annotations

from typing import Any

from .devices import without_gpus
from .settings import LOG_FILES, ContainerSettings


def log_config(log_max: int) -> dict[str, Any]:
    """A log of at most so many bytes, of the kind that every Docker can read back."""
    size = f"{max(1, log_max // LOG_FILES // 1024)}k"
    return {"Type": "json-file", "Config": {"max-size": size, "max-file": str(LOG_FILES)}}


def apply_settings(kwargs: dict[str, Any], settings: ContainerSettings) -> dict[str, Any]:
    """The arguments of `create_container` with a session's settings in them.

    What the admin set through DockerSpawner stays, but for what the session was granted.
    """
    host_config = dict(kwargs.get("host_config") or {})
    if settings.device_requests is not None:
        host_config = without_gpus(host_config)
        requests = [*(host_config.pop("DeviceRequests", None) or ()), *settings.device_requests]
        if requests:
            host_config["DeviceRequests"] = requests
    if settings.cgroup_parent:
        host_config["CgroupParent"] = settings.cgroup_parent
    host_config.update(
        Memory=settings.memory,
        MemorySwap=settings.memory_swap,
        ShmSize=settings.shm,
        Init=settings.init,
        AutoRemove=False,
    )
    # Started again it would be another life of a session that is over.
    host_config["RestartPolicy"] = {"Name": "no", "MaximumRetryCount": 0}
    host_config.setdefault("LogConfig", log_config(settings.log_max))
    host_config.setdefault("CpuPeriod", settings.cpu_period)
    host_config["CpuQuota"] = settings.cpu_quota * host_config["CpuPeriod"] // settings.cpu_period
    if settings.cpuset:
        host_config["CpusetCpus"] = settings.cpuset
    host_config.setdefault("PidsLimit", settings.pids_limit)
    host_config.setdefault("CapDrop", list(settings.cap_drop))
    if settings.cap_add:
        host_config.setdefault("CapAdd", list(settings.cap_add))
    host_config.setdefault("SecurityOpt", list(settings.security_opt))
    host_config["Mounts"] = [*(host_config.get("Mounts") or ()), *settings.mounts]
    # Docker refuses a container with these beside a quota, or with more kept free than granted.
    for name in ("NanoCpus", "MemoryReservation"):
        host_config.pop(name, None)
    given = kwargs.get("environment") or {}
    environment = {**given, **settings.environment}
    if path := given.get("PYTHONPATH"):
        environment["PYTHONPATH"] = f"{settings.environment['PYTHONPATH']}:{path}"
    return {
        "user": settings.user,
        "hostname": settings.hostname,
        "working_dir": settings.working_dir,
        **kwargs,
        "environment": environment,
        "labels": {**(kwargs.get("labels") or {}), **settings.labels},
        "host_config": host_config,
    }


def overruled(kwargs: dict[str, Any], settings: ContainerSettings) -> list[str]:
    """What these arguments would have given the container and `apply_settings` takes from them,
    in Docker's words: a function as `extra_host_config` can say anything."""
    given = kwargs.get("host_config") or {}
    granted = {
        "Memory": settings.memory,
        "MemorySwap": settings.memory_swap,
        "ShmSize": settings.shm,
        "NanoCpus": 0,
        "MemoryReservation": 0,
    }
    period = given.get("CpuPeriod") or settings.cpu_period
    granted["CpuQuota"] = settings.cpu_quota * period // settings.cpu_period
    # DockerSpawner rounds a quota down from a fraction, so it may be one off.
    names = [name for name, value in granted.items() if abs(given.get(name, value) - value) > 1]
    if settings.device_requests is not None:
        kept = without_gpus(given)
        gpus = ("DeviceRequests", "Devices", "Runtime")
        names += [name for name in gpus if (given.get(name) or None) != kept.get(name)]
    if settings.cgroup_parent and given.get("CgroupParent"):
        names.append("CgroupParent")
    restart = (given.get("RestartPolicy") or {}).get("Name") or "no"
    return names if restart == "no" else [*names, "RestartPolicy"]
