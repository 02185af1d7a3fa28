"""The options form in a real browser: steps, numbers, errors, links, drafts, no JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect
from ui_payload import SPEC, error, view
from ui_steps import card, fill_all, focused, launch_anyway, verdict, visit

from jupyterhub_backendai.model import rules

pytestmark = pytest.mark.browser

SMALL = {
    "ticket": ["the-ticket"], "type": ["interactive"], "name": [""], "project": [""],
    "environment": ["python"], "version.python": ["3.13"], "preset": ["small"],
    "resource_group": ["default"],
    "agent": ["auto"], "omp": [""], "openblas": [""], "new_folder": [""], "ports": [""],
}  # fmt: skip


# --- the five steps


async def test_five_steps_by_keyboard(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    press = page.keyboard.press
    await page.focus("#bk-name")
    await page.keyboard.type("lab4")
    await press("Enter")  # not the quick start, which comes first in the page
    assert site.posts == []
    await expect(page.locator("#step-2")).to_be_focused()
    await press("Tab")
    await press("ArrowRight")  # from Python to PyTorch
    await expect(page.locator("input[value=pytorch]")).to_be_checked()
    await expect(page.locator("input[value=medium]")).to_be_checked()  # small is too small for it
    await page.focus("[data-slider=cpu]")
    await press("ArrowRight")
    await expect(page.locator("#bk-cpu")).to_have_value("5")
    await page.focus("#bk-next")
    await press("Enter")
    await expect(page.locator("#step-3")).to_be_focused()
    await page.focus("#bk-new")
    await page.keyboard.type("exp1")
    await press("Enter")
    await expect(page.locator("tr[data-folder=exp1] input[type=checkbox]")).to_be_checked()
    await page.focus("#bk-next")
    await press("Enter")
    await page.focus("#bk-ports")
    await page.keyboard.type("8080 9000:9001")
    await press("Enter")
    await expect(card(page, "Session type")).to_contain_text("lab4")
    await expect(card(page, "Environment")).to_contain_text("lab/pytorch:2.9-py313-cuda13")
    await expect(card(page, "Resources")).to_contain_text("Custom, changed from medium")
    await expect(card(page, "Data and storage")).to_contain_text("/home/work/exp1")
    await expect(card(page, "Network")).to_contain_text("9000:9001")
    await page.focus("#bk-launch")
    await press("Enter")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert site.posts == [
        {k: v for k, v in SMALL.items() if k not in {"version.python"}}
        | {
            "name": ["lab4"], "environment": ["pytorch"], "version.pytorch": ["2.9"],
            "preset": ["medium"], "cpu": ["5"], "new_folder": ["", "exp1"],
            "mount_path.exp1": [""], "ports": ["8080 9000:9001"],
        }
    ]  # fmt: skip


async def test_a_preset_stays_a_preset(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await page.click("#bk-skip")
    await expect(verdict(page)).to_have_text("Starts now")
    await launch_anyway(page)
    assert site.posts == [SMALL]


async def test_rail_back_and_forward(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await page.click("#bk-next")
    await page.click(".bk-rail >> text=Network")
    await expect(page.locator("#step-4")).to_be_visible()
    await page.go_back()
    await expect(page.locator("#step-2")).to_be_visible()
    await page.go_forward()
    await expect(page.locator("#step-4")).to_be_visible()
    await expect(page.locator(".bk-rail [aria-current=step]")).to_have_text("Network")
    await page.click("#bk-previous")
    await expect(page.locator("#step-3")).to_be_visible()


async def test_quick_start_is_one_click(tab: Any, site: Any) -> None:
    site.view = view(
        last={"spec": SPEC | {"mounts": [{"folder": "homework"}]}, "summary": "Python"}
    )
    page = await visit(await tab(), site)
    await page.click("button[value=last]")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert site.posts[0]["quick"] == ["last"]


@pytest.mark.parametrize("quick", ["last", "default"])
async def test_quick_start_with_a_new_folder_starts_the_same(
    tab: Any, site: Any, quick: str
) -> None:
    site.view = view(last={"spec": SPEC, "summary": "PyTorch"}, spec={"env": {"A": "1"}})
    page = await visit(await tab(), site)
    await page.click(f"button[value={quick}]")
    await page.fill("#bk-nofolder-name", "keep")
    await page.click("[data-answer=create]")
    await expect(page.locator("h1")).to_have_text("Launched")
    (posted,) = site.posts
    # the server makes of it what either button says: no field of the form is part of it
    assert (posted["quick"], posted["quick_folder"]) == ([quick], ["keep"])
    await page.go_back()
    await page.wait_for_selector("#backendai[data-ready]")
    await page.click(f"button[value={quick}]")
    await page.click("[data-answer=anyway]")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert site.posts[1]["quick"] == [quick]
    assert "quick_folder" not in site.posts[1]


# --- errors


ERRORS = [
    error("name", "You already have a session named lab4.", "in_use"),
    error("env.1", "JUPYTERHUB_X is set by the system. Choose another name.", "reserved"),
    error("resources.cpu", "Python needs at least 1 CPU core.", "too_little"),
    error("mounts.1.path", "A path cannot contain . or .. as a step.", "bad_path"),
    error("preopen_ports.1", "Port 9 cannot be opened."),
]


async def test_errors_of_the_server(tab: Any, site: Any) -> None:
    site.view = view(errors=[])
    page = await visit(await tab(), site)
    await fill_all(page, js=True)
    await page.click("#bk-skip")
    site.view["errors"] = ERRORS
    await page.click("#bk-launch")
    await page.wait_for_selector("#backendai[data-ready][data-errors='5']")
    assert await focused(page) == "bk-name"
    described = await page.get_attribute("#bk-name", "aria-describedby")
    assert "bk-name-error" in str(described)
    await expect(page.locator("#bk-name-error")).to_have_text(
        "You already have a session named lab4."
    )
    await expect(page.locator("#bk-errors li")).to_have_count(5)
    await expect(page.locator(".bk-rail li.bad")).to_have_count(4)
    await page.click("#bk-skip")
    for title, text in [
        ("Session type", "already have"), ("Environment", "set by the system"),
        ("Resources", "at least 1 CPU core"), ("Data and storage", "as a step"),
        ("Network", "Port 9"),
    ]:  # fmt: skip
        await expect(card(page, title)).to_contain_text(text)
        await expect(page.locator(".bk-rev.wrong", has_text=title)).to_be_visible()
    await expect(page.locator("#bk-launch")).to_be_disabled()
    # what was typed is there, the secret too
    await expect(page.locator("[name=env_value]").nth(1)).to_have_value("secret")
    await expect(page.locator("#bk-cpu")).to_have_value("1.5")
    await expect(page.locator("tr.new input[type=checkbox]")).to_be_checked()
    for text, value in [
        ("named lab4", "lab5"),
        ("JUPYTERHUB_X", "B"),
        ("CPU core", "2"),
        ("step", "x"),
        ("Port 9", "8081"),
    ]:
        await page.locator("#bk-errors a", has_text=text).click()
        await page.keyboard.press("Control+A")
        await page.keyboard.type(value)
        await expect(page.locator("#bk-errors a", has_text=text)).to_have_count(0)
    site.view["errors"] = []
    await page.click("#bk-skip")
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Launched")
    posted = site.posts[-1]
    assert (posted["name"], posted["env_name"], posted["env_value"]) == (
        ["lab5"],
        ["A", "B"],
        ["1", "secret"],
    )
    assert (posted["mount_path.exp1"], posted["ports"]) == (["x"], ["8081"])


async def test_what_concerns_no_field_does_not_hold_launch_back(tab: Any, site: Any) -> None:
    site.view = view(
        errors=[error("", "The database did not answer.")], draft={"preset": ["small"]}
    )
    page = await visit(await tab(), site)
    await expect(page.locator("#bk-errors")).to_be_focused()
    await expect(page.locator("#bk-launch")).to_be_enabled()


NAMES = ["abc", "abcd", "a.-b", "-abc", "abc-", "a b c", "añbc", "_a_1", "a" * 64, "[a](b)", "a/bc"]


async def test_constraints_are_told_at_the_field(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await page.fill("#bk-name", "a b")
    await expect(page.locator("#bk-name-error")).to_be_empty()  # not while typing
    await page.press("#bk-name", "Tab")
    await expect(page.locator("#bk-name-error")).to_contain_text("4 to 64 letters")
    judged = await page.evaluate(
        """(names) => names.map((name) => {
      document.querySelector("#bk-name").value = name;
      return document.querySelector("#bk-name").checkValidity();
    })""",
        NAMES,
    )
    assert judged == [rules.SESSION_NAME.matches(name) for name in NAMES]  # one rule, read alike
    assert len(set(judged)) == 2
    await page.fill("#bk-name", "lab4")
    await page.click(".bk-rail >> text=Network")
    await page.fill("#bk-ports", "8080, 80, 8888, x, 9000:9002")
    await page.press("#bk-ports", "Tab")
    await expect(page.locator("#bk-port-tags .bad")).to_have_text(["80", "8888", "x"])
    await expect(page.locator("#bk-ports-error")).to_contain_text(
        "Use a number from 1024 to 65535."
    )
    await page.click("[aria-label='Remove 80']")
    await expect(page.locator("#bk-ports")).to_have_value("8080, 8888, x, 9000:9002")
    await expect(page.locator("#bk-ports-error")).to_have_text("Port 8888 is used by Jupyter.")


# --- nothing typed is lost


async def test_state_is_in_the_address_without_secrets(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await fill_all(page, js=True)
    assert "step=4" in page.url
    assert "env_name=JUPYTERHUB_X" in page.url
    assert "secret" not in page.url
    await page.reload()
    await page.wait_for_selector("#backendai[data-ready]")
    await expect(page.locator("#step-4")).to_be_visible()
    await expect(page.locator("#bk-ports")).to_have_value("8080, 9090")
    await expect(page.locator("[name=env_value]").nth(1)).to_have_value("secret")
    await expect(page.locator('[name="mount_path.homework"]')).to_have_value("hw")
    await expect(page.locator("tr[data-folder=exp1]")).to_have_class("new on")


async def test_secrets_leave_the_storage_with_the_post(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await fill_all(page, js=True)
    assert "secret" in await page.evaluate("JSON.stringify(sessionStorage)")
    await page.click("#bk-skip")
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert "secret" not in await page.evaluate("JSON.stringify(sessionStorage)")
    await page.go_back()
    await page.wait_for_selector("#backendai[data-ready]")
    await expect(page.locator("#bk-name")).to_have_value("lab4")


async def test_a_link_is_a_proposal(tab: Any, site: Any) -> None:
    link = (
        "#environment=pytorch&version.pytorch=2.8&preset=medium&env_name=A&type=interactive"
        "&mount=homework&mount=gone&project=other&image=evil/x:1&new_folder=planted&agent=cpu-01"
    )
    site.view = view(manual_image=True)
    page = await visit(await tab(), site, link)
    await expect(page.locator("#step-5")).to_be_visible()
    await expect(page.locator("#bk-note")).to_contain_text(
        "Nothing starts before you press Launch."
    )
    await expect(page.locator("#bk-note")).to_contain_text(
        "left out: env name A, image evil/x:1, new folder planted, agent cpu-01."
    )
    await expect(page.locator("#bk-note")).to_contain_text("other, gone")
    await expect(card(page, "Environment")).to_contain_text("PyTorch 2.8")
    assert site.posts == []
    await page.evaluate("location.hash = 'image=evil/y:1&env_name=B&mount=results'")  # while here
    await expect(card(page, "Data and storage")).to_contain_text("results")
    await expect(page.locator("#bk-note")).to_contain_text("left out: image evil/y:1, env name B.")
    await page.reload()
    await page.wait_for_selector("#backendai[data-ready]")
    await page.click("#bk-skip") if await page.is_visible("#bk-skip") else None
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Launched")
    (posted,) = site.posts
    assert (posted["image"], posted["new_folder"], posted["mount"]) == ([""], [""], ["results"])
    assert "env_name" not in posted


async def test_copied_link_opens_the_same_form(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await fill_all(page, js=True)
    await page.click("#bk-copy")
    await expect(page.locator("#bk-copy")).to_have_text("Copied")
    link = await page.evaluate("navigator.clipboard.readText()")
    assert "secret" not in link
    other = await tab()
    await other.goto(link)
    await other.wait_for_selector("#backendai[data-ready]")
    await expect(card(other, "Data and storage")).to_contain_text("/home/work/hw")
    await expect(card(other, "Network")).to_contain_text("9090")


async def test_a_form_that_came_back_can_be_started_over(tab: Any, site: Any) -> None:
    """The server keeps what was typed for a while; Reset is a way out all the same."""
    site.view = view(
        draft={"name": ["lab4"], "environment": ["pytorch"], "preset": ["large"], "mem": ["20"]},
        errors=[error("name", "You already have a session named lab4.", "in_use")],
    )
    page = await visit(await tab(), site)
    await page.fill("#bk-name", "lab5")
    await page.reload()
    await page.wait_for_selector("#backendai[data-ready]")
    await expect(page.locator("#bk-name")).to_have_value("lab5")  # newer than what the server has
    await expect(page.locator("#bk-errors")).to_be_hidden()
    await page.click("#bk-reset")
    await expect(page.locator("#bk-name")).to_have_value("")
    await page.click("#bk-skip")
    await expect(card(page, "Environment")).to_contain_text("Python 3.13")
    await expect(card(page, "Resources")).to_contain_text("Preset small")


async def test_reset_can_be_undone(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await fill_all(page, js=True)
    await page.click("#bk-reset")
    await expect(page.locator("#bk-ports")).to_have_value("")
    await expect(page.locator("#bk-cpu")).to_have_value("2")
    await page.click("#bk-reset")
    await expect(page.locator("#bk-ports")).to_have_value("8080, 9090")
    await expect(page.locator("[name=env_value]").nth(1)).to_have_value("secret")


# --- folders


async def test_no_folder_is_asked_about_once(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site)
    await page.click("#bk-skip")
    await page.click("#bk-launch")
    dialog = page.locator("#bk-nofolder")
    await expect(dialog).to_contain_text("Everything you save in this session goes when it ends")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.click("#bk-launch")
    await page.fill("#bk-nofolder-name", "a b")
    await page.click("[data-answer=create]")
    await expect(page.locator("#bk-nofolder-name-error")).to_contain_text("up to 64 letters")
    await page.check("#bk-nofolder-never")
    await page.click("[data-answer=anyway]")
    await expect(page.locator("h1")).to_have_text("Launched")
    await visit(page, site)
    await page.click("#bk-skip")
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert len(site.posts) == 2


async def test_folders_are_found_by_name(tab: Any, site: Any) -> None:
    page = await visit(await tab(), site, "#step=3")
    await page.fill("#bk-search", "LECT")
    await expect(page.locator("#bk-folder-rows tr:visible")).to_have_count(1)
    await page.check("input[value='cs101/lectures']")
    await page.click("#bk-skip")
    await expect(card(page, "Data and storage")).to_contain_text("read only")
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Launched")
    assert site.posts[0]["mount"] == ["cs101/lectures"]
    assert site.posts[0]["mount_permission.cs101/lectures"] == ["ro"]


# --- without JavaScript


async def test_one_long_form_without_javascript(tab: Any, site: Any) -> None:
    page = await tab(js=False)
    await page.goto(f"{site.url}/hub/spawn")
    for step in range(1, 6):
        await expect(page.locator(f"#step-{step}")).to_be_visible()
    await expect(page.locator("#noscript")).to_be_hidden()
    await expect(page.locator("#bk-next")).to_be_hidden()
    await fill_all(page, js=False)
    site.view["errors"] = ERRORS
    await page.click("#bk-launch")
    await expect(page.locator("#bk-errors li")).to_have_count(5)
    await expect(page.locator("#bk-name")).to_have_value("lab4")
    await expect(page.locator("#bk-name-error")).to_have_text(
        "You already have a session named lab4."
    )
    await expect(page.locator("tr.new [data-mount-error]")).to_contain_text("as a step")
    await expect(page.locator("[name=env_name]").nth(1)).to_have_class(
        "form-control form-control-sm font-monospace is-invalid"
    )
    await page.fill("#bk-name", "lab5")
    site.view["errors"] = []
    await page.press("#bk-name", "Enter")
    await expect(page.locator("h1")).to_have_text("Launched")
    first, second = site.posts
    assert second["name"] == ["lab5"]
    for key in ["env_name", "env_value"]:
        assert [v for v in second[key] if v] == [v for v in first[key] if v]
    assert (second["mount"], second["new_folder"]) == (["homework"], ["", "exp1"])
    assert (second["cpu"], second["mem"], second["ports"]) == (["1.5"], [""], ["8080, 9090"])
    assert "quick" not in second


async def test_quick_start_without_javascript(tab: Any, site: Any) -> None:
    page = await tab(js=False)
    await page.goto(f"{site.url}/hub/spawn")
    await page.click("button[value=default]")
    assert site.posts[0]["quick"] == ["default"]
