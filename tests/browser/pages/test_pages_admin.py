"""The admin's page: agents, resource groups, the line."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import AgentReport

from ..chromium import Barriers
from .conftest import Open
from .sample import Sample
from .test_pages_access import MOST, weight

GPU = {"resource_group": "gpu-lab", "preset": "gpu-small"}


async def test_what_is_taken_and_by_whom(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    await sample.run("bob", "theirs", 5)
    page = await visit("admin", "admin")
    group = page.get_by_role("region", name="gpu-lab")
    agent = group.get_by_role("row").filter(has=page.get_by_role("rowheader", name="gpu-01"))
    await expect(agent).to_contain_text("0 of 2 FGPU free")
    await expect(agent).to_contain_text("lab3-cnn of alice")
    await expect(agent.get_by_text("simulated", exact=True)).to_be_visible()
    await agent.get_by_text("1 GPU device").click()
    await expect(agent).to_contain_text("NVIDIA L40S (GPU-5a5a5a5a…), 0 of 2 FGPU free")
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


async def test_one_far_back_in_line_is_moved(sample: Sample, visit: Open) -> None:
    """The page has the first of the line only: the list has all, and each has its place there."""
    sample.agents()
    await sample.run("alice", "holds", 9, **{**GPU, "preset": "gpu-small"})
    await sample.run("alice", "holds-too", 9, **GPU)
    waiting = [await sample.submit("bob", f"w-{n:03}", 60 - n, **GPU) for n in range(40)]
    sample.place()
    page = await visit("admin", "admin")
    group = page.get_by_role("region", name="gpu-lab")
    await expect(group.locator("tr[id^=w-]")).to_have_count(34)
    await group.get_by_role("link", name="All 40").click()
    names = page.locator(".bk-list .name")
    await expect(names.first).to_have_text("w-000")
    await page.get_by_role("link", name="Next").click()
    await expect(names.first).to_have_text("w-025")
    await expect(page.locator("#bk-live")).to_have_text("Live")
    await page.get_by_role("link", name="w-039", exact=True).click()
    panel = page.get_by_role("dialog", name="w-039")
    why = panel.locator("[aria-live=polite]")
    await expect(why.first).to_contain_text("In line, #40")
    field = panel.get_by_label("Priority of w-039")
    await field.fill("90")
    await field.press("Enter")
    await expect(page.get_by_role("status").filter(has_text="has priority 90")).to_be_attached()
    sample.place()
    await expect(why.first).to_contain_text("In line, #1")
    assert sample.store.get(waiting[-1].id).position == 1
    for who, path in (
        ("bob", f"sessions/{waiting[0].id}"),
        ("watcher", f"sessions/{waiting[0].id}"),
    ):
        page = await visit(path, who)
        await expect(page.get_by_role("heading", level=1)).to_have_text("w-000")
        await expect(page.locator("[data-priority]")).to_have_count(0)


async def test_an_agent_is_found_by_its_name(sample: Sample, visit: Open) -> None:
    sample.store.report_agents(
        [AgentReport(f"a{n:03}", "default", Slots(4000, GIB)) for n in range(70)],
        now=sample.now(),
    )
    page = await visit("admin", "admin")
    await expect(page.get_by_text("and 10 more agents")).to_be_visible()
    await expect(page.get_by_role("rowheader", name="a065")).to_have_count(0)
    await page.get_by_role("searchbox").fill("a06")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("rowheader")).to_have_count(10)
    await expect(page.get_by_text("No agent here has a06 in its name.")).to_be_visible()
    await expect(page.locator("#bk-live")).to_have_text("Live")
    await page.get_by_role("button", name="Drain a065").click()
    await page.get_by_role("dialog").get_by_role("button", name="Drain agent").click()
    await expect(page.get_by_role("button", name="Take sessions again on a065")).to_be_visible()
    await expect(page.get_by_role("rowheader")).to_have_count(10)
    await page.get_by_role("link", name="Clear").click()
    await expect(page.get_by_text("and 10 more agents")).to_be_visible()


async def test_a_line_on_a_phone(sample: Sample, visit: Open) -> None:
    sample.agents()
    for name in ("one", "two", "three"):
        waits = await sample.submit("bob", f"of-{name}", 5, **GPU)
        sample.place()
    page = await visit("admin", "admin", width=390)
    labels = page.locator(f"#w-{waits.id} td[data-label]")
    told = await labels.evaluate_all("cells => cells.map((cell) => cell.dataset.label)")
    assert told == ["Owner", "Asks for", "Waits", "Priority"]
    small = await page.locator("main table :is(.btn, input)").evaluate_all(
        """all => all.filter((one) => one.getBoundingClientRect().height < 40)
          .map((one) => one.outerHTML)"""
    )
    assert small == []
    roles = await page.locator("main table").evaluate_all(
        """tables => tables.map((table) => [table, ...table.querySelectorAll("tbody, tr, th, td")]
          .every((node) => node.getAttribute("role")))"""
    )
    assert roles == [True, True, True]
    await expect(page.get_by_text("Who fits may go before")).to_have_count(2)


async def test_what_has_its_place_is_cancelled_everywhere(sample: Sample, visit: Open) -> None:
    """One word for it, on each page that ends it."""
    sample.agents()
    placed = await sample.submit("alice", "placed")
    sample.place()
    assert sample.store.get(placed.id).status is Status.SCHEDULED
    for path in ("", "admin", "notices", f"sessions/{placed.id}"):
        page = await visit(path, "admin" if path == "admin" else "alice")
        link = page.locator("main").locator(f"[data-end='{placed.id}']").first
        assert await link.get_attribute("data-waits") is not None, path
        told = f"{await link.get_attribute('title')} {await link.inner_text()}"
        assert "Cancel" in told, path
    await page.goto(f"{page.url}/end")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Cancel placed?")


async def test_an_agent_is_drained(sample: Sample, visit: Open) -> None:
    """By keyboard, while another admin looks on."""
    sample.agents()
    await sample.run("alice", "hers", 9, **GPU)
    runs = await sample.run("bob", "theirs", 5, **GPU)
    page, other = await visit("admin", "admin"), await visit("admin", "admin")
    group = page.get_by_role("region", name="gpu-lab")
    agent = group.get_by_role("row").filter(has=page.get_by_role("rowheader", name="gpu-01"))
    for each in (page, other):
        await expect(each.locator("#bk-live")).to_have_text("Live")
    button = page.get_by_role("button", name="Drain gpu-01")
    await button.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Drain gpu-01?")
    await expect(dialog).to_contain_text("2 sessions are there. They go on until they end.")
    await expect(dialog).to_contain_text("No other agent of gpu-lab takes sessions")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    assert sample.store.agents()[1].schedulable, "nothing was said"

    await page.keyboard.press("Enter")  # the focus is where it was
    await expect(dialog.get_by_role("button", name="Leave it")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()
    said = page.get_by_role("status").filter(has_text="gpu-01 takes no sessions from now on.")
    await expect(said).to_be_attached()
    for each in (page, other):
        told = each.locator("[aria-live]").filter(has_text="gpu-01: Draining — 2 sessions left")
        await expect(told).to_be_attached()
    await expect(agent).to_contain_text(re.compile(r"by admin, \d+ s ago"))

    # Whoever wants it waits, and reads why.
    waits = await sample.submit("alice", "waits", **GPU)
    sample.place()
    assert sample.store.get(waits.id).reason_code == "drained"
    await expect(group.locator(f"#w-{waits.id}")).to_contain_text(
        "the admin is draining its machine"
    )
    launcher = await visit("launch", "alice")
    row = launcher.locator('[data-agent="gpu-01"]')
    await expect(row).to_contain_text("takes no sessions now")
    await expect(row).not_to_contain_text("room for this")
    hers = next(s for s in sample.store.live() if s.name == "hers")
    sample.end(hers, "user_requested", "Ended.")
    await expect(agent).to_contain_text("Draining — 1 session left")
    sample.end(runs, "user_requested", "Ended.")
    await expect(agent).to_contain_text("Drained — nothing runs here")

    again = page.get_by_role("button", name="Take sessions again on gpu-01")
    await expect(again).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(
        page.get_by_role("status").filter(has_text="gpu-01 takes sessions again.")
    ).to_be_attached()
    for each in (page, other):
        await expect(each.get_by_role("button", name="Drain gpu-01")).to_be_visible()
        await expect(each.get_by_text("Drained — nothing runs here")).to_have_count(0)
    sample.place()
    assert sample.store.get(waits.id).agent == "gpu-01"


async def test_a_refused_drain_is_told(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("admin", "watcher")
    await expect(page.get_by_role("rowheader", name="gpu-01")).to_be_visible()
    await expect(page.get_by_role("button", name="Drain gpu-01")).to_have_count(0)
    sample.store.set_schedulable("gpu-01", False, by="<b>ada</b>", now=sample.now())
    await expect(page.locator("main")).to_contain_text("by <b>ada</b>,")
    await expect(page.get_by_role("button", name="Take sessions again on")).to_have_count(0)

    page = await visit("admin", "admin")
    await page.get_by_role("button", name="Drain cpu-02").click()
    dialog = page.get_by_role("dialog", name="Drain cpu-02?")
    await expect(dialog).to_contain_text("Nothing runs there now.")
    sample.store.report_agents([], now=sample.now())  # it is configured no more
    await dialog.get_by_role("button", name="Drain agent").click()
    await expect(dialog.get_by_role("alert")).to_have_text("There is no such agent.")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(page.locator("main")).to_contain_text("No agent has been seen.")


async def test_a_drained_agent_on_a_phone(sample: Sample, visit: Open) -> None:
    sample.agents()
    await sample.run("alice", "hers", 9, **GPU)
    sample.store.set_schedulable("gpu-01", False, by="admin", now=sample.now())
    barriers = Barriers()
    page = await visit("admin", "admin", width=390, height=700, policy=False)
    await expect(page.get_by_text("Draining — 1 session left")).to_be_visible()
    again = page.get_by_role("button", name="Take sessions again on gpu-01")
    box = await again.bounding_box()
    assert box
    assert box["height"] >= 40, "large enough for a thumb"
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await barriers.look(page, "an agent that is drained")
    await page.get_by_role("button", name="Drain cpu-02").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await barriers.look(page, "the dialog")
    assert not barriers.found, barriers


@pytest.mark.parametrize(("agents", "sessions"), [(2, 200), (10, 40), (60, 10)])
async def test_a_large_site_at_one_look(
    sample: Sample, visit: Open, agents: int, sessions: int
) -> None:
    """2,000 that wait, and agents that are full."""
    capacity = Slots(sessions * 1000, 4096 * GIB, 2000)
    reports = [AgentReport(f"gpu-{n:02}", "default", capacity) for n in range(agents)]
    sample.store.report_agents(reports, now=sample.now())
    for n in range(agents * sessions // 10):
        await sample.submit_many(f"user-{n:02}", 10)
    sample.place()
    await sample.submit_many("alice", 2000)
    sample.place()
    for n in range(0, agents, 10):
        sample.store.set_schedulable(f"gpu-{n:02}", False, by="admin", now=sample.now())
    page = await visit("admin", "admin")
    await expect(page.get_by_text("In line: 2000")).to_be_visible()
    told = page.get_by_text(f"Draining — {sessions} sessions left")
    await expect(told).to_have_count(len(range(0, agents, 10)))
    # All that is held is told of, with its session or at least with its owner.
    cells = await page.locator(".bk-agents td:last-child").all_inner_texts()
    counts = [
        cell.count(" core, ") + sum(int(n) for n in re.findall(r"(?<![-\d])(\d+) of ", cell))
        for cell in cells
    ]
    assert counts == [sessions] * agents
    await page.wait_for_load_state("load")
    own = await weight(page)
    assert sum(own.values()) < MOST, own


async def test_it_is_for_admins(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("admin", "alice")
    await expect(page.locator("main")).to_contain_text("This page is for admins.")
    page = await visit("", "alice")
    await expect(page.get_by_role("link", name="Agents and line")).to_have_count(0)
    page = await visit("", "admin")
    await page.get_by_role("link", name="Agents and line").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Agents and line")
