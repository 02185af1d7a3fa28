"""Labels that were shown on a device: what says so, and that its report is there."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.gpu import enforcement
from jupyterhub_backendai.gpu.enforcement import ENFORCEMENT, HARD, VERIFIED, Shown, is_verified
from jupyterhub_backendai.gpu.facts import HostFacts
from jupyterhub_backendai.gpu.nvml import Nvml
from jupyterhub_backendai.gpu.offers import offers
from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice, GpuRule

from .machines import L40S

BENCHMARKS = Path(__file__).parents[2] / "BENCHMARKS.md"
WHOLE = GpuDevice(uuid=L40S, name="NVIDIA L40S", slot="gpu", enforcement=HARD)
SHOWN = Shown("whole", "*L40S*", 615, HARD, "2026-12-01")


def reports(text: str) -> list[dict[str, Any]]:
    """The runs whose output is kept."""
    lines = (line.strip() for line in text.splitlines())
    return [json.loads(line) for line in lines if line.startswith('{"fake"')]


def stood(report: dict[str, Any]) -> bool:
    """Whether no label was broken, and each that claims something was tried."""
    claiming = [axis for axis in report["axes"].values() if axis["claims"] != "none"]
    return all(axis["stands"] and axis["tried"] for axis in claiming)


def is_report_of(report: dict[str, Any], shown: Shown) -> bool:
    return (
        report["fake"] is None
        and report["provider"] == shown.provider
        and fnmatchcase(report["device"], shown.model)
        and int(report["driver"].split(".")[0]) == shown.driver
        and report["date"] == shown.date
        and report["labels"] == shown.enforcement.model_dump()
        and stood(report)
    )


def test_what_is_verified_has_its_report() -> None:
    kept = reports(BENCHMARKS.read_text())
    without = [one for one in VERIFIED if not any(is_report_of(report, one) for report in kept)]
    assert without == []


def test_what_is_no_report() -> None:
    axis = {"claims": "hard", "stands": True, "tried": 3}
    report = {
        "fake": None,
        "provider": "whole",
        "device": "NVIDIA L40S",
        "driver": "615.71.09",
        "date": "2026-12-01",
        "labels": HARD.model_dump(),
        "axes": {"memory": axis},
    }
    assert is_report_of(reports(f"text\n    {json.dumps(report)}\n")[0], SHOWN)
    for changes in (
        {"fake": "FAKE LIBRARIES"},
        {"provider": "mig"},
        {"driver": "620.1"},
        {"labels": ENFORCEMENT["mps"].model_dump()},
        {"axes": {"memory": {**axis, "stands": False}}},
        {"axes": {"memory": {**axis, "tried": 0}}},
    ):
        assert not is_report_of({**report, **changes}, SHOWN)


@pytest.mark.parametrize(
    ("shown", "driver", "found"),
    [
        (SHOWN, "615.71.09", True),
        (SHOWN, "616.1", False),  # nobody has tried it
        (SHOWN, None, False),
        (replace(SHOWN, model="*H100*"), "615.71.09", False),
        (replace(SHOWN, provider="mps"), "615.71.09", False),
        # Less was claimed then than is now.
        (replace(SHOWN, enforcement=Enforcement(memory="hard")), "615.71.09", False),
    ],
)
def test_verified(
    monkeypatch: pytest.MonkeyPatch, shown: Shown, driver: str | None, found: bool
) -> None:
    monkeypatch.setattr(enforcement, "VERIFIED", (shown,))
    assert is_verified(WHOLE, driver) is found


async def test_offers_say_what_is_verified(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = await nvml.inventory()

    def verified() -> dict[str, bool]:
        found = offers(inventory, (GpuRule(),), "default", HostFacts(root=True))
        return {device.uuid: device.verified for device in found}

    assert not any(verified().values())
    monkeypatch.setattr(enforcement, "VERIFIED", (SHOWN,))
    assert [uuid for uuid, yes in verified().items() if yes] == [L40S]
