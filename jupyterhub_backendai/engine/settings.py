"""What a container is to be, computed purely from the session, its allocation and the site.

No I/O and no clock: the same input gives the same settings (the golden tests hold them).
"""

from __future__ import annotations

import hashlib
import posixpath
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..model.apps import App
from ..model.gpu_settings import GpuSettings
from ..model.gpus import Granted
from ..model.resolve import MountPoint, SessionRequest
from ..model.rules import HOME, OWN_FOLDER, is_reserved_env
from ..model.slots import format_thousandths
from .base import LABEL_CORES, LABEL_HUB, LABEL_KERNEL, LABEL_SESSION, LABEL_USER, ImageFacts
from .batch import BatchJob
from .devices import VISIBLE, device_requests, visible_devices

SUPPORT_DIR = "/opt/backendai"
IMPORT_DIR = f"{SUPPORT_DIR}/import"
# The extension of the session's Jupyter server, and what it is told.
SERVER_DIR = f"{SUPPORT_DIR}/lib/backendai_session"
SESSION_FILE = f"{SUPPORT_DIR}/session.json"
# Keys and what a server notes of itself: in the home, which is in no image made of the session.
OWN_DIR = f"{HOME}/{OWN_FOLDER}"
SSH_DIR = f"{OWN_DIR}/ssh"
RUNTIME_DIR = f"{OWN_DIR}/runtime"
SSH_PORT = 2200
# Of batch sessions: the runner, its job, the word to start, what became of it, what it wrote.
RUNNER_DIR = f"{SUPPORT_DIR}/runner"
BATCH_DIR = f"{SUPPORT_DIR}/batch"
JOB_FILE = f"{BATCH_DIR}/job.json"
GO_FILE = f"{BATCH_DIR}/go"
STATE_DIR = f"{BATCH_DIR}/state"
OUTPUT_DIR = f"{BATCH_DIR}/output"
# Nothing of the user's environment says what Python imports before the user's command runs.
RUNNER = ("python3", "-I", "-S", RUNNER_DIR, JOB_FILE)
MAX_PART = 200  # bytes of one step of a path; file systems end at 255
CPU_PERIOD = 100_000  # microseconds; the kernel's default, so quota = cores × period
# What `c.BackendAI.capabilities` may name.
# fmt: off
CAPABILITIES = frozenset({
    "ALL", "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF",
    "CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID",
    "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE",
    "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE",
    "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME",
    "SYS_TTY_CONFIG", "WAKE_ALARM",
})
# fmt: on
LOG_MAX = 100 * 1024**2  # bytes
LOG_FILES = 2  # that the engine keeps of a container's log; the older goes as a whole
DEFAULT_COMMAND = ("jupyterhub-singleuser",)  # an image may have no Cmd at all


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """What the configuration says of every container."""

    hub_id: str
    uid: int = 1000
    gid: int = 100
    pids_limit: int = 4096
    capabilities: tuple[str, ...] = ()
    folder_root: str = ""  # as the Docker host sees it; "" where folders are off
    scratch_driver: str = "local"
    scratch_options: Mapping[str, str] = field(default_factory=dict)
    log_max: int = LOG_MAX  # bytes that are kept of one container's log
    # Whether sessions have GPUs by what they were granted, and by nothing else.
    gpus: bool = False


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """One kernel of a session that has its place."""

    session_id: str
    name: str
    owner: str
    agent: str
    request: SessionRequest
    command: tuple[str, ...] = ()  # of the environment or the spawner; () is the image's own
    kernel: str = "main1"
    cores: tuple[int, ...] | None = None  # None: no pinning, the quota alone
    batch: BatchJob | None = None  # None: an interactive session
    granted: tuple[Granted, ...] = ()  # its GPUs, and what their provider needs of the container
    gpu: GpuSettings = GpuSettings()
    cdi: bool = False  # whether its engine gives devices by CDI
    apps: tuple[App, ...] = ()  # that its environment declares
    apps_key: str = ""  # who has it reaches the session's apps; "": nobody but who signs in


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """What the engine is to create. Memory, shm, log in bytes, quota and period in microseconds.

    `device_requests`: its GPUs, none but these; None leaves that to the engine's own settings.
    """

    image: str
    command: tuple[str, ...]
    hostname: str
    user: str
    working_dir: str
    environment: dict[str, str]
    labels: dict[str, str]
    mounts: tuple[dict[str, Any], ...]
    scratch_volume: str
    cpu_quota: int
    cpu_period: int
    cpuset: str
    memory: int
    memory_swap: int
    shm: int
    pids_limit: int
    cap_add: tuple[str, ...]
    log_max: int = LOG_MAX
    batch: BatchJob | None = None
    cap_drop: tuple[str, ...] = ("ALL",)
    security_opt: tuple[str, ...] = ("no-new-privileges",)
    init: bool = True
    device_requests: tuple[dict[str, Any], ...] | None = None
    cgroup_parent: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)  # to the extension, as its JSON


