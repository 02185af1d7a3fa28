"""Idle checks of who holds a GPU, from the driver to the end of the session."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jupyterhub_backendai.gpu import Nvml
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.model.usage import Reading
from jupyterhub_backendai.service.workers.idle import IdleWorker
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentReport

from ..service.moved_time import Time
from ..service.running import running, until_open
from ..service.test_idle_worker import INTERVAL
from .conftest import Fake, Proc
from .test_gpu_service import CONTAINER, SHARED, started_by

RULE = {"utilization": {"window": "5m", "thresholds": {"gpu": 20}}}
ROUNDS = 60  # three windows


@pytest.mark.parametrize("told", ["idle", "busy", "not known"])
async def test_an_idle_holder_is_ended(
    told: str, tmp_path: Path, nvml: Nvml, fake: Fake, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    gpus = [{"shares_per_gpu": 5}]
    async with running(folder, gpus=gpus, idle=RULE, idle_warnings=[]) as service:
        await until_open(service)
        site, sampling = service.service.parts.site, service.service.sampling
        site.gpus._gpus = Gpus((), nvml=nvml)
        report = AgentReport("local", "default", Slots(8000, 32 * GIB, 5000), devices=(SHARED,))
        service.store.report_agents([report], now=utcnow())
        id = await started_by(service, "alice")
        for pid in (1111, 2222, 3333):
            proc.add(pid, "0::/\n")
        proc.add(1111, f"0::/docker/{CONTAINER}\n")
        fake.change("process 3333 unknown\n", "")
        clock = Time()
        worker = IdleWorker(
            site, service.service.hub, INTERVAL, service.service.images, clock.sources
        )
        service.service.idle = worker
        sampling.listeners[:] = [worker.add]
        began = time.monotonic()

        async def readings(agent: str, containers: object) -> dict[str, Reading]:
            return {CONTAINER: Reading(began + clock.boot, "1", 1.0)}

        monkeypatch.setattr(site.engine, "readings", readings)
        sample = "sample 1111 100 30"
        busy = {"idle": 1, "busy": 60, "not known": None}[told]
        for number in range(ROUNDS):
            if busy is not None:
                newest = f"sample 1111 {9_000_000_000 + number} {busy}"
                fake.change(sample, newest)
                sample = newest
            await sampling.once(site)
            await worker.once()
            while site._tasks:
                await list(site._tasks)[0]
            session = service.store.get(id)
            if session.status is not Status.RUNNING:
                break
            clock.passes(INTERVAL)
        await worker.asker.close()
        if told == "idle":
            assert session.reason_code == "idle_utilization"
            assert "1% of its GPU (less than 20%)" in session.reason
            assert number >= 300 / INTERVAL - 2, "not before a whole window"
        else:
            assert session.status is Status.RUNNING
            (verdict,) = worker.watch.sessions[id].verdicts if worker.watch else ()
            expected = "used" if told == "busy" else "unknown"
            assert verdict.state.value == expected
