"""The sessions whose container settings are kept in `golden/`, one JSON file each.

After a change that is meant, write them anew and read the difference before it is committed:

    python tests/engine/golden_cases.py
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jupyterhub_backendai.engine.base import ImageFacts
from jupyterhub_backendai.engine.batch import BatchJob
from jupyterhub_backendai.engine.settings import SessionFacts, SiteSettings, container_settings
from jupyterhub_backendai.gpu import Nvml
from jupyterhub_backendai.gpu.enforcement import ENFORCEMENT, MPS_LIMITED
from jupyterhub_backendai.gpu.providers import mps, mps2
from jupyterhub_backendai.gpu.providers.advisory import Advisory
from jupyterhub_backendai.gpu.providers.base import Grants, Provider
from jupyterhub_backendai.gpu.providers.memory import Memory, MemoryLimits
from jupyterhub_backendai.gpu.providers.mig import Mig
from jupyterhub_backendai.gpu.providers.mps import Mps, Servers
from jupyterhub_backendai.gpu.providers.mps2 import Daemons, Mps2
from jupyterhub_backendai.gpu.providers.mps_control import Control, MpsThread
from jupyterhub_backendai.gpu.providers.simulated import Simulated
from jupyterhub_backendai.gpu.providers.whole import Whole
from jupyterhub_backendai.gpu.writes import DriverWrites
from jupyterhub_backendai.model.catalog import Catalog, Environment, Preset
from jupyterhub_backendai.model.gpu_settings import GpuSettings
from jupyterhub_backendai.model.gpus import GpuSlot, Granted, ProviderName
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, Folder, resolve

GPU = "GPU-00000000-0000-4000-8000-000000000001"
MIG = "MIG-11111111-1111-4111-8111-111111111111"
SIMULATED = "SIM-0"
GOLDEN = Path(__file__).parent / "golden"

SITE = SiteSettings(hub_id="hub1", folder_root="/srv/folders")
IMAGE = ImageFacts("sha256:1", ("start-notebook.py",), {"PATH": "/opt/conda/bin:/usr/bin"})
FOLDERS = (
    Folder(name="data"),
    Folder(name="papers", permission="ro"),
    Folder(name="lab/shared", project="lab"),
    Folder(name=".config"),
)
CONTEXT = Context(
    user="alice",
    groups=frozenset({"lab"}),
    admin=False,
    catalog=Catalog(
        environments=(Environment(name="python", image="example/python:3.11"),),
        presets=(Preset(name="small", cpu=1, mem="2g"),),
    ),
    policies=Policies(),
)
WITH_FOLDERS = replace(CONTEXT, folders={folder.name: folder for folder in FOLDERS})


def session(options: object, context: Context = CONTEXT, **facts: Any) -> SessionFacts:
    """A session as it is when it has its place."""
    given: dict[str, Any] = {
        "session_id": "0123456789abcdef0123456789abcdef",
        "name": "train1",
        "owner": "alice",
        "agent": "local",
        **facts,
    }
    return SessionFacts(request=resolve(options, context), **given)


def granted(provider: ProviderName, **more: Any) -> Granted:
    """One share of five of a GPU, or all of it, by a provider."""
    slots: dict[str, GpuSlot] = {"whole": "gpu", "mig": "mig"}
    slot = slots.get(provider, "fgpu")
    shared = slot == "fgpu"
    given: dict[str, Any] = {
        "uuid": SIMULATED if provider == "simulated" else MIG if provider == "mig" else GPU,
        "name": "NVIDIA L40S",
        "slot": slot,
        "amount": 1000,
        "capacity": 5000 if shared else 1000,
        "memory": 9110 * 2**20 if shared else 46064 * 2**20,
        "percent": 20 if shared else 100,
        "provider": provider,
        "enforcement": MPS_LIMITED if provider == "mps" else ENFORCEMENT[provider],
        **more,
    }
    return Granted(**given)


@dataclass(frozen=True)
class Case:
    """What goes into `container_settings`."""

    session: SessionFacts
    image: ImageFacts = IMAGE
    site: SiteSettings = SITE

    @property
    def settings(self) -> dict[str, Any]:
        """What comes out, as JSON has it."""
        found = asdict(container_settings(self.session, self.image, self.site))
        return json.loads(json.dumps(found))


def provider_settings(provider: ProviderName, session_id: str, grants: Grants) -> GpuSettings:
    """What a provider says of a session's container; nothing of a machine is asked for it."""
    nvml, control = Nvml(), Control()
    driver = DriverWrites(nvml)
    limits, thread = MemoryLimits(driver), MpsThread()
    root = Path("/")
    cooperative = Mps2(driver, Daemons(control, 1000, root / mps2.PIPES, root), thread)
    cooperative.driver_version = 570
    servers = Servers(control, root / mps.PIPES, root)
    providers: tuple[Provider, ...] = (
        Whole(driver), Mig(), Mps(driver, limits, servers, thread), cooperative,
        Memory(driver, limits), Advisory(driver), Simulated(),
    )  # fmt: skip
    (found,) = (one for one in providers if one.name == provider)
    return found.settings(session_id, grants)