def folder_path(root: str, owner: str, project: str | None, folder: str) -> str:
    """Where a folder is below `root`. Owner and project are escaped by `path_part`.

    Raises ValueError for a name that would lead elsewhere; `check_folder_name` lets none through.
    """
    name = folder.rsplit("/", 1)[-1]
    if name in {"", ".", ".."} or "\x00" in name:
        raise ValueError(f"{folder!r} is no folder's name")
    if project is not None:
        return posixpath.join(root, "projects", path_part(project), name)
    return posixpath.join(root, "users", path_part(owner), name)


def path_part(name: str) -> str:
    """A name that somebody else chose as one step of a path: never empty, `.`, `..` or with a `/`,
    and never the same for two names.

    Everything but letters, digits, `_` and `-` becomes its UTF-8 bytes as `.xx`. What would be too
    long for a file system ends in a hash instead; `._` is in nothing else.
    """
    kept = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    raw = name.encode("utf-8", "surrogatepass")
    part = "".join(
        char
        if char in kept
        else "".join(f".{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in name
    )
    if 0 < len(part) <= MAX_PART:
        return part
    return f"{part[:100]}._{hashlib.sha256(raw).hexdigest()}"


def scratch_name(hub_id: str, session_id: str) -> str:
    """The name of the volume that holds a session's home."""
    return f"backendai-{hub_id}-{session_id}-home"


def container_settings(
    session: SessionFacts, image: ImageFacts, site: SiteSettings
) -> ContainerSettings:
    """The container of one kernel of a session."""
    request = session.request
    labels = _labels(session, site)
    scratch = scratch_name(site.hub_id, session.session_id)
    cap_add = tuple(c.upper().removeprefix("CAP_") for c in site.capabilities)
    server = session.command or image.command or DEFAULT_COMMAND
    return ContainerSettings(
        image=request.image,
        command=server if session.batch is None else (*RUNNER, *server),
        hostname=session.kernel,
        user=f"{site.uid}:{site.gid}",
        working_dir=HOME,
        environment=_environment(session, image, site),
        labels=labels,
        mounts=(
            _scratch_mount(scratch, labels, site),
            *_folder_mounts(session, site),
            *_gpu_mounts(session.gpu),
        ),
        scratch_volume=scratch,
        cpu_quota=max(1000, request.cpu * CPU_PERIOD // 1000),
        cpu_period=CPU_PERIOD,
        cpuset="" if session.cores is None else ",".join(map(str, session.cores)),
        memory=request.mem,
        memory_swap=request.mem,
        shm=request.shm,
        pids_limit=site.pids_limit,
        cap_add=cap_add,
        log_max=site.log_max,
        batch=session.batch,
        device_requests=_device_requests(session, site),
        cgroup_parent=session.gpu.cgroup_parent,
        told=_told(session),
    )


def _told(session: SessionFacts) -> dict[str, Any]:
    """What the session's side knows of its apps. Of the key it has no more than the hash, so that
    nothing in a container, or in an image made from it, opens another."""
    key = session.apps_key.encode()
    return {
        "key_sha256": hashlib.sha256(key).hexdigest() if key else "",
        "preopen_ports": list(session.request.preopen_ports),
        # Those without a port are known by their names there.
        "apps": [_told_app(app) for app in session.apps if app.ports],
        "ssh_port": SSH_PORT,
    }


def _told_app(app: App) -> dict[str, Any]:
    protocol = "http" if app.protocol == "http" else "tcp"
    return {**app.model_dump(mode="json"), "title": app.label, "protocol": protocol}


def _device_requests(
    session: SessionFacts, site: SiteSettings
) -> tuple[dict[str, Any], ...] | None:
    if not site.gpus and not session.granted:
        return None
    return device_requests(session.granted, session.cdi)


def _gpu_mounts(gpu: GpuSettings) -> tuple[dict[str, Any], ...]:
    """Sockets of the machine. One that is gone fails the start: Docker would make a directory."""
    return tuple(
        {
            "Type": "bind",
            "Source": path,
            "Target": path,
            "ReadOnly": False,
            "BindOptions": {"Propagation": "rprivate"},
        }
        for path in gpu.mounts
    )


def _labels(session: SessionFacts, site: SiteSettings) -> dict[str, str]:
    return {
        LABEL_HUB: site.hub_id,
        LABEL_SESSION: session.session_id,
        LABEL_USER: session.owner,
        LABEL_KERNEL: session.kernel,
        # Always there: else it could be inherited from an image, and take cores from others.
        LABEL_CORES: ",".join(map(str, session.cores or ())),
    }


def _scratch_mount(name: str, labels: dict[str, str], site: SiteSettings) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": name,
        "Target": HOME,
        "VolumeOptions": {
            "Labels": {k: labels[k] for k in (LABEL_HUB, LABEL_SESSION, LABEL_USER)},
            "DriverConfig": {
                "Name": site.scratch_driver,
                "Options": dict(site.scratch_options),
            },
        },
    }


def _folder_mounts(session: SessionFacts, site: SiteSettings) -> tuple[dict[str, Any], ...]:
    def mount(place: MountPoint) -> dict[str, Any]:
        return {
            "Type": "bind",
            "Source": folder_path(site.folder_root, session.owner, place.project, place.folder),
            "Target": place.target,
            "ReadOnly": place.permission == "ro",
            # A private mount: nothing mounted below it in the container reaches the host.
            "BindOptions": {"Propagation": "rprivate"},
        }

    # Parents before children, so that one folder inside another's mount point is on top.
    return tuple(mount(p) for p in sorted(session.request.mounts, key=lambda p: p.target))


def _environment(session: SessionFacts, image: ImageFacts, site: SiteSettings) -> dict[str, str]:
    """Defaults, then the user's variables, then what is ours alone.

    Reserved names were refused when the request was made; they are left out once more here,
    because a request that waited may be older than a rule.
    """
    request = session.request
    environment = {
        "OMP_NUM_THREADS": str(request.omp_threads),
        "OPENBLAS_NUM_THREADS": str(request.openblas_threads),
        "NPROC": str(max(1, -(-request.cpu // 1000))),
        **{name: value for name, value in request.env.items() if not is_reserved_env(name)},
        "HOME": HOME,
        "USER": "work",
        # An image may bake in "all", which a host's nvidia runtime would take at its word.
        VISIBLE: visible_devices(session.granted, session.cdi),
        "JUPYTER_RUNTIME_DIR": RUNTIME_DIR,
        "LOCAL_USER_ID": str(site.uid),
        "LOCAL_GROUP_ID": str(site.gid),
        **_backendai_variables(session, site),
        **_gpu_variables(session.granted),
        **session.gpu.environment,
    }
    # The start-up support is found first and then takes itself off the path again.
    others = environment.get("PYTHONPATH", image.env.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = f"{IMPORT_DIR}:{others}" if others else IMPORT_DIR
    return environment


def _backendai_variables(session: SessionFacts, site: SiteSettings) -> dict[str, str]:
    """The variables that sessions of the product have (semantics §8), for one container."""
    request = session.request
    user_uuid = uuid.uuid5(uuid.NAMESPACE_URL, f"backendai:{site.hub_id}:{session.owner}")
    return {
        "BACKENDAI_USER_UUID": str(user_uuid),
        "BACKENDAI_USER_NAME": session.owner,
        **({"BACKENDAI_USER_EMAIL": session.owner} if "@" in session.owner else {}),
        "BACKENDAI_SESSION_ID": session.session_id,
        "BACKENDAI_SESSION_NAME": session.name,
        "BACKENDAI_KERNEL_ID": f"{session.session_id}-{session.kernel}",
        "BACKENDAI_KERNEL_IMAGE": request.image,
        "BACKENDAI_CLUSTER_SIZE": "1",
        "BACKENDAI_CLUSTER_REPLICAS": "main:1",
        "BACKENDAI_CLUSTER_HOSTS": "main1",
        "BACKENDAI_CLUSTER_HOST": session.kernel,
        "BACKENDAI_CLUSTER_ROLE": "main",
        "BACKENDAI_CLUSTER_IDX": "1",
        "BACKENDAI_CLUSTER_LOCAL_RANK": "0",
        "BACKENDAI_AGENT": session.agent,
        "BACKENDAI_RESOURCE_GROUP": request.resource_group,
        "BACKENDAI_PREOPEN_PORTS": ",".join(map(str, request.preopen_ports)),
        "BACKENDAI_SERVICE_PORTS": ",".join(_service_ports(session)),
        "BACKENDAI_PERSISTENT_PATHS": ":".join(sorted(p.target for p in request.mounts)),
    }


def _service_ports(session: SessionFacts) -> Iterator[str]:
    """Apps with a port, as the product's label has them."""
    for app in session.apps:
        if app.ports:
            ports = ",".join(map(str, app.ports))
            yield f"{app.name}:{app.protocol}:{f'[{ports}]' if len(app.ports) > 1 else ports}"
    for port in session.request.preopen_ports:
        yield f"{port}:preopen:{port}"


def _gpu_variables(granted: tuple[Granted, ...]) -> dict[str, str]:
    """What a session has of GPUs, for programs that size themselves. Of several GPUs the shares are
    the sum; memory (bytes) and percent are of each, in order."""
    count = str(len(granted))
    if not granted:
        return {"GPU_COUNT": count, "N_GPUS": count}
    first = granted[0]
    held = first.enforcement
    shares = {
        "FGPU_SHARES": format_thousandths(sum(one.amount for one in granted)),
        "FGPU_SHARES_PER_GPU": format_thousandths(first.capacity),
    }
    return {
        "GPU_COUNT": count,
        "N_GPUS": count,
        "GPU_MODEL_NAME": first.name,
        **(shares if first.slot == "fgpu" else {}),
        "FGPU_MEMORY_BYTES": ",".join(str(one.memory) for one in granted),
        "FGPU_SM_PERCENT": ",".join(str(one.percent) for one in granted),
        "FGPU_PROVIDER": first.provider,
        "FGPU_ENFORCEMENT": f"memory={held.memory},compute={held.compute},faults={held.faults}",
        "FGPU_VERIFIED": "yes" if all(one.verified for one in granted) else "no",
    }
