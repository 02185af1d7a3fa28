"""The traits: each is explained by an example that works, and what is wrong is named."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai import configuration_registry
from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.model.slots import GIB, Limits, Slots

TRAITS = BackendAI.class_traits(config=True)
OURS = sorted(set(TRAITS) - {"log"})

# What an example needs beside it, where it names something.
BESIDE: dict[str, dict[str, Any]] = {
    "agents": {"resource_groups": [{"name": "default"}, {"name": "gpu"}]},
    "folder_root_on_host": {"folder_root": "/srv/folders"},
    "database_url": {},
}


def example(name: str) -> str:
    """The Python in a trait's help."""
    help_text = str(TRAITS[name].help)
    block = re.search(r"Example[^:]*::\n\n(.*)", help_text, re.DOTALL)
    if block:
        return textwrap.dedent(block[1])
    inline = re.search(r"Example: `(c\.BackendAI\.[^`]*)`", help_text)
    assert inline, f"the help of {name} has no example"
    return inline[1]


def read(**traits: Any) -> BackendAI:
    return read_configuration(Config({"BackendAI": traits}))


def wrong(**traits: Any) -> str:
    """The text of the error, which must have its three parts."""
    with pytest.raises(ConfigurationError) as caught:
        read(**traits)
    error = caught.value
    assert str(error).startswith("c.BackendAI.")
    assert error.problem
    assert error.remedy
    assert "Value error" not in str(error)
    return str(error)


@pytest.mark.parametrize("name", OURS)
def test_the_example_in_the_help_is_a_valid_configuration(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration_registry, "password_problem", lambda path: None)
    c = Config()
    c.BackendAI.update(BESIDE.get(name, {}))
    exec(compile(example(name), name, "exec"), {"c": c})
    given = c.BackendAI[name]
    assert getattr(read_configuration(c), name) == given


@pytest.mark.parametrize("name", OURS)
def test_the_help_says_first_what_it_is(name: str) -> None:
    text = str(TRAITS[name].help).strip()
    assert text[0].isupper()
    assert len(text.split(".")[0]) < 250


def test_nothing_has_to_be_set() -> None:
    configuration = read()
    assert [g.name for g in configuration.catalog().resource_groups] == ["default"]
    assert configuration.policies().default.limits == Limits()
    (agent,) = configuration.agent_configs({"base_url": "unix:///x"})
    assert (agent.name, agent.group, agent.client) == (
        "local",
        "default",
        {"base_url": "unix:///x"},
    )
    assert configuration.uid == 1000


ENVIRONMENT = {"name": "a", "image": "x:1"}
PRESET = {"name": "s", "cpu": 1, "mem": "1g"}