def gpu_case(provider: ProviderName, cdi: bool = False) -> Case:
    """A session with a GPU on a site that has some; its image would like to have them all."""
    facts = session({}, granted=(granted(provider),), cdi=cdi)
    gpu = provider_settings(provider, facts.session_id, facts.granted)
    return Case(replace(facts, gpu=gpu), image=NVIDIA_IMAGE, site=GPU_SITE)


PROVIDERS: tuple[ProviderName, ...] = (
    "whole", "mig", "mps", "mps2", "memory", "advisory", "simulated",
)  # fmt: skip
NVIDIA_IMAGE = replace(IMAGE, env={**IMAGE.env, "NVIDIA_VISIBLE_DEVICES": "all"})
GPU_SITE = replace(SITE, gpus=True)
CASES = {
    "default": Case(session({})),
    "resources_and_mounts": Case(
        session(
            {
                "resources": {"cpu": "2.5", "mem": "6g", "shm": "2g"},
                "threads": {"openblas": 1},
                "preopen_ports": [8080, 9000],
                "mounts": [
                    {"folder": "data", "path": "in/put", "permission": "ro"},
                    {"folder": "papers"},
                    {"folder": "lab/shared", "path": "/shared"},
                    {"folder": "new", "create": True},
                ],
            },
            WITH_FOLDERS,
        )
    ),
    "environment": Case(
        session(
            {
                "env": {
                    "GREETING": "{username} {{ x }} %(y)s $HOME ünïcode",
                    "PYTHONPATH": "/home/work/lib",
                    "OMP_NUM_THREADS": "7",
                    "PATH": "/home/work/bin:/usr/bin",
                }
            }
        )
    ),
    "pinned_cores": Case(session({"resources": {"cpu": 2}}, cores=(4, 6))),
    "capabilities_scratch_and_owner": Case(
        session({}, owner="a.lice@example.org"),
        site=SiteSettings(
            hub_id="physics",
            uid=2000,
            gid=2001,
            pids_limit=512,
            capabilities=("SYS_NICE", "cap_ipc_lock"),
            scratch_driver="local",
            scratch_options={"type": "tmpfs", "device": "tmpfs", "o": "size=10g"},
        ),
    ),
    "image_without_command": Case(
        session({}), image=ImageFacts("sha256:2", (), {"PYTHONPATH": "/opt/site"})
    ),
    "command_of_the_environment": Case(session({}, command=("start.sh", "--now"))),
    "batch": Case(
        session({}, command=("start.sh", "--now"), batch=BatchJob("python train.py; echo $HOME")),
        site=SiteSettings(hub_id="hub1", log_max=10 * 1024**2),
    ),
    **{f"gpu_{provider}": gpu_case(provider) for provider in PROVIDERS},
    "gpu_whole_by_cdi": gpu_case("whole", cdi=True),
    "gpu_mig_by_cdi": gpu_case("mig", cdi=True),
    "gpu_none": Case(session({}), image=NVIDIA_IMAGE, site=GPU_SITE),
    "a_hundredth_of_a_core": Case(session({"resources": {"cpu": "0.01", "mem": "64m"}})),
}


def text(case: Case) -> str:
    """A case's file."""
    return json.dumps(case.settings, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.json"):
        old.unlink()
    for name, case in CASES.items():
        (GOLDEN / f"{name}.json").write_text(text(case), encoding="utf-8")
