"""Sessions as the product makes them, without a Hub: offered, granted, prepared, made, attached."""

from __future__ import annotations

import asyncio
import json
import posixpath
import secrets
import tarfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound
from machines import INSIDE, Machine

from jupyterhub_backendai.engine.base import LABEL_HUB, EngineError, ImageFacts
from jupyterhub_backendai.engine.create import apply_settings
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.settings import (
    ContainerSettings,
    SessionFacts,
    SiteSettings,
    container_settings,
)
from jupyterhub_backendai.engine.support import support_files
from jupyterhub_backendai.engine.tar import archive
from jupyterhub_backendai.gpu.errors import GpuError
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.gpu.providers.mps_control import PROGRAM
from jupyterhub_backendai.model.gpu_settings import GpuSettings
from jupyterhub_backendai.model.gpus import GpuDevice, Granted
from jupyterhub_backendai.model.resolve import SessionRequest
from jupyterhub_backendai.model.slots import GIB, MIB
from jupyterhub_backendai.scheduling.fgpu import grant

AGENT = "local"
ATTACKERS = f"{INSIDE}/attackers.py"
ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}  # as images of CUDA have it, and as a user may wish
SETUID_NAME = "python-of-root"


class NotTried(Exception):
    """A case cannot be tried here; the text says why."""