@pytest.mark.parametrize(
    ("traits", "words"),
    [
        ({"environmnts": []}, ["c.BackendAI.environmnts", "no such trait", "environments"]),
        ({"environments": "python"}, ["environments", "'python'"]),
        ({"environments": [5]}, ["environments"]),
        ({"environments": [{"name": "a"}]}, ["environments[0]", "'versions' is missing"]),
        (
            {"environments": [ENVIRONMENT, {**ENVIRONMENT, "imge": 1}]},
            ["environments[1]", "no key 'imge'"],
        ),
        (
            {"environments": [{"name": "a", "image": "Not An Image"}]},
            ["environments[0].versions[0].image", "'Not An Image'", "registry/name:tag"],
        ),
        (
            {"environments": [{"name": "a", "versions": [{"name": "1", "image": "sha256:12"}]}]},
            ["versions[0].image", "not by its id"],
        ),
        ({"environments": [ENVIRONMENT, ENVIRONMENT]}, ["environments = 'a'", "there twice"]),
        (
            {"environments": [{"name": "a", "versions": [{"name": "1", "image": "x:1"}] * 2}]},
            ["environments[0].versions = '1'", "there twice"],
        ),
        (
            {"environments": [{**ENVIRONMENT, "minimum": {"mem": "lots"}}]},
            ["environments[0].minimum.mem", "'lots'", "4GiB"],
        ),
        ({"presets": [{"name": "s", "cpu": 1}]}, ["presets[0]", "'mem' is missing"]),
        ({"presets": [{**PRESET, "cpu": "two"}]}, ["presets[0].cpu", "'two'", "0.5"]),
        ({"presets": [{**PRESET, "cpu": 0}]}, ["presets[0]", "more than 0"]),
        ({"presets": [{**PRESET, "shm": "2g"}]}, ["presets[0]", "part of memory"]),
        ({"presets": [{**PRESET, "fgpu": 0.0001}]}, ["presets[0].fgpu", "three decimals"]),
        ({"presets": [PRESET, PRESET]}, ["presets = ('s', None)", "there twice"]),
        (
            {"presets": [PRESET, {**PRESET, "resource_group": "default"}]},
            ["presets = 's'", "there twice"],
        ),
        (
            {"presets": [{**PRESET, "resource_group": "gpu"}]},
            ["presets[0].resource_group = 'gpu'", "no such resource group", "default"],
        ),
        ({"resource_groups": [{"name": "a"}] * 2}, ["resource_groups = 'a'", "there twice"]),
        (
            {"resource_groups": [{"name": "a", "queue": "random"}]},
            ["resource_groups[0].queue", "'random'", "'backfill' or 'strict'"],
        ),
        ({"resource_groups": [{"name": "a", "users": "bob"}]}, ["resource_groups[0].users"]),
        ({"resource_groups": [{"name": "a", "max_bypass": -1}]}, ["resource_groups[0].max_bypass"]),
        ({"agents": [{"nam": "a"}]}, ["agents[0]", "'nam'", "Use only: address"]),
        ({"agents": [{}]}, ["agents[0]", "'name' is missing"]),
        ({"agents": [{"name": ""}]}, ["agents[0].name"]),
        ({"agents": [{"name": "a"}, {"name": "a"}]}, ["agents = 'a'", "there twice"]),
        ({"agents": [{"name": "a", "resource_group": "x"}]}, ["agents[0].resource_group", "'x'"]),
        ({"agents": [{"name": "a", "base_url": "gpu-01:2376"}]}, ["agents[0].base_url"]),
        ({"agents": [{"name": "a", "timeout": "soon"}]}, ["agents[0].timeout", "'soon'"]),
        ({"agents": [{"name": "a", "tls": {"cert": "x"}}]}, ["agents[0].tls", "'cert'", "ca_cert"]),
        ({"agents": [{"name": "a", "reserved": {"cpu": "x"}}]}, ["agents[0].reserved.cpu"]),
        ({"agents": [{"name": "a", "capacity": {"cpu": 4}}]}, ["agents[0].capacity", "mem"]),
        ({"agents": [{"name": "a", "hub_connect_url": "hub:8081"}]}, ["agents[0].hub_connect_url"]),
        ({"default_policy": {"total": {"cpu": "many"}}}, ["default_policy.total.cpu", "'many'"]),
        (
            {"agents": [{"name": "a", "capacity": {"cpu": 1, "mem": "1g", "fgpu": 2}}]},
            ["agents[0].capacity.fgpu = 2.0", "not said here", "c.BackendAI.gpus"],
        ),
        (
            {"agents": [{"name": "a", "capacity": {"cpu": 1, "mem": "1g", "gpu": 1}}]},
            ["agents[0].capacity.gpu = 1.0", "not said here", "c.BackendAI.gpus"],
        ),
        ({"default_policy": {"maxsessions": 1}}, ["default_policy", "no key 'maxsessions'"]),
        ({"default_policy": []}, ["default_policy"]),
        (
            {"environments": [ENVIRONMENT], "default_policy": {"environments": ["b"]}},
            ["default_policy.environments = 'b'", "no such environment", "Use one of: a"],
        ),
        (
            {"user_policies": {"bob": {"resource_groups": ["gpu"]}}},
            ["user_policies['bob'].resource_groups = 'gpu'", "no such resource group"],
        ),
        ({"user_policies": {"bob": 5}}, ["user_policies = 5", "is a dict"]),
        ({"group_policies": {"x": {"priority": 1000}}}, ["group_policies['x'].priority", "1000"]),
        ({"project_quotas": {"x": {"per_session": {}}}}, ["project_quotas['x']", "'per_session'"]),
        ({"project_quotas": {"x": {"total": {"shm": "1g"}}}}, ["project_quotas['x'].total", "mem"]),
        ({"allow_manual_image": "perhaps"}, ["allow_manual_image", "'perhaps'"]),
        ({"database_url": "backendai.sqlite"}, ["database_url", "sqlite:///"]),
        ({"database_url": "mysql://a:secret@b/c"}, ["database_url", "mysql"]),
        ({"database_url": "sqlite://"}, ["database_url", "plain file"]),
        ({"folder_root": "folders"}, ["folder_root = 'folders'", "absolute", "slash"]),
        ({"folder_root": "/a", "folder_root_on_host": "b"}, ["folder_root_on_host = 'b'"]),
        ({"folder_root_on_host": "/b"}, ["folder_root = ''"]),
        ({"scratch_options": {"size": 10}}, ["scratch_options"]),
        ({"uid": 0}, ["uid = 0"]),
        ({"gid": "staff"}, ["gid = 'staff'"]),
        ({"pids_limit": 1}, ["pids_limit = 1"]),
        ({"log_max": "1k"}, ["log_max = '1k'", "too little", '"1m"']),
        ({"log_max": "much"}, ["log_max = 'much'", "512m"]),
        ({"capabilities": ["FLY"]}, ["capabilities = 'FLY'", "SYS_NICE"]),
        ({"queue_timeout": -1}, ["queue_timeout = -1"]),
        ({"hub_id": "my-hub"}, ["hub_id = 'my-hub'", "letters and digits"]),
        ({"hub_id": "h" * 33}, ["hub_id", "32"]),
    ],
    ids=lambda v: str(v)[:60] if isinstance(v, dict) else "",
)
def test_what_is_wrong_is_named_with_its_value_and_remedy(
    traits: dict[str, Any], words: list[str]
) -> None:
    text = wrong(**traits)
    for word in words:
        assert word in text


