"""Amounts in the options form: numbers, presets, and the verdict on them, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect
from ui_payload import amounts, preset
from ui_steps import focused, verdict, visit

pytestmark = pytest.mark.browser


async def test_custom_numbers_and_undo(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site, "#step=2")
    await expect(page.locator("[data-gpus-of]")).to_be_hidden()  # of a group without GPUs
    await expect(page.locator("#bk-fgpu")).to_be_hidden()
    custom = page.locator("[data-presets-of=default] .bk-custom")
    await expect(custom).to_be_hidden()
    await page.fill("#bk-mem", "24")
    await expect(custom).to_contain_text("changed from small")
    await expect(page.locator("[data-slider=mem]")).to_have_value("24")
    await custom.get_by_role("button", name="undo").click()
    await expect(custom).to_be_hidden()
    await expect(page.locator("#bk-mem")).to_have_value("4")
    await page.fill("#bk-cpu", "")
    await page.press("#bk-cpu", "Tab")
    await expect(page.locator("#bk-cpu")).to_have_value("2")  # empty is as the preset says


async def test_verdict_on_numbers(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site, "#step=2&resource_group=gpu-lab&preset=gpu-small")
    says = page.locator("#bk-verdict")
    await expect(says).to_contain_text("Starts now")
    gpus = page.locator("[data-gpus-of=gpu-lab] li")
    await expect(gpus).to_contain_text(["1.5 of 20", "1 of 20"])
    await expect(gpus).to_contain_text(["has room for this", "has room for this"])
    await page.fill("#bk-fgpu", "1.5")
    await expect(gpus).to_contain_text(["has room for this", "no room for this now"])
    await page.fill("#bk-fgpu", "2")
    await expect(says).to_contain_text("Waits in the queue")
    await expect(says).to_contain_text(
        "No machine of gpu-lab has 2 FGPU free; the most is 1.5 FGPU."
    )
    await page.click("text=1.5 FGPU starts now")
    await expect(says).to_contain_text("Starts now")
    await page.fill("#bk-mem", "64")
    await expect(says).to_contain_text("Not now: 40 GB of memory is left to you")
    await page.fill("#bk-mem", "500")
    await page.press("#bk-mem", "Tab")
    await expect(says).to_contain_text("Put one thing right")
    await expect(page.locator("#bk-mem-error")).to_contain_text(
        "Never fits: the largest machine of gpu-lab has 128 GB of memory."
    )
    await expect(page.locator("#bk-mem")).to_have_attribute("aria-invalid", "true")
    await page.click("#bk-skip")
    await expect(page.locator("#bk-launch")).to_be_disabled()
    await page.click("#bk-errors a")
    assert await focused(page) == "bk-mem"


async def test_a_preset_with_a_gpu_that_the_group_lacks_does_not_start(tab: Any, site: Any) -> None:
    """Whatever else is changed: there is no field in which to take the GPU out."""
    group = site.view["resource_groups"][0]
    group["presets"][1] |= preset("medium", 4, 16, 1, 2, "waits", "Waiting for 1 FGPU.")
    page = await visit(await tab(), site, "#step=2&preset=medium")
    await page.fill("#bk-cpu", "3")
    says = page.locator("#bk-verdict")
    await expect(says).to_contain_text("Waits in the queue")
    await expect(says).to_contain_text("Waiting for 1 FGPU.")


async def test_without_presets_the_usual_amounts_are_judged(tab: Any, site: Any) -> None:
    group = site.view["resource_groups"][0]
    group["presets"], group["usual"] = [], {"python": amounts(1, 1), "pytorch": amounts(2, 8)}
    group["agents"][0]["free"] = amounts(1, 4)
    site.view["resource_groups"] = [group]
    page = await visit(await tab(), site, "#step=2")
    says = page.locator("#bk-verdict")
    await expect(says).to_contain_text("Starts now")
    await page.click("label:has(input[value=pytorch])")
    await expect(says).to_contain_text("No machine of default has 2 cores free")
    await page.fill("#bk-cpu", "1")
    await page.fill("#bk-mem", "4")
    await page.click("label:has(input[value=python])")
    await expect(says).to_contain_text("Starts now")


async def test_those_who_wait_are_counted(tab: Any, site: Any) -> None:
    site.view["resource_groups"][0]["waiting"] = 2
    page = await visit(await tab(), site, "#step=2")
    await page.fill("#bk-cpu", "3")
    await expect(verdict(page)).to_have_text("Waits, 2 ahead of you")


async def test_shared_memory_is_part_of_memory(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site, "#step=2")
    await expect(page.locator("[data-slider=shm]")).to_have_attribute("max", "4")
    await page.fill("#bk-shm", "8")
    await expect(page.locator("#bk-shm-error")).to_contain_text("cannot be more than 4 GB")
