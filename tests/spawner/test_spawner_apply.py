"""How a session's settings get into the arguments of `create_container`."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
from dockerspawner import DockerSpawner
from hypothesis import given
from hypothesis import strategies as st
from spawners import site_config, spawner_of

from jupyterhub_backendai.engine.create import apply_settings, overruled
from jupyterhub_backendai.engine.settings import ContainerSettings
from jupyterhub_backendai.spawner.container import _granted
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner

GRANTED = ContainerSettings(
    image="example/python:3.11",
    command=("start.sh",),
    hostname="main1",
    user="1000:100",
    working_dir="/home/work",
    environment={"HOME": "/home/work", "MY_VAR": "{username} {0} %s {{x}}"},
    labels={"backendai.hub": "hub1", "backendai.session": "abc"},
    mounts=({"Type": "volume", "Source": "home", "Target": "/home/work"},),
    scratch_volume="home",
    cpu_quota=150_000,
    cpu_period=100_000,
    cpuset="",
    memory=2**31,
    memory_swap=2**31,
    shm=2**26,
    pids_limit=4096,
    cap_add=(),
)


def applied(kwargs: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    settings = GRANTED if not changes else _changed(**changes)
    given_kwargs = copy.deepcopy(kwargs or {})
    found = apply_settings(given_kwargs, settings)
    assert given_kwargs == (kwargs or {})  # the caller's are not written to
    return found


def _changed(**changes: Any) -> ContainerSettings:
    from dataclasses import replace

    return replace(GRANTED, **changes)


def test_the_settings_of_a_session() -> None:
    found = applied({"image": "example/python:3.11", "name": "n"})
    assert found["image"] == "example/python:3.11"
    assert found["name"] == "n"
    assert (found["user"], found["hostname"]) == ("1000:100", "main1")
    assert found["working_dir"] == "/home/work"
    assert found["host_config"] == {
        "Memory": 2**31,
        "MemorySwap": 2**31,
        "ShmSize": 2**26,
        "Init": True,
        "AutoRemove": False,
        "CpuPeriod": 100_000,
        "CpuQuota": 150_000,
        "PidsLimit": 4096,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Mounts": [{"Type": "volume", "Source": "home", "Target": "/home/work"}],
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "51200k", "max-file": "2"}},
    }


def test_logs_go_where_the_admin_says_and_nothing_starts_a_session_again() -> None:
    theirs = {"Type": "journald", "Config": {}}
    given_host = {"LogConfig": theirs, "RestartPolicy": {"Name": "always"}}
    host = applied({"host_config": given_host})["host_config"]
    assert host["LogConfig"] == theirs
    assert host["RestartPolicy"]["Name"] == "no"


def test_what_the_admin_set_stays() -> None:
    theirs = {
        "user": "0:0",
        "hostname": "theirs",
        "working_dir": "/srv",
        "environment": {"PROXY": "http://proxy", "TZ": "UTC"},
        "labels": {"team": "x"},
        "host_config": {
            "NetworkMode": "hub-net",
            "Binds": ["/data:/data:ro"],
            "PidsLimit": 99,
            "CapDrop": ["NET_RAW"],
            "CapAdd": ["SYS_PTRACE"],
            "SecurityOpt": ["seccomp=unconfined"],
            "Mounts": [{"Type": "bind", "Source": "/a", "Target": "/a"}],
            "CpusetCpus": "0-3",
        },
    }
    found = applied(theirs, cap_add=("SYS_NICE",))
    for name in ("user", "hostname", "working_dir"):
        assert found[name] == theirs[name]
    for name in ("NetworkMode", "Binds", "PidsLimit", "CapDrop", "CapAdd", "SecurityOpt",
                 "CpusetCpus"):  # fmt: skip
        assert found["host_config"][name] == theirs["host_config"][name]  # type: ignore[index]
    assert found["environment"]["PROXY"] == "http://proxy"
    assert found["labels"]["team"] == "x"
    assert [m["Target"] for m in found["host_config"]["Mounts"]] == ["/a", "/home/work"]


def test_what_the_session_was_granted_wins() -> None:
    theirs = {
        "labels": {"backendai.session": "other"},
        "environment": {"HOME": "/root"},
        "host_config": {
            "Memory": 2**40,
            "MemorySwap": -1,
            "ShmSize": 1,
            "Init": False,
            "AutoRemove": True,
            "CpuQuota": 900_000,
            "CpuPeriod": 100_000,
        },
    }
    found = applied(theirs, cpuset="4,6")
    assert found["labels"]["backendai.session"] == "abc"
    assert found["environment"]["HOME"] == "/home/work"
    host = found["host_config"]
    assert (host["Memory"], host["MemorySwap"], host["ShmSize"]) == (2**31, 2**31, 2**26)
    assert (host["Init"], host["AutoRemove"]) == (True, False)
    assert (host["CpuPeriod"], host["CpuQuota"]) == (100_000, 150_000)
    assert host["CpusetCpus"] == "4,6"


@given(st.integers(1000, 1_000_000))
def test_an_admins_period_keeps_the_share(period: int) -> None:
    host = applied({"host_config": {"CpuPeriod": period}})["host_config"]
    assert host["CpuPeriod"] == period
    assert host["CpuQuota"] == period * 3 // 2


@given(st.integers(10, 64_000), st.integers(1000, 1_000_000))
def test_what_dockerspawner_makes_of_the_same_limits_is_no_news(cpu: int, period: int) -> None:
    host_config = {
        "Memory": GRANTED.memory,
        "CpuPeriod": period,
        "CpuQuota": int(cpu / 1000 * period),
    }
    settings = _changed(cpu_quota=cpu * 100)
    assert overruled({"host_config": host_config}, settings) == []
    theirs = {**host_config, "Memory": 2**40, "RestartPolicy": {"Name": "always"}}
    assert overruled({"host_config": theirs}, settings) == ["Memory", "RestartPolicy"]


@given(st.text(), st.text())
def test_no_text_of_a_user_is_a_template(value: str, owner: str) -> None:
    found = applied(environment={"A": value}, labels={"backendai.user": owner})
    assert found["environment"]["A"] == value
    assert found["labels"]["backendai.user"] == owner


async def test_settings_get_in_at_the_gate_after_the_templates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []

    def gate(self: Any, method: str, *args: Any, **kwargs: Any) -> None:
        sent.append((method, kwargs))

    monkeypatch.setattr(DockerSpawner, "docker", gate)
    spawner = spawner_of(site_config(tmp_path), DockerSessionSpawner)

    async def make(settings: ContainerSettings) -> list[str]:
        _granted.set(settings)
        await asyncio.sleep(0)
        spawner.docker("create_container", image="x", environment={"JUPYTERHUB_USER": "alice"})
        spawner.docker("inspect_container", "abc")
        return list(await spawner.get_command())

    # Two starts of one server, of which the first was given up: each makes its own container.
    other = _changed(memory=2**20, command=("other.sh",))
    one, two = asyncio.ensure_future(make(GRANTED)), asyncio.ensure_future(make(other))
    spawner.clear_state()
    assert (await one)[0] == "start.sh"
    assert (await two)[0] == "other.sh"
    spawner.docker("create_container", image="x")
    first, second, third, _, plain = (kwargs for _, kwargs in sent)
    assert first["environment"] == {"JUPYTERHUB_USER": "alice", **GRANTED.environment}
    assert first["host_config"]["Memory"] == 2**31
    assert second == {}
    assert third["host_config"]["Memory"] == 2**20
    assert plain == {"image": "x"}
    spawner.site.store.close()
