"""GPUs in the options form: which kind, how much, how hard it is held, and what is simulated."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import expect
from ui_payload import amounts, error, gpus, simulated
from ui_steps import card, focused, launch_anyway, visit

from tests.browser.chromium import Barriers

pytestmark = pytest.mark.browser
LAB = "resource_group=gpu-lab&preset=gpu-small"  # of 1 FGPU


@pytest.fixture
def lab(site: Any) -> Any:
    """The lab with GPUs of every kind, none of which there is."""
    group = site.view["resource_groups"][1]
    group["gpus"] = gpus(
        group, simulated("GPU-a", "fgpu"), simulated("GPU-b", "gpu"),
        simulated("MIG-1", "mig", "1g.10gb"), simulated("MIG-2", "mig", "3g.40gb"), most=4, free=2,
    )  # fmt: skip
    group["limits"] |= {
        slot: {"most": 4000, "free": 2000, "left": 3000} for slot in ("fgpu", "gpu", "mig")
    }
    group["agents"] = group["agents"][:1]
    group["agents"][0] |= {
        "capacity": amounts(64, 512, 20, 4, 4), "free": amounts(44, 402, 2, 2, 2),
        "gpus": {"fgpu": 2000, "gpu": 2000, "1g.10gb": 2000, "3g.40gb": 1000},
    }  # fmt: skip
    group["capacity"], group["free"] = amounts(64, 512, 20, 4, 4), amounts(44, 402, 2, 2, 2)
    return site


async def test_a_kind_is_chosen_and_the_others_are_not_asked_for(tab: Any, lab: Any) -> None:
    page = await visit(await tab(), lab, f"#step=2&{LAB}")
    kinds = page.get_by_role("radiogroup", name="GPU")
    await expect(kinds.get_by_label("FGPU")).to_be_checked()
    rows = [page.locator(f"[data-slot={slot}]") for slot in ("fgpu", "gpu", "mig")]
    for row, there in zip(rows, (True, False, False), strict=True):
        await expect(row).to_be_visible(visible=there)
    await kinds.get_by_label("MIG devices").check()
    for row, there in zip(rows, (False, False, True), strict=True):
        await expect(row).to_be_visible(visible=there)
    await expect(page.locator("#bk-mig")).to_have_value("1")
    await page.get_by_label("Profile").select_option("3g.40gb")
    await expect(rows[2]).to_contain_text("1 MIG device (3g.40gb): 80 GB of GPU memory")
    await page.click("#bk-skip")
    resources = card(page, "Resources")
    await expect(resources).to_contain_text("1 MIG device (3g.40gb)")
    await expect(resources.get_by_text("simulated", exact=True)).to_be_visible()
    await launch_anyway(page)
    (posted,) = lab.posts
    assert {name: posted.get(name) for name in ("fgpu", "gpu", "mig", "mig_profile")} == {
        "fgpu": ["0"], "gpu": None, "mig": ["1"], "mig_profile": ["3g.40gb"],
    }  # fmt: skip
    assert "gpu_kind" not in posted


async def test_the_kind_is_in_the_address_and_back_from_it(tab: Any, lab: Any) -> None:
    tail = f"#step=2&{LAB}&fgpu=0&mig=2&mig_profile=1g.10gb"
    page = await visit(await tab(), lab, tail)
    await expect(page.get_by_label("MIG devices").first).to_be_checked()
    await expect(page.locator("#bk-mig")).to_have_value("2")
    await expect(page.locator("#bk-mig_profile")).to_have_value("1g.10gb")
    await page.locator("#bk-gpu-kind").get_by_label("Whole GPUs").check()
    await expect(page).to_have_url(re.compile(r"^(?!.*mig).*&fgpu=0&gpu=1(&|$)"))
    await page.get_by_role("button", name="undo").click()
    await expect(page.locator("#bk-fgpu")).to_have_value("1")
    await expect(page.locator("#bk-gpu-kind").get_by_label("FGPU")).to_be_checked()


async def test_one_kind_needs_no_choice(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site, f"#step=2&{LAB}")
    await expect(page.locator("#bk-gpu-kind")).to_have_count(0)
    row = page.locator("[data-slot=fgpu]")
    await expect(row).to_contain_text("1 FGPU: 15.79 GB of GPU memory")
    await expect(row).to_contain_text("Memory: enforced")
    await expect(row).to_contain_text("not verified on this GPU")
    await expect(row.get_by_text("simulated")).to_have_count(0)


async def test_a_step_that_there_is_not_is_told_at_the_amount(tab: Any, lab: Any) -> None:
    page = await visit(await tab(), lab, f"#step=2&{LAB}")
    await page.fill("#bk-fgpu", "0.55")
    await page.press("#bk-fgpu", "Tab")
    await expect(page.locator("#bk-fgpu-error")).to_have_text("FGPU here: a multiple of 0.1.")
    await page.fill("#bk-fgpu", "0.5")
    await expect(page.locator("#bk-fgpu-error")).to_be_empty()


async def test_what_one_session_cannot_have_now_waits(tab: Any, lab: Any) -> None:
    page = await visit(await tab(), lab, f"#step=2&{LAB}&fgpu=0&mig=2&mig_profile=1g.10gb")
    agent = page.locator("[data-gpus-of=gpu-lab] li").first
    await expect(agent).to_contain_text("has room for this")
    await page.get_by_label("Profile").select_option("3g.40gb")
    await expect(agent).to_contain_text("no room for this now")


async def test_without_javascript_one_field_is_filled_in(tab: Any, lab: Any) -> None:
    page = await tab(js=False)
    await page.goto(f"{lab.url}/hub/spawn/mkim/lab")
    await expect(page.get_by_text("fill in one of FGPU, Whole GPUs, MIG devices")).to_be_visible()
    await expect(page.locator("#bk-gpu-kind")).to_be_hidden()
    row = page.locator("[data-slot=mig]")
    await expect(row.get_by_text("simulated", exact=True)).to_have_count(2)
    await page.check("[name=resource_group][value=gpu-lab]", force=True)
    await page.fill("#bk-mig", "1")
    lab.view["errors"] = [
        error("resources.mig_profile", "Say which MIG devices: 1g.10gb or 3g.40gb."),
        error("resources.fgpu", "FGPU here comes in steps of 0.1: ask for 0.5 or 0.6."),
    ]
    await page.click("#bk-launch")
    assert (lab.posts[-1]["mig"], lab.posts[-1]["mig_profile"]) == (["1"], [""])
    await expect(page.locator("#bk-mig_profile-error")).to_contain_text("1g.10gb or 3g.40gb")
    await expect(page.locator("#bk-fgpu-error")).to_contain_text("ask for 0.5 or 0.6")
    await expect(page.locator("#bk-mig")).to_have_value("1")
    await page.get_by_role("link", name="Say which MIG devices").click()
    assert page.url.endswith("#bk-mig_profile")


async def test_an_error_on_one_kind_goes_when_another_is_chosen(tab: Any, lab: Any) -> None:
    lab.view["errors"] = [error("resources.gpu", "A session has GPUs of one kind.")]
    lab.view["spec"] |= {"resource_group": "gpu-lab", "resources": {"fgpu": 1, "gpu": 1}}
    page = await visit(await tab(), lab, "#step=2")
    await expect(page.locator("#bk-gpu")).to_be_visible()
    await page.click("#bk-errors a")
    assert await focused(page) == "bk-gpu"
    await page.fill("#bk-gpu", "0")
    await expect(page.locator("#bk-gpu-error")).to_be_empty()
    await expect(page.locator("#bk-gpu")).to_be_hidden()


async def test_gpus_have_no_barrier(tab: Any, lab: Any) -> None:
    barriers = Barriers()
    page = await visit(await tab(), lab, f"#step=2&{LAB}")
    for kind in ("FGPU", "Whole GPUs", "MIG devices"):
        await page.locator("#bk-gpu-kind").get_by_label(kind).check()
        await barriers.look(page, kind)
    await page.click("#bk-skip")
    await expect(card(page, "Resources")).to_contain_text("simulated")
    await barriers.look(page, "review")
    assert not barriers.found, barriers
