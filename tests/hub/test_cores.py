"""Sessions with cores of their own where the admin asks for it; DockerSpawner's own settings."""

from __future__ import annotations

import pytest

from .harness import Hub, wait_for

pytestmark = pytest.mark.docker
SETTINGS = {
    "BackendAI": {
        "pin_cores": True,
        "agents": [{"name": "here", "capacity": {"cpu": 8, "mem": "8g"}}],
        "presets": [{"name": "one", "cpu": 1, "mem": "256m"}],
    },
    "DockerSpawner": {
        "extra_host_config": {"ulimits": [{"Name": "nofile", "Soft": 1000, "Hard": 1000}]},
        "extra_create_kwargs": {"labels": {"site": "physics", "backendai.user": "somebody"}},
        "volumes": {"admins-notes-{username}": "/notes"},
    },
    "Spawner": {"environment": {"SITE": "physics"}},
}


def test_cores_are_taken_and_given_back(hub: Hub) -> None:
    users = [hub.add_user(name) for name in ("first", "second")]
    cores = []
    for user in users:
        hub.launch(user)
        hub.until_ready(user)
        facts = hub.container_of(hub.sessions(user)[-1]["id"]).attrs
        cores.append(facts["HostConfig"]["CpusetCpus"])
        assert facts["Config"]["Labels"]["backendai.cores"] == cores[-1]
    assert cores == ["0", "1"]

    # What the admin set through DockerSpawner is there; what marks a session cannot be changed.
    config, host = facts["Config"], facts["HostConfig"]
    assert host["Ulimits"] == [{"Name": "nofile", "Soft": 1000, "Hard": 1000}]
    assert config["Labels"]["site"] == "physics"
    assert config["Labels"]["backendai.user"] == "second"
    assert "SITE=physics" in config["Env"]
    assert {"/notes", "/home/work"} <= {mount["Destination"] for mount in facts["Mounts"]}

    hub.delete("first")
    wait_for("one to go", lambda: len(hub.containers()) == 1)
    hub.launch("first")
    hub.until_ready("first")
    again = hub.container_of(hub.sessions("first")[-1]["id"]).attrs
    assert again["HostConfig"]["CpusetCpus"] == "0"

    # Part of a core cannot be pinned: a share of time it is then.
    hub.launch("second", {"resources": {"cpu": 0.5}}, server="half")
    hub.until_ready("second", "half")
    half = hub.container_of(hub.sessions("second")[-1]["id"]).attrs["HostConfig"]
    assert (half["CpusetCpus"], half["CpuQuota"]) == ("", 50_000)
    for server in ("", "half"):
        hub.delete("second", server)
    hub.delete("first")
    wait_for("all to be over", lambda: not hub.containers() and not hub.held())
    for user in users:
        hub.docker.volumes.get(f"admins-notes-{user}").remove()
