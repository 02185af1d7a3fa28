"""The admin's page: agents, resource groups, the line."""

from __future__ import annotations

from playwright.async_api import expect

from jupyterhub_backendai.model.status import Phase, Status

from .conftest import Open
from .sample import Sample

GPU = {"resource_group": "gpu-lab", "preset": "gpu-small"}


async def test_what_is_taken_and_by_whom(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    await sample.run("bob", "theirs", 5)
    page = await visit("admin", "admin")
    group = page.get_by_role("region", name="gpu-lab")
    agent = group.get_by_role("row").filter(has=page.get_by_role("rowheader", name="gpu-01"))
    await expect(agent).to_contain_text("0 of 2 FGPU free")
    await expect(agent).to_contain_text("lab3-cnn of alice")
    await expect(group).to_contain_text("In line: 1")
    await expect(page.get_by_role("region", name="default")).to_contain_text("theirs of bob")


async def test_a_place_in_line_is_moved(sample: Sample, visit: Open) -> None:
    sample.agents()
    for name in ("runs", "also"):
        await sample.run("alice", f"{name}-there", 9, **GPU)
    waiting = [await sample.submit(who, f"of-{who}", 5, **GPU) for who in ("alice", "bob")]
    sample.place()
    page = await visit("admin", "admin")
    group = page.get_by_role("region", name="gpu-lab")
    rows = group.locator("tr[id^=w-]")
    await expect(page.locator("#bk-live")).to_have_text("Live")  # its script is there
    await expect(rows.nth(0)).to_contain_text("of-alice")
    field = page.get_by_label("Priority of of-bob")
    await field.fill("90")
    await field.press("Enter")
    await expect(
        page.get_by_role("status").filter(has_text="of-bob has priority 90")
    ).to_be_attached()
    sample.place()
    await expect(rows.nth(0)).to_contain_text("of-bob")
    assert [sample.store.get(s.id).position for s in waiting] == [2, 1]
    told = sample.store.history(waiting[1].id)
    assert "admin changed its priority from 10 to 90." in [row.message for row in told]
    # What is typed stays while the page changes, and a refusal is there to be read.
    other = page.get_by_label("Priority of of-alice")
    await other.fill("95")
    await page.keyboard.press("Tab")
    await sample.submit("bob", "another", 1, **GPU)
    sample.place()
    await expect(rows).to_have_count(3)
    assert await other.input_value() == "95"
    sample.store.move(waiting[0].id, Status.CANCELLED, phase=Phase.CANCEL, now=sample.now())
    reply = await sample.running.call(
        "PATCH", f"api/sessions/{waiting[1].id}", "bob", json={"priority": 100}
    )
    assert (reply.status, reply.json["errors"][0]["field"]) == (403, "priority")


async def test_it_is_for_admins(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("admin", "alice")
    await expect(page.locator("main")).to_contain_text("This page is for admins.")
    page = await visit("", "alice")
    await expect(page.get_by_role("link", name="Agents and line")).to_have_count(0)
    page = await visit("", "admin")
    await page.get_by_role("link", name="Agents and line").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Agents and line")
