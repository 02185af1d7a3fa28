"""The list of sessions."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.service.calls import events as events_call

from .conftest import Open
from .sample import Sample


async def test_each_session_says_what_it_is_and_why(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    await sample.run("bob", "theirs", 5)
    page = await visit("")
    rows = page.locator(".bk-list tbody tr")
    await expect(rows).to_have_count(5)
    waiting = rows.filter(has_text="lab4-attention")
    await expect(waiting).to_contain_text("#1 in line")
    await expect(waiting).to_contain_text("Waiting for 1 FGPU")
    runs = rows.filter(has_text="thesis-finetune")
    await expect(runs).to_contain_text(re.compile("18 min left|19 min left"))
    await expect(page.get_by_text("26 of 32 cores left")).to_be_visible()
    await page.get_by_role("link", name="Finished").click()
    await expect(rows).to_have_count(3)
    await expect(rows.filter(has_text="nightly")).to_contain_text("exit code 3")
    await expect(rows.filter(has_text="tf-compare")).to_contain_text("Your folders are untouched")
    # Whoever ended last comes first, and is started again from here.
    names = await rows.locator(".name").all_inner_texts()
    assert names == ["prepare", "nightly", "tf-compare"]
    await page.get_by_role("link", name="Ended").click()
    await expect(rows.locator(".name").first).to_have_text("tf-compare")
    await page.get_by_role("link", name="Start nightly again").click()
    await expect(page.locator("#bk-review")).to_contain_text("make all")


async def test_it_is_live(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("")
    await expect(page.get_by_text("You have no session now.")).to_be_visible()
    await expect(page.locator("#bk-live")).to_have_text("Live")
    session = await sample.submit("alice", "comes")
    row = page.locator(".bk-list tbody tr")
    await expect(row).to_contain_text("Pending")
    sample.place()
    await expect(row).to_contain_text("Scheduled")
    sample.advance(session, Status.PREPARING, Status.CREATING, Status.RUNNING)
    await expect(row.get_by_role("link", name="Open comes")).to_have_attribute(
        "href", re.compile("^/user/alice/comes-[a-z0-9]+/$|^/user/alice/.+/$")
    )
    sample.end(session, "user_requested", "You ended it.")
    await expect(page.get_by_text("You have no session now.")).to_be_visible()


async def test_it_looks_by_itself_where_no_events_come(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("")
    await page.route("**/api/events*", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("#bk-live")).to_have_text("Not connected, trying again")
    await sample.submit("alice", "comes")
    await expect(page.locator(".bk-list tbody tr")).to_contain_text("comes")
    await expect(page.locator("#bk-live")).to_have_text("Looks every few seconds")


async def test_filter_and_sort_are_in_the_address(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    page = await visit("")
    await page.get_by_label("Type").select_option("batch")
    await page.get_by_role("button", name="Filter").click()
    rows = page.locator(".bk-list tbody tr")
    await expect(rows).to_have_count(1)
    assert "type=batch" in page.url
    page = await visit("?name=LAB&sort=name")
    await expect(rows_of(page)).to_have_count(3)
    await expect(rows_of(page).first).to_contain_text("cpp-labs")
    assert await page.get_by_role("searchbox").input_value() == "LAB"
    page = await visit("?name=nothing-has-it")
    await expect(page.get_by_text("No session matches.")).to_be_visible()


def rows_of(page: object) -> object:
    return page.locator(".bk-list tbody tr")  # type: ignore[attr-defined]


async def test_pages_of_the_list(sample: Sample, visit: Open) -> None:
    for number in range(60):
        await sample.submit("alice", f"job-{number}", 100 - number)
    page = await visit("")
    await expect(page.get_by_text("1 to 25 of 60")).to_be_visible()
    await page.get_by_role("link", name="Next").click()
    await page.get_by_role("link", name="Next").click()
    await expect(page.get_by_text("51 to 60 of 60")).to_be_visible()
    await expect(page.get_by_role("link", name="Next")).to_have_count(0)


async def test_several_are_ended_at_once(sample: Sample, visit: Open) -> None:
    made = [await sample.submit("alice", f"job-{number}") for number in range(3)]
    page = await visit("")
    for number in (0, 2):
        await page.get_by_label(f"Select job-{number}").check()
    await sample.submit("alice", "another")
    await expect(page.locator(".bk-list tbody tr")).to_have_count(4)  # and the ticks stay
    bar = page.get_by_role("region", name="Selected sessions")
    await expect(bar).to_contain_text("2 selected")
    await bar.get_by_role("button", name="Terminate").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("They lose their place in line")
    await dialog.get_by_role("button", name="Cancel 2 sessions").click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator(".bk-list tbody tr")).to_have_count(2)
    statuses = [sample.store.get(session.id).status for session in made]
    assert statuses == [Status.CANCELLED, Status.PENDING, Status.CANCELLED]


async def test_everybodys_is_for_admins(sample: Sample, visit: Open) -> None:
    await sample.submit("alice", "hers")
    await sample.submit("bob", "theirs")
    page = await visit("?owner=*", "admin")
    await expect(rows_of(page)).to_have_count(2)
    await expect(rows_of(page).filter(has_text="hers")).to_contain_text("alice")
    page = await visit("?owner=bob", "alice")
    await expect(page.locator("main")).to_contain_text("You can see your own sessions only.")
    assert "theirs" not in await page.content()


async def test_without_script_the_links_lead_on(sample: Sample, visit: Open) -> None:
    session = await sample.submit("alice", "plain")
    page = await visit("", js=False)
    await page.get_by_role("link", name="Cancel plain").click()
    await expect(page.get_by_role("heading", name="Cancel plain?")).to_be_visible()
    await page.get_by_role("button", name="Cancel session").click()
    await expect(page.get_by_text("You ended it.")).to_be_visible()
    await expect(page.get_by_role("link", name="Start again")).to_be_visible()
    assert sample.store.get(session.id).status is Status.CANCELLED


async def test_a_name_is_never_markup(sample: Sample, visit: Open) -> None:
    session = await sample.submit("alice", "plain")

    with sample.store._write() as db:
        db.exec_driver_sql(
            "update sessions set name = ?, reason = ? where id = ?",
            ("<img src=x onerror=alert(1)>", "<script>alert(1)</script>", session.id),
        )
    page = await visit("")
    await expect(page.locator(".bk-list .name")).to_have_text("<img src=x onerror=alert(1)>")
    assert await page.locator(".bk-list img, .bk-list script").count() == 0


async def test_what_was_launched_elsewhere_can_be_launched_again(
    sample: Sample, visit: Open
) -> None:
    page = await visit("")
    await expect(page.locator("#bk-live")).to_have_text("Live")
    again = page.get_by_role("link", name="Start again:")
    await expect(again).to_have_count(0)
    for name in ("first", "second"):
        asked = {"json": {"name": name}}
        reply = await sample.running.call("POST", "api/sessions", "alice", **asked)
        assert reply.status == 201
        await expect(again).to_have_text(f"Start again: {name}")
    # The menu stays open while it changes, and where it is.
    await page.get_by_role("button", name="Recent and pinned launches").click()
    menu = page.locator(".bk-again .dropdown-menu")
    before = await menu.bounding_box()
    await sample.running.call("POST", "api/sessions", "alice", json={"name": "third"})
    await expect(menu.get_by_role("link", name="third")).to_be_visible()
    after = await menu.bounding_box()
    assert before
    assert after
    assert abs(after["y"] - before["y"]) < 1


async def test_events_that_end_as_they_do_now_and_then_are_no_news(
    visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_call, "LIFETIME", 0.5)
    page = await visit("")
    await expect(page.locator("#bk-live")).to_have_text("Live")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "api/events" in r.url else None)
    await page.evaluate(
        """() => {
          window.said = [];
          const live = document.getElementById("bk-live");
          const note = () => said.push(live.textContent);
          new MutationObserver(note).observe(live, { childList: true });
        }"""
    )
    for _ in range(3):
        async with page.expect_request("**/api/events*"):
            pass
    assert len(asked) >= 3
    assert await page.evaluate("said") == []
    # Where nothing answers, that is told.
    await page.context.set_offline(True)
    await expect(page.locator("#bk-live")).to_have_text("Not connected, trying again")
    await page.context.set_offline(False)
    await expect(page.locator("#bk-live")).to_have_text("Live")
