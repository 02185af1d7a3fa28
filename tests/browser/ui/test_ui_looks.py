"""How the options form looks and what it can stand: phones, themes, hostile text, small sites."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import Markup, escape
from playwright.async_api import Page, expect
from ui_harness import environment, options_form, page_context, person
from ui_payload import GIB, SPEC, error, view
from ui_steps import card, visit

pytestmark = pytest.mark.browser


async def test_no_sideways_scroll_on_a_phone(tab: Any, site: Any) -> None:
    page = await visit(await tab(390, 700), site)
    await fill_all_on_phone(page)
    for step in range(1, 6):
        await page.click(f'.bk-rail a[href="#step-{step}"]')
        for width in (390, 320):
            await page.set_viewport_size({"width": width, "height": 700})
            assert await page.evaluate("document.documentElement.scrollWidth") == width


async def fill_all_on_phone(page: Page) -> None:
    await page.click("#bk-next")
    await page.click("label:has(input[value=gpu-lab])")
    await page.fill("#bk-fgpu", "2")
    await page.click("#bk-env-add")
    await page.click("#bk-next")
    await page.check("input[value=homework]")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_theme_is_the_readers(tab: Any, site: Any, dark: bool) -> None:
    page = await visit(await tab(dark=dark), site)
    assert await page.get_attribute("html", "data-bs-theme") == ("dark" if dark else "light")
    ground = await page.evaluate(
        "getComputedStyle(document.querySelector('.bk-panel')).backgroundColor"
    )
    assert (ground == "rgb(255, 255, 255)") is not dark


async def test_what_users_write_is_never_markup(tab: Any, site: Any) -> None:
    evil = "<img src=x onerror=window.hit=1></script><script>window.hit=1</script>"
    site.view["folders"].append(
        {"name": "evil" + evil, "permission": "rw", "project": evil, "auto": False}
    )
    site.view["environments"][0] |= {"title": evil, "description": evil}
    site.view["resource_groups"][0] |= {"title": evil}
    site.view["spec"] |= {"env": {evil: evil}, "name": evil}
    site.view["errors"] = [error("env." + evil, evil), error("mounts.0.path", evil)]
    site.view["default"]["summary"] = site.for_user = site.message = evil
    page = await visit(await tab(), site)
    for step in range(1, 6):
        await page.click(f'.bk-rail a[href="#step-{step}"]')
    await expect(card(page, "Environment")).to_contain_text("<img src=x")
    assert await page.evaluate("window.hit") is None


async def test_spawn_page_says_for_whom(tab: Any, site: Any) -> None:
    site.viewer, site.message = "admin", "The Hub is full."
    page = await visit(await tab(), site)
    await expect(page.locator("h1")).to_have_text("Start a session for mkim")
    await expect(page.locator(".spawn-error-msg")).to_have_text("The Hub is full.")
    assert await page.locator("form button:text-is('Start')").count() == 0


async def test_a_form_that_is_not_ours_has_the_stock_page() -> None:
    template = environment(enable_async=True).get_template("spawn.html")
    html = await template.render_async(
        page_context(
            for_user=person("mkim"), spawner_options_form="<input name=other>", url="/hub/spawn"
        )
    )
    assert "Server Options" in html
    assert 'class="btn btn-jupyter form-control">Start' in html


@pytest.mark.parametrize("active", [False, True], ids=["ended", "running"])
async def test_home_says_session(active: bool) -> None:
    """In the Hub's own markup, whose ids and classes its script needs; names of users stay."""
    evil = "<h2>Named Servers</h2> My Server"
    named = SimpleNamespace(name="lab", display_name=evil, ready=active, active=active)
    user = person(
        "mkim", all_spawners=lambda **_: [named], server_url=lambda name: f"/user/mkim/{name}"
    )
    context = page_context(
        user=user, url="/hub/spawn", default_server=named, allow_named_servers=True,
        named_server_limit_per_user=0, invalid_server_names=[],
    )  # fmt: skip
    ours, theirs = [
        await environment(enable_async=True, stock=stock)
        .get_template("home.html")
        .render_async(context)
        for stock in (False, True)
    ]
    assert str(escape(evil)) in ours
    text = Markup(ours[ours.index("<h1") :].replace(str(escape(evil)), "")).striptags()
    assert "erver" not in text.partition("require(")[0]
    assert "my session" in text
    for kept in re.findall(r'(?:id|class|href)="[^"]*"', theirs):
        assert kept in ours


def test_one_group_no_presets_no_folders() -> None:
    """The smallest site renders, with numbers alone."""
    small = view(folders=[], folders_enabled=False, environments=[], default=None)
    small["resource_groups"] = [small["resource_groups"][0] | {"presets": [], "agents": []}]
    html = options_form(small)
    assert '<input type="hidden" name="preset" value="">' in html
    assert '<input type="hidden" name="resource_group" value="default">' in html


@pytest.mark.parametrize(
    ("written", "shown"),
    [("4g", "4"), ("512m", "0.5"), ("2.5 GiB", "2.5"), (3 * GIB, "3"), ("much", ""), (None, "")],
)
def test_sizes_as_people_write_them(written: Any, shown: str) -> None:
    html = options_form(view(spec={"resources": {"mem": written}}))
    assert f'step="any" value="{shown}" aria-describedby="bk-mem-error' in html


JUNK: list[Any] = [
    5, 1.5, True, "x", [], {}, [1, "a", {"name": 1}], {"a": {}}, {"folder": 3},
    [{"folder": 5}, {"folder": "q", "path": 7, "permission": []}, {}],
]  # fmt: skip


@pytest.mark.parametrize(
    "key", [k for k in SPEC if k not in {"count", "cluster", "batch", "owner"}]
)
def test_options_of_any_shape_have_a_form(key: str) -> None:
    """Options come through doors that check nothing, and the form of a server shows them."""
    for value in JUNK:
        assert 'id="bk-launch"' in options_form(view(spec={key: value}))