def test_a_password_is_not_shown() -> None:
    assert "secret" not in wrong(database_url="mysql://hub:secret@db/x")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///backendai.sqlite",
        "sqlite:////var/lib/backendai.sqlite",
        "postgresql://hub:secret@db/backendai",
        "postgresql+psycopg://hub:secret@db/backendai",
    ],
)
def test_databases(url: str) -> None:
    assert read(database_url=url).database_url == url


def test_policies_are_each_whole_but_for_the_site_wide_word_on_images() -> None:
    policies = read(
        allow_manual_image=True,
        default_policy={"max_sessions": 3},
        user_policies={"bob": {"max_sessions": 10}, "eve": {"manual_image": False}},
        group_policies={"staff": {"total": {"cpu": 32, "mem": "1.5t"}}},
        project_quotas={"cs101": {"max_sessions": 40}},
    ).policies()
    assert policies.default.max_sessions == 3
    assert policies.default.manual_image
    assert policies.users["bob"].max_sessions == 10
    assert policies.users["bob"].manual_image
    assert policies.users["eve"].max_sessions is None
    assert not policies.users["eve"].manual_image
    assert policies.groups["staff"].limits == Limits(cpu=32_000, mem=1536 * GIB)
    assert policies.projects["cs101"].limits == Limits(sessions=40)
    assert not read().policies().default.manual_image


def test_agents_as_they_are_written() -> None:
    first, second, third = read(
        resource_groups=[{"name": "cpu"}, {"name": "gpu"}],
        agents=[
            {"name": "a", "reserved": {"cpu": 1, "mem": "2g"}},
            {
                "name": "b",
                "resource_group": "gpu",
                "base_url": "tcp://b:2376",
                "tls": {"ca_cert": "/ca.pem", "verify": True},
                "timeout": 5,
                "capacity": {"cpu": 8, "mem": "32g"},
                "address": "10.0.0.2",
                "hub_connect_url": "http://10.0.0.1:8081",
            },
            {"name": "c", "base_url": "ssh://c", "use_ssh_client": True},
        ],
    ).agent_configs({"base_url": "unix:///mine"})
    assert (first.group, first.client, first.capacity) == (
        "cpu",
        {"base_url": "unix:///mine"},
        None,
    )
    assert first.reserved == Slots(1000, 2 * GIB)
    assert second.group == "gpu"
    assert second.client == {
        "base_url": "tcp://b:2376",
        "tls": {"ca_cert": "/ca.pem", "verify": True},
        "timeout": 5,
    }
    assert second.capacity == Slots(8000, 32 * GIB)
    assert (second.address, second.hub_connect_url) == ("10.0.0.2", "http://10.0.0.1:8081")
    assert third.client == {"base_url": "ssh://c", "use_ssh_client": True}


def test_one_preset_name_in_two_groups_is_two_presets() -> None:
    groups = [{"name": "a"}, {"name": "b"}]
    presets = [{**PRESET, "resource_group": g} for g in ("a", "b")]
    catalog = read(resource_groups=groups, presets=presets).catalog()
    assert [p.resource_group for p in catalog.presets_of("b")] == ["b"]


def test_a_list_that_is_appended_to() -> None:
    c = Config()
    c.BackendAI.environments.append(ENVIRONMENT)
    c.BackendAI.capabilities.extend(["SYS_NICE", "cap_ipc_lock"])
    configuration = read_configuration(c)
    assert [e.name for e in configuration.catalog().environments] == ["a"]
    assert configuration.capabilities == ["SYS_NICE", "cap_ipc_lock"]
