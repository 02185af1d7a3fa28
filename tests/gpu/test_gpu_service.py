"""What a session uses of its GPU now, from the driver to the API and the page."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.gpu import Nvml
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.model.usage import Reading
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentReport

from ..service.running import Running, launch, running, until_open
from .conftest import Fake, Proc
from .machines import L40S, MIB, TWO_GPUS

CONTAINER = "ab" * 32
ON_THE_WAY = (Status.PREPARING, Status.CREATING, Status.RUNNING)
SHARED = GpuDevice(uuid=L40S, name="NVIDIA L40S", slot="fgpu", capacity=5000, quantum=100,
                   memory=45 * GIB, provider="advisory")  # fmt: skip


@pytest.fixture
async def service(tmp_path: Path, nvml: Nvml) -> AsyncIterator[Running]:
    """A service that reads the fake driver, and a machine with one shared GPU."""
    folder = tmp_path / "service"
    folder.mkdir()
    async with running(folder, gpus=[{"shares_per_gpu": 5}]) as started:
        await until_open(started)
        started.service.parts.site.gpus._gpus = Gpus((), nvml=nvml)
        report = AgentReport("local", "default", Slots(8000, 32 * GIB, 5000), devices=(SHARED,))
        started.store.report_agents([report], now=utcnow())
        yield started


async def started_by(service: Running, who: str, amount: float = 1) -> str:
    """A session that runs, with so much of the GPU; its id."""
    row = await launch(service, who, {"resources": {"fgpu": amount}})
    site, id = service.service.parts.site, str(row["id"])
    site.store.run_pass(site.policies, site.catalog, utcnow())
    for status in ON_THE_WAY:
        site.store.move(id, status, phase=Phase.START, now=utcnow())
    site.store.set_kernel(id, container_id=CONTAINER)
    return id


async def usage(service: Running, id: str, who: str = "alice") -> Any:
    reply = await service.call("GET", f"api/sessions/{id}/usage", who)
    assert reply.status == 200, reply.json
    return reply.json


def look_again(service: Running) -> None:
    """What was read a moment ago is not good enough for a test."""
    service.service.usages._last = None


async def test_what_a_session_uses(service: Running, fake: Fake, proc: Proc) -> None:
    id = await started_by(service, "alice")
    for pid in (1111, 2222, 3333):
        proc.add(pid, "0::/\n")
    proc.add(1111, f"0::/system.slice/docker-{CONTAINER}.scope\n")
    fake.change("process 3333 unknown\n", "")
    found = await usage(service, id)
    (gpu,) = found["gpus"]
    assert gpu == {
        "uuid": L40S, "simulated": False, "memory": 9216 * MIB, "memory_used": 5_000_000_000,
        "busy": 30,
    }  # fmt: skip
    assert found["reason"] is None
    assert found["sampled_at"] is not None


async def test_what_is_not_known_is_null_and_never_zero(
    service: Running, fake: Fake, proc: Proc
) -> None:
    id = await started_by(service, "alice")
    proc.add(1111, f"0::/docker/{CONTAINER}\n")
    proc.add(2222, "0::/\n")
    proc.add(3333, f"0::/docker/{CONTAINER}\n")  # its memory is not told
    (gpu,) = (await usage(service, id))["gpus"]
    assert gpu["memory_used"] is None
    fake.set(TWO_GPUS.replace("mode 3", "mode 3\nlost"))
    look_again(service)
    lost = await usage(service, id)
    assert [(one["memory_used"], one["busy"]) for one in lost["gpus"]] == [(None, None)]
    assert lost["reason"]
    fake.set(TWO_GPUS, "fail * DriverNotLoaded")
    look_again(service)
    none = await usage(service, id)
    assert none["gpus"][0]["memory_used"] is None
    assert "driver" in none["reason"]


async def test_nothing_of_it_on_the_gpu_is_zero(service: Running, fake: Fake, proc: Proc) -> None:
    id = await started_by(service, "alice")
    for pid in (1111, 2222, 3333):
        proc.add(pid, "0::/\n")
    (gpu,) = (await usage(service, id))["gpus"]
    assert (gpu["memory_used"], gpu["busy"]) == (0, 0)


async def test_who_has_none_and_who_does_not_run(service: Running) -> None:
    waits = await launch(service, "alice", {"resources": {"fgpu": 5}})
    assert (await usage(service, str(waits["id"])))["reason"] == "It has no GPU."
    plain = await launch(service, "alice", {})
    site = service.service.parts.site
    site.store.run_pass(site.policies, site.catalog, utcnow())
    none = await usage(service, str(plain["id"]))
    assert (none["gpus"], none["reason"], none["sampled_at"]) == ([], "It has no GPU.", None)
    assert (none["has"]["gpu"], none["has"]["gpu_mem"], none["now"]) == (False, None, None)
    assert (await usage(service, str(waits["id"])))["reason"] == "It does not run."


async def test_it_is_nobody_else_s_business(service: Running) -> None:
    id = await started_by(service, "alice")
    assert (await service.call("GET", f"api/sessions/{id}/usage", "bob")).status == 404
    assert (await service.call("GET", f"api/sessions/{id}/usage")).status == 401
    assert (await service.call("GET", f"api/sessions/{id}/usage", "admin")).status == 200


async def test_the_panel_says_it(service: Running, fake: Fake, proc: Proc) -> None:
    id = await started_by(service, "alice")
    for pid in (1111, 2222, 3333):
        proc.add(pid, f"0::/docker/{CONTAINER}\n")
    fake.change("process 3333 unknown\n", "")
    page = (await service.call("GET", f"sessions/{id}", "alice")).json
    assert "1 FGPU of NVIDIA L40S (GPU-00000000…)" in page
    part = (await service.call("GET", f"sessions/{id}?part=gpus", "alice")).json
    assert "8.38 GB of 9 GB of GPU memory, busy 37 % of the time" in part


async def test_what_is_sampled_of_it(
    service: Running, fake: Fake, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await started_by(service, "alice")
    for pid in (1111, 2222, 3333):
        proc.add(pid, "0::/\n")
    proc.add(1111, f"0::/system.slice/docker-{CONTAINER}.scope\n")
    fake.change("process 3333 unknown\n", "")
    at, began = iter(range(0, 200, 20)), time.monotonic() - 200

    async def readings(agent: str, containers: object) -> dict[str, Reading]:
        return {CONTAINER: Reading(began + next(at), "1", 1.0)}

    site, sampling = service.service.parts.site, service.service.sampling
    monkeypatch.setattr(site.engine, "readings", readings)
    await sampling.once(site)
    fake.change("sample 1111", "sample 1111 9000000000 60\nsample 1111")
    (step,) = await sampling.once(site)
    assert (step.gpu, step.gpu_mem) == (60, 5_000_000_000)
    told = await usage(service, id)
    assert told["has"]["gpu"] is True
    assert told["has"]["gpu_mem"] == 9216 * MIB
    assert (told["now"]["gpu"], told["peak"]["gpu_mem"]) == (60, 5_000_000_000)
    used = (await service.call("GET", "api/sessions", "alice")).json["items"][0]["usage"]
    assert (used["gpu"], used["gpu_mem"]) == (60, round(100 * 5e9 / (9216 * MIB)))
    # What the driver does not tell is not known; no sample is not idleness either.
    (step,) = await sampling.once(site)
    assert (step.gpu, step.gpu_mem) == (None, 5_000_000_000)
    fake.set(TWO_GPUS, "fail * DriverNotLoaded")
    (step,) = await sampling.once(site)
    assert (step.gpu, step.gpu_mem, step.cpu) == (None, None, 0)


async def test_an_admin_sees_who_holds_which_gpu(service: Running, fake: Fake, proc: Proc) -> None:
    id = await started_by(service, "alice", 1.5)
    waits = await launch(service, "bob", {"name": "placed", "resources": {"fgpu": 1}})
    site = service.service.parts.site
    site.store.run_pass(site.policies, site.catalog, utcnow())  # it has its place, and no container
    for pid in (1111, 2222, 3333):
        proc.add(pid, "0::/\n")
    proc.add(1111, f"0::/docker/{CONTAINER}\n")
    fake.change("process 3333 unknown\n", "")
    reply = await service.call("GET", "api/agents", "admin")
    (device,) = reply.json["items"][0]["devices"]
    first, second = device["holders"]
    assert first == {
        "session_id": id, "name": first["name"], "owner": "alice", "amount": 1500,
        "memory": first["memory"], "memory_used": 5_000_000_000, "busy": 30,
    }  # fmt: skip
    assert (second["session_id"], second["owner"], second["amount"]) == (waits["id"], "bob", 1000)
    assert (second["memory_used"], second["busy"]) == (None, None)
    page = (await service.call("GET", "admin", "admin")).json
    told = page.split("Who holds")[1].split("</ul>")[0]
    assert f'sessions/{id}">' in told
    assert ">placed<" in told
    assert "30 %" in told
    assert "not known" in told
    assert "1.5" in told
    assert (await service.call("GET", "api/agents", "alice")).status == 403