@dataclass
class Session:
    """A session with its container, from the image that says "all"."""

    bench: Bench
    id: str
    granted: tuple[Granted, ...]
    gpu: GpuSettings
    container: str

    @property
    def memory(self) -> int:
        """Bytes of its share."""
        return self.granted[0].memory

    async def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of an attacker; `error` where it has none."""
        return await self.bench.run(self.container, job)


class Bench:
    """The sessions of one run on one device. What it makes carries its own hub's label."""

    def __init__(
        self, machine: Machine, gpus: Gpus, device: GpuDevice, others: tuple[GpuDevice, ...],
        *, image: str, amount: int, seconds: float,
    ) -> None:  # fmt: skip
        self.machine, self.gpus, self.device, self.others = machine, gpus, device, others
        self.seconds = seconds  # of a measurement
        self.lead = max(1.0, seconds * 0.75)  # seconds for the programs of one to be ready
        self.patience = seconds * 2.5  # seconds for a GPU to serve a session after a fault
        self.hub_id = f"redteam{secrets.token_hex(4)}"
        self.engine = DockerEngine([AgentConfig(AGENT)], self.hub_id, "run")
        self.host = self.engine.host(AGENT)
        self.site = SiteSettings(hub_id=self.hub_id, gpus=True)
        self._plain_image, self._amount = image, amount
        self._image: ImageFacts | None = None
        self._sessions: dict[str, Session | str] = {}  # or why there is none
        self._prepared: dict[str, tuple[Granted, ...]] = {}
        self._making: set[asyncio.Future[Any]] = set()

    @property
    def image(self) -> str:
        """The image of all sessions: the given one, with a variable that asks for all GPUs."""
        return f"{self.hub_id}:all"

    async def first(self) -> Session:
        """Who attacks: it has the share that is tried."""
        return await self._have("first", (grant(self.device, self._amount),))

    async def second(self) -> Session:
        """Its neighbour, with the rest of the GPU. Raises `NotTried` where there is no rest."""
        rest = self.device.capacity - self._amount
        if self.device.slot == "fgpu" and rest:
            return await self._have("second", (grant(self.device, rest),))
        part = next(
            (one for one in self.others if one.parent and one.parent == self.device.parent), None
        )
        if part is None:
            raise NotTried("the first session has all of the GPU, so that there is no other on it")
        return await self._have("second", (grant(part, part.capacity),))

    async def without(self) -> Session:
        """A session that was given no GPU."""
        return await self._have("without", ())

    async def _have(self, name: str, granted: tuple[Granted, ...]) -> Session:
        if name not in self._sessions:
            try:
                self._sessions[name] = await self._make(granted)
            except (GpuError, EngineError, APIError) as error:
                self._sessions[name] = f"the {name} session cannot be made: {error}"
        found = self._sessions[name]
        if isinstance(found, str):
            raise NotTried(found)
        return found

    async def _make(self, granted: tuple[Granted, ...]) -> Session:
        session = uuid.uuid4().hex
        self._prepared[session] = granted
        gpu = await self.gpus.prepare(session, granted)
        settings = await self.settings(session, granted, gpu)
        container = await self.create(settings)
        pid = await self.start(container)
        if granted:
            await self.gpus.attach(session, granted, container, pid)
        return Session(self, session, granted, gpu, container)

    async def settings(
        self, session: str, granted: tuple[Granted, ...] = (), gpu: GpuSettings | None = None
    ) -> ContainerSettings:
        """A container's settings, as every session of the product has them."""
        if self._image is None:
            self._image = await self._derive()
        request = SessionRequest(
            name=None, type="interactive", environment=None, version=None, image=self.image,
            # Refused at every door; here as if it had come through all the same.
            env=dict(ALL), resource_group="default", agent=AGENT, preset=None,
            preset_changed=False, cpu=1000, mem=4 * GIB, shm=64 * MIB, fgpu=0, omp_threads=1,
            openblas_threads=1, mounts=(), preopen_ports=(), project=None, priority=0,
        )  # fmt: skip
        facts = SessionFacts(
            session_id=session, name="redteam", owner="redteam", agent=AGENT, request=request,
            command=("python3", "-I", ATTACKERS, json.dumps({"do": "wait"})),
            granted=granted, gpu=gpu or GpuSettings(), cdi=self.host.cdi,
        )  # fmt: skip
        return container_settings(facts, self._image, self.site)

    async def create(self, settings: ContainerSettings, *, privileges: bool = False) -> str:
        """A container that is not started yet. `privileges`: one that may gain new ones, which no
        session may."""
        if privileges:
            settings = replace(settings, security_opt=())
        kwargs = {
            "image": settings.image,
            "command": list(settings.command),
            "entrypoint": [],
            "host_config": {"NetworkMode": "none"},
        }
        kwargs = self.machine.changed(apply_settings(kwargs, settings))
        made = await self._make_whole(lambda client: client.create_container(**kwargs))
        container = str(made["Id"])
        for files in (support_files(self.site), archive(self._files())):
            await self.put(container, "/", files)
        return container

    async def put(self, container: str, path: str, files: bytes) -> None:
        await self.host.call(lambda client: client.put_archive(container, path, files))

    async def start(self, container: str, *, again: bool = False) -> int:
        """Starts it, or restarts it; its first process as this machine counts."""

        def run(client: docker.APIClient) -> int:
            client.restart(container, timeout=1) if again else client.start(container)
            return int(client.inspect_container(container)["State"]["Pid"])

        pid = await self.host.call(run)
        self.machine.started(container, pid)
        return pid

    async def run(self, container: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of an attacker in a container; `error` where it has none."""
        command = ["python3", "-I", ATTACKERS, json.dumps(job)]

        def run(client: docker.APIClient) -> tuple[bytes | None, bytes | None, int | None]:
            made = client.exec_create(container, command)
            output, errors = client.exec_start(made, demux=True)
            return output, errors, client.exec_inspect(made)["ExitCode"]

        output, errors, code = await self.host.call(run)
        lines = (output or b"").decode("utf-8", "replace").strip().splitlines()
        if lines and lines[-1].startswith("{"):
            return dict(json.loads(lines[-1]))
        last = (errors or b"").decode("utf-8", "replace").strip()[-300:]
        return {"error": f"the attacker ended with {code}: {last or 'no word'}"}

    async def setuid_python(self, container: str) -> str:
        """Gives a running container a Python of root's with the setuid bit, beside its own, as an
        image might have one. Its path."""

        def run(client: docker.APIClient) -> str:
            look = "import os, sys; print(os.path.realpath(sys.executable))"
            made = client.exec_create(container, ["python3", "-I", "-c", look])
            real = client.exec_start(made).decode().strip()
            chunks, _ = client.get_archive(container, real)
            with tarfile.open(fileobj=BytesIO(b"".join(chunks))) as tar:
                program = tar.extractfile(tar.getmembers()[0])
                assert program is not None
                content = program.read()
            folder = posixpath.dirname(real)
            client.put_archive(container, folder, archive([(SETUID_NAME, 0, 0, 0o4755, content)]))
            return posixpath.join(folder, SETUID_NAME)

        return await self.host.call(run)

    def _files(self) -> list[tuple[str, int, int, int, bytes | None]]:
        own = INSIDE.lstrip("/")
        attackers = Path(__file__).with_name("attackers.py").read_bytes()
        entries: list[tuple[str, int, int, int, bytes | None]] = [
            (f"{own}/", 0, 0, 0o755, None),
            (f"{own}/attackers.py", 0, 0, 0o644, attackers),
        ]
        if (program := self.machine.control_program()) is not None:
            entries.append((f"{own}/{PROGRAM}", 0, 0, 0o755, program))
        entries += [(path.lstrip("/"), 0, 0, 0o644, data) for path, data in self.machine.files()]
        return entries

    async def _derive(self) -> ImageFacts:
        """The image of all sessions: the given one and one variable more."""

        def run(client: docker.APIClient) -> None:
            label = {LABEL_HUB: self.hub_id, "backendai.session": "helper"}
            made = client.create_container(
                self._plain_image, command=["true"], entrypoint=[], labels=label
            )
            try:
                client.commit(
                    made["Id"], repository=self.hub_id, tag="all",
                    changes=[f"ENV {name}={value}" for name, value in ALL.items()],
                )  # fmt: skip
            finally:
                client.remove_container(made["Id"], force=True, v=True)

        await self._make_whole(run)
        return await self.host.image(self.image)

    async def _make_whole(self, function: Callable[[docker.APIClient], Any]) -> Any:
        """A call that makes something: whoever removes it waits for it, interrupted or not."""
        work = asyncio.ensure_future(self.host.call(function))
        self._making.add(work)
        work.add_done_callback(self._making.discard)
        return await asyncio.shield(work)

    async def close(self) -> list[str]:
        """Removes all that it made; what could not be undone, in words."""

        def remove_image(client: docker.APIClient) -> None:
            with suppress(NotFound):
                client.remove_image(self.image, force=True)

        left: list[str] = []
        if self._making:
            await asyncio.wait(set(self._making))
        for session in await self._attempt(left, self.engine.orphans(AGENT)) or ():
            await self._attempt(left, self.engine.remove_session(AGENT, session))
        for session, granted in self._prepared.items():
            await self._attempt(left, self.gpus.release(session, granted))
        await self._attempt(left, self.host.call(remove_image))
        return left

    async def _attempt(self, left: list[str], work: Any) -> Any:
        """One step of the end, after which the next follows whatever became of it."""
        try:
            return await asyncio.wait_for(work, 60)
        except Exception as error:
            left.append(f"{type(error).__name__}: {error}")
            return None
