"""Containers with GPUs on a real Docker engine: made, looked at, and refused where it has none."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError
from golden_cases import CASES, GPU, GPU_SITE, PROVIDERS

from jupyterhub_backendai.engine.base import ImageFacts
from jupyterhub_backendai.engine.create import apply_settings
from jupyterhub_backendai.engine.devices import cdi_of, refusal
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.settings import ContainerSettings, container_settings

pytestmark = pytest.mark.docker
IMAGE = "backendai-demo:latest"
AGENT = "local"
CASE_NAMES = [name for name in CASES if name.startswith("gpu_")]


@contextmanager
def directories(paths: list[str]) -> Iterator[None]:
    """What is mounted must be there when a container is made; what was made for it goes again."""
    made = []
    for path in map(Path, paths):
        for one in (*reversed(path.parents), path):
            if not one.exists():
                one.mkdir()
                made.append(one)
    try:
        yield
    finally:
        for one in reversed(made):
            one.rmdir()


@asynccontextmanager
async def created(name: str) -> AsyncIterator[tuple[DockerEngine, str, dict[str, Any]]]:
    """A container of a case's settings that was not started, and what its inspection says."""
    run = uuid.uuid4().hex
    engine = DockerEngine([AgentConfig(AGENT)], f"test-{run[:8]}", run[:12])
    settings = made_of(name, run, engine.hub_id)
    # An image that would see all GPUs, and an admin who would give them all.
    theirs = {"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}
    kwargs = apply_settings(
        {
            "image": IMAGE,
            "command": ["sleep", "1000"],
            "environment": {"NVIDIA_VISIBLE_DEVICES": "all"},
            "host_config": {"DeviceRequests": [theirs], "Runtime": "nvidia"},
        },
        settings,
    )
    binds = [mount["Source"] for mount in settings.mounts if mount["Type"] == "bind"]
    with directories(binds):
        try:
            made = await engine.host(AGENT).call(lambda c: c.create_container(**kwargs))
            facts = await engine.host(AGENT).call(lambda c: c.inspect_container(made["Id"]))
            yield engine, run, facts
        finally:
            await engine.remove_session(AGENT, run)


def made_of(name: str, session_id: str, hub_id: str) -> ContainerSettings:
    """The case's settings, for an image and a session that are there."""
    facts = CASES[name].session
    request = facts.request.model_copy(update={"image": IMAGE})
    own = replace(facts, session_id=session_id, request=request)
    if own.gpu.cgroup_parent:
        # Docker here has the kind of cgroups that it has; what it makes of a parent is the same.
        own = replace(own, gpu=replace(own.gpu, cgroup_parent=f"/fgpu/{session_id}"))
    return container_settings(own, ImageFacts(IMAGE, (), {}), replace(GPU_SITE, hub_id=hub_id))


def variables(facts: dict[str, Any]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in facts["Config"]["Env"])


@pytest.mark.parametrize("name", CASE_NAMES)
async def test_a_container_has_what_its_provider_says(name: str) -> None:
    kept = CASES[name].settings
    async with created(name) as (_, session_id, facts):
        host, env = facts["HostConfig"], variables(facts)
    assert (host["DeviceRequests"] or []) == kept["device_requests"]
    assert not host["Devices"]
    assert host["Runtime"] != "nvidia"
    expected = f"/fgpu/{session_id}" if kept["cgroup_parent"] else ""
    assert host["CgroupParent"] == expected
    assert host["IpcMode"] in {"private", "shareable"}
    assert (host["PidMode"], host["CapDrop"], host["Privileged"]) == ("", ["ALL"], False)
    assert "no-new-privileges" in host["SecurityOpt"]
    ours = ("NVIDIA_", "CUDA_", "FGPU_")
    assert {key: value for key, value in env.items() if key.startswith(ours)} == {
        key: value for key, value in kept["environment"].items() if key.startswith(ours)
    }
    binds = [mount["Source"] for mount in host["Mounts"] if mount["Type"] == "bind"]
    assert binds == [mount["Source"] for mount in kept["mounts"] if mount["Type"] == "bind"]


def test_each_provider_is_among_them() -> None:
    assert {f"gpu_{provider}" for provider in PROVIDERS} <= set(CASE_NAMES)


@pytest.mark.parametrize("name", ["gpu_whole", "gpu_whole_by_cdi"])
async def test_an_engine_that_has_no_gpus_says_so_and_keeps_nothing(name: str) -> None:
    async with created(name) as (engine, session_id, facts):
        host = engine.host(AGENT)
        info = await host.info()
        if "nvidia" in info.get("Runtimes", {}) or info.get("CDISpecDirs"):
            pytest.skip("this engine may have GPUs")
        assert cdi_of(info) is False
        with pytest.raises(APIError) as caught:
            await host.call(lambda client: client.start(facts["Id"]))
        said = refusal(str(caught.value.explanation), AGENT)
        assert said is not None
        assert "Docker on local cannot give GPUs to containers" in said
        assert GPU not in said
        assert [found.session_id for found in await engine.containers(AGENT)] == [session_id]
        assert await engine.remove_session(AGENT, session_id) == 1
        assert await engine.orphans(AGENT) == []
