"""The door to this machine's GPUs, with the fake driver behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyterhub_backendai.gpu.errors import GpuError
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.gpu.offers import simulated
from jupyterhub_backendai.model.gpu_settings import GpuSettings
from jupyterhub_backendai.model.gpus import GpuRule
from jupyterhub_backendai.scheduling.fgpu import grant

from .conftest import Fake
from .machines import H100, L40S, LARGE, SMALL

SESSION = "0123456789abcdef0123456789abcdef"
CONTAINER = "c" * 64
RULES = (GpuRule(),)


@pytest.fixture
async def gpus(mount: Path) -> AsyncIterator[Gpus]:
    found = Gpus(RULES, root=True, mount=mount, simulated=simulated(1, GpuRule()))
    found.engine_says({"CgroupDriver": "systemd"})
    yield found
    await found.close()


async def test_devices(gpus: Gpus, fake: Fake) -> None:
    found = await gpus.devices("default")
    assert [device.uuid for device in found] == [L40S, SMALL, LARGE, "SIM-0"]
    assert all(device.available for device in found)
    fake.rules(f"fail nvmlDeviceGetName GpuIsLost on {L40S}")
    found = await gpus.devices("default")
    assert [device.uuid for device in found if not device.available] == [L40S]


async def test_why_there_are_none(gpus: Gpus, fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    fake.rules("fail nvmlInitWithFlags DriverNotLoaded")
    for _ in range(2):
        assert [device.uuid for device in await gpus.devices("default")] == ["SIM-0"]
    assert gpus.trouble == "The NVIDIA driver is installed and not loaded."
    assert caplog.text.count("GPUs cannot be offered") == 1
    fake.rules()
    assert len(await gpus.devices("default")) == 4
    assert gpus.trouble == ""


async def test_without_rules_the_driver_is_not_asked(mount: Path, fake: Fake) -> None:
    fake.rules("fail * Unknown")
    found = Gpus((), simulated=simulated(1, GpuRule()), mount=mount)
    found.engine_says({})
    assert [device.uuid for device in await found.devices("default")] == ["SIM-0"]
    assert found.trouble == ""


async def test_an_engine_elsewhere_has_not_our_gpus(gpus: Gpus) -> None:
    gpus.engine_says({}, local=False)
    assert [device.uuid for device in await gpus.devices("default")] == ["SIM-0"]


async def test_a_whole_gpu_is_for_several_programs(gpus: Gpus, fake: Fake) -> None:
    whole = (await gpus.devices("default"))[0]
    granted = (grant(whole, 1000),)
    for _ in range(2):
        assert await gpus.prepare(SESSION, granted) == GpuSettings()
    assert fake.was_set == [f"mode {L40S} 0"]
    await gpus.attach(SESSION, granted, CONTAINER, 1)
    for _ in range(2):
        await gpus.release(SESSION, granted)
    await gpus.restore({SESSION: granted})


async def test_parts_and_simulated_gpus_need_nothing(gpus: Gpus, fake: Fake) -> None:
    _, small, _, simulated = await gpus.devices("default")
    for device in (small, simulated):
        granted = (grant(device, 1000),)
        assert await gpus.prepare(SESSION, granted) == GpuSettings()
        await gpus.attach(SESSION, granted, CONTAINER, 1)
        await gpus.release(SESSION, granted)
    assert await gpus.prepare(SESSION, ()) == GpuSettings()
    assert fake.was_set == []


async def test_a_device_without_modes_is_for_everybody(gpus: Gpus, fake: Fake) -> None:
    whole = (await gpus.devices("default"))[0]
    fake.rules("fail nvmlDeviceGetComputeMode NotSupported")
    await gpus.prepare(SESSION, (grant(whole, 1000),))
    assert fake.was_set == []


async def test_a_mode_that_cannot_be_set(gpus: Gpus, fake: Fake) -> None:
    whole = (await gpus.devices("default"))[0]
    fake.rules("fail nvmlDeviceSetComputeMode NoPermission")
    with pytest.raises(GpuError, match="cannot be DEFAULT: NoPermission"):
        await gpus.prepare(SESSION, (grant(whole, 1000),))
    fake.rules(f"fail nvmlDeviceGetHandleByUUID GpuIsLost on {L40S}")
    with pytest.raises(GpuError, match=f"The GPU {L40S} cannot be used: GpuIsLost"):
        await gpus.prepare(SESSION, (grant(whole, 1000),))
    assert H100 not in str(fake.was_set)


async def test_a_gpu_that_could_not_be_given_is_not_offered_for_a_while(
    mount: Path, fake: Fake
) -> None:
    now = 100.0
    gpus = Gpus(RULES, root=True, mount=mount, clock=lambda: now)
    gpus.engine_says({})

    async def away() -> dict[str, str]:
        found = await gpus.devices("default")
        return {device.uuid: device.reason for device in found if not device.available}

    granted = (grant((await gpus.devices("default"))[0], 1000),)
    fake.rules("fail nvmlDeviceSetComputeMode NoPermission")
    with pytest.raises(GpuError):
        await gpus.prepare(SESSION, granted)
    assert list(reasons := await away()) == [L40S]
    assert "could not be given this GPU at " in reasons[L40S]
    assert "cannot be DEFAULT: NoPermission. It is offered again 5 minutes after" in reasons[L40S]
    now += 299
    assert await away() == reasons
    # What is worse is what is said.
    fake.rules(f"fail nvmlDeviceGetName GpuIsLost on {L40S}")
    assert "lost this GPU" in (await away())[L40S]
    now += 1
    fake.rules("fail nvmlDeviceSetComputeMode NoPermission")
    assert await away() == {}
    with pytest.raises(GpuError):
        await gpus.prepare(SESSION, granted)
    assert list(await away()) == [L40S]
    # One that was placed there already shows that it can be had.
    fake.rules()
    await gpus.prepare(SESSION, granted)
    assert await away() == {}
    await gpus.close()


async def test_one_provider_for_a_session(gpus: Gpus) -> None:
    whole, small, *_ = await gpus.devices("default")
    with pytest.raises(GpuError, match="several providers"):
        await gpus.prepare(SESSION, (grant(whole, 1000), grant(small, 1000)))


async def test_usage_is_that_of_the_driver(gpus: Gpus) -> None:
    assert {device.uuid for device in (await gpus.usage()).devices} == {L40S, H100, SMALL, LARGE}
