"""GPUs as the API and the pages tell them: devices of an agent, and what a session was granted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from jinja2 import Environment, FileSystemLoader

from jupyterhub_backendai._data import data_paths
from jupyterhub_backendai.model import gpu_words
from jupyterhub_backendai.model.catalog import ResourceGroup
from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice, Granted
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.scheduling.fgpu import grant
from jupyterhub_backendai.scheduling.snapshot import Holding
from jupyterhub_backendai.service.agents import AgentRow, DeviceRow, Load, loads
from jupyterhub_backendai.service.pages.admin import AgentView, GroupView
from jupyterhub_backendai.service.pages.words import FILTERS, GLOBALS
from jupyterhub_backendai.service.schemas import GrantedRow
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentState

SHARED = GpuDevice(
    uuid="GPU-1a2b3c4d-0000", name="NVIDIA <L40S>", slot="fgpu", capacity=5000, quantum=100,
    memory=45 * GIB, provider="mps", enforcement=Enforcement(memory="hard"), verified=True,
)  # fmt: skip
PART = GpuDevice(
    uuid="MIG-1", name="NVIDIA H100", slot="mig", profile="1g.10gb", memory=10 * GIB,
    provider="simulated", available=False, reason="It has errors.",
)  # fmt: skip
NOW = utcnow()
STATE = AgentState(
    "gpu-01", "lab", Slots(8000, 64 * GIB, 5000, 0, 1000), True, "", NOW - timedelta(seconds=1),
    None, None, 1,
)  # fmt: skip


def jinja() -> Environment:
    made = Environment(loader=FileSystemLoader(data_paths()[0]), autoescape=True)
    made.filters |= FILTERS
    made.globals |= GLOBALS
    return made


def granted(parts: Sequence[Granted]) -> str:
    source = '{% import "backendai/pages/macros.html" as ui with context %}{{ ui.granted(parts) }}'
    return jinja().from_string(source).render(parts=parts)


def test_what_was_granted_is_told_in_words() -> None:
    assert gpu_words.granted(grant(SHARED, 500)) == (
        "0.5 FGPU of NVIDIA <L40S> (GPU-1a2b3c4d…), 4.5 GB of GPU memory, "
        "10 % of its computing time"
    )
    assert gpu_words.granted(grant(PART, 1000)) == (
        "1 MIG device (1g.10gb) of NVIDIA H100 (MIG-1), 10 GB of GPU memory"
    )


def test_a_page_tells_what_is_simulated_and_how_hard_it_is_held() -> None:
    real, none = granted([grant(SHARED, 500)]), granted([grant(SHARED, 500), grant(PART, 1000)])
    assert "0.5 FGPU of NVIDIA &lt;L40S&gt;" in real
    assert "Memory: enforced · Computing time: shared, not enforced" in real
    assert "simulated" not in real
    assert none.count(">simulated<") == 1
    assert granted([]).strip() == ""


def test_the_api_tells_what_was_granted() -> None:
    row = GrantedRow.of(grant(PART, 1000)).model_dump()
    assert (row["amount"], row["profile"], row["simulated"]) == (1000, "1g.10gb", True)
    assert row["label"].startswith("There is no such GPU")
    label = GrantedRow.of(grant(SHARED, 500)).label
    assert label.endswith("Crashes: can stop others on the GPU · verified on this GPU.")


def test_the_api_tells_the_devices_of_an_agent() -> None:
    agent = replace(STATE, devices=(SHARED, PART))
    held = Holding("s1", "ada", None, "lab", "gpu-01", Slots(), ((SHARED.uuid, 3500),))
    rows = AgentRow.of(agent, loads([agent], [held])["gpu-01"]).devices
    assert [(row.free, row.simulated, row.available, row.reason) for row in rows] == [
        (1500, False, True, ""), (1000, True, False, "It has errors."),
    ]  # fmt: skip
    assert AgentRow.of(STATE, Load()).devices == []
    assert set(DeviceRow.model_fields) >= {
        "uuid", "name", "slot", "profile", "capacity", "free", "memory", "provider", "enforcement",
        "verified", "available", "reason", "simulated", "holders",
    }  # fmt: skip


def site_page(*devices: GpuDevice) -> str:
    load = Load(devices=Counter({SHARED.uuid: 3500}))
    agent = AgentView(replace(STATE, devices=devices), load, [], False)
    group = GroupView(ResourceGroup(name="lab"), [agent], 0, [], 0)
    template = jinja().get_template("backendai/pages/admin_site.html")
    context: dict[str, Any] = {"groups": [group], "service_url": "/", "may_order": False}
    return template.render(context)


def test_the_agents_page_has_a_line_for_each_device() -> None:
    page = site_page(SHARED, PART)
    assert "2 GPU devices" in page
    assert "NVIDIA &lt;L40S&gt; (GPU-1a2b3c4d…), 1.5 of 5 FGPU free" in page
    assert "1 not available" in page
    assert "It has errors." in page
    assert ">simulated<" in page
    assert ">simulated<" not in site_page(SHARED)
    assert "GPU device" not in site_page()
