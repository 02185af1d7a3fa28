"""Sessions in every state that a page shows, made by the store's own calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jupyterhub_backendai.engine.saved_logs import COMMAND
from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.resolve import resolve
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.naming import server_name
from jupyterhub_backendai.store import AgentReport, Session, SessionResult

from ...service.running import Running, keep_log

SITE: dict[str, Any] = {
    "environments": [
        {
            "name": "pytorch", "title": "PyTorch",
            "versions": [{"name": "2.9", "image": "pytorch:2.9"}],
        },
        {"name": "r", "title": "R", "versions": [{"name": "4.5", "image": "r:4.5"}]},
    ],
    "presets": [
        {"name": "small", "cpu": 1, "mem": "2g"}, {"name": "large", "cpu": 8, "mem": "32g"},
        {"name": "gpu-small", "cpu": 2, "mem": "8g", "fgpu": 1},
    ],
    "resource_groups": [{"name": "default"}, {"name": "gpu-lab"}],
    "agents": [
        {"name": "cpu-02", "base_url": "unix:///nobody/answers.sock"},
        {"name": "gpu-01", "resource_group": "gpu-lab", "base_url": "unix:///nobody/answers.sock"},
    ],
    "default_policy": {
        "total": {"cpu": 32, "mem": "128g", "fgpu": 6}, "max_sessions": 10, "max_pending": 5000,
    },
}  # fmt: skip


LOG = b"""\
gcc -O2 -Wall -c solver.c -o solver.o
gcc -O2 -Wall -c mesh.c -o mesh.o
gcc solver.o mesh.o -lm -o solver
./solver --steps 4000 data/wing.msh
step 1000: residual 3.1e-03
step 2000: residual 8.7e-04
step 2391: residual nan
the solution diverges: try a smaller step
make: *** [Makefile:12: all] Error 3
"""
FOLDERS = ("data", "thesis")  # alice's, where the site has folders


# A GPU of two shares that there is not.
SIMULATED = GpuDevice(
    uuid="GPU-5a5a5a5a-0001", name="NVIDIA L40S", slot="fgpu", capacity=2000, quantum=100,
    memory=44 * GIB, provider="simulated",
)  # fmt: skip


class Sample:
    """Makes sessions in a service's store, as of some time ago."""

    def __init__(self, running: Running) -> None:
        self.running, self.store = running, running.store
        self.site = running.service.parts.site

    def agents(self) -> None:
        """Two agents, with room for a few."""
        self.store.report_agents(
            [
                AgentReport("cpu-02", "default", Slots(16_000, 64 * GIB)),
                AgentReport(
                    "gpu-01", "gpu-lab", Slots(16_000, 64 * GIB, 2_000), devices=(SIMULATED,)
                ),
            ],
            now=utcnow(),
        )

    async def submit(self, owner: str, name: str, minutes: float = 0, **options: Any) -> Session:
        """One that waits, asked for so many minutes ago."""
        (session,) = await self._submit(owner, name, {server_name(name): name}, minutes, options)
        return session

    async def submit_many(self, owner: str, count: int) -> list[Session]:
        """So many that wait, of one launch."""
        names = {f"many-{number}": f"many-{number:04}" for number in range(count)}
        return await self._submit(owner, "many", names, 0, {})

    async def _submit(
        self, owner: str, name: str, names: dict[str, str], minutes: float, options: dict[str, Any]
    ) -> list[Session]:
        asked: Mapping[str, Any] = {"name": name, **options}
        context = await self.site.context(owner, frozenset(), False, asked)
        return self.store.submit_many(
            resolve(asked, context), owner=owner, owner_groups=frozenset(),
            names=names, driver=None, max_pending=5000, asked=asked,
            now=utcnow() - timedelta(minutes=minutes), launched_by=owner,
            policies=self.site.policies, catalog=self.site.catalog,
        )  # fmt: skip

    def now(self) -> datetime:
        """The service's time."""
        return utcnow()

    def place(self, minutes: float = 0) -> None:
        """A schedule pass."""
        at = utcnow() - timedelta(minutes=minutes)
        self.store.run_pass(self.site.policies, self.site.catalog, at)

    def advance(self, session: Session, *statuses: Status, minutes: float = 0) -> Session:
        """On through these statuses."""
        for status in statuses:
            session = self.store.advance(
                session.id, status, now=utcnow() - timedelta(minutes=minutes)
            )
        return session

    async def run(self, owner: str, name: str, minutes: float = 0, **options: Any) -> Session:
        """One that runs since then."""
        session = await self.submit(owner, name, minutes, **options)
        self.place(minutes)
        session = self.advance(
            session, Status.PREPARING, Status.CREATING, Status.RUNNING, minutes=minutes
        )
        if session.type == "batch":
            self.store.mark_batch_started(session.id, utcnow() - timedelta(minutes=minutes))
        return session

    def end(
        self, session: Session, code: str, reason: str, exit_code: int | None = None
    ) -> Session:
        """One that runs is over."""
        result = None
        if exit_code is not None:
            result = SessionResult.FAILURE if exit_code else SessionResult.SUCCESS
        for status in (Status.TERMINATING, Status.TERMINATED):
            session = self.store.move(
                session.id, status, phase=Phase.TERMINATE, now=utcnow(), reason_code=code,
                reason=reason, exit_code=exit_code, result_of_work=result,
            )  # fmt: skip
        return session

    async def all(self, owner: str) -> dict[str, Session]:
        """One of each, by name."""
        self.agents()
        gpu = {"resource_group": "gpu-lab", "preset": "gpu-small"}
        here = self.site.folders.enabled
        own = {"mounts": [{"folder": "thesis"}], "preopen_ports": [8080]} if here else {}
        made = [
            await self.run(owner, "lab3-cnn", 192, **gpu, **own),
            await self.run(owner, "stats-homework", 65, environment="r"),
            await self.run(
                owner, "thesis-finetune", 581, type="batch", **gpu, **own,
                batch={"command": "python train.py --epochs 40", "timeout": "10h"},
            ),
            self.end(
                await self.run(
                    owner, "nightly", 90, type="batch", batch={"command": "make all"}
                ),
                "task_failed", "Its command ended with exit code 3.", 3,
            ),
            self.end(
                await self.run(owner, "prepare", 70, type="batch", batch={"command": "true"}),
                "task_finished", "Its command ended.", 0,
            ),
            await self.submit(owner, "lab4-attention", 2, **gpu),
        ]  # fmt: skip
        creating = await self.submit(owner, "cpp-labs", 0.05)
        self.place()
        made.append(self.advance(creating, Status.PREPARING, Status.CREATING))
        failed = await self.submit(owner, "tf-compare", 30)
        self.place(30)
        self.advance(failed, Status.PREPARING, Status.PULLING, minutes=30)
        sentence = "The image of PyTorch 2.9 is not on cpu-02. Your folders are untouched."
        made.append(
            self.store.move(
                failed.id, Status.ERROR, phase=Phase.PULL, now=utcnow() - timedelta(minutes=29),
                result=Result.GIVE_UP, reason_code="image_not_found", reason=sentence,
                error_code="image_not_found",
            )
        )  # fmt: skip
        containers = ("b41f0c9d2a77", "7e02a51c88d3", "2c95e1f06b1a")
        for session, container in zip(made, containers, strict=False):
            self.store.set_kernel(
                session.id,
                agent=session.agent,
                container_id=container,
                status=session.status,
                started_at=session.running_at,
            )
        nightly = made[3]
        keep_log(self.running, nightly.id, LOG, kind=COMMAND)
        return {session.name: self.store.get(session.id) for session in made}
