"""How the options form looks and what it can stand: phones, themes, hostile text, small sites."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect
from ui_harness import environment, options_form, page_context, person
from ui_payload import GIB, SPEC, error, view
from ui_steps import card, visit

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [390, 320])
async def test_no_sideways_scroll_on_a_phone(tab: Any, site: Any, width: int) -> None:
    page = await visit(await tab(width, 700), site)
    await fill_all_on_phone(page)
    for step in range(1, 6):
        await page.click(f'.bk-rail a[href="#step-{step}"]')
        assert await page.evaluate("document.documentElement.scrollWidth") == width


async def fill_all_on_phone(page: Page) -> None:
    await page.click("#bk-next")
    await page.click("label:has(input[value=gpu-lab])")
    await page.fill("#bk-fgpu", "2")
    await page.click("#bk-env-add")
    await page.click("#bk-next")
    await page.check("input[value=homework]")


# For each element: what it is, and how much its text stands out from what is behind it (WCAG 2).
CONTRAST = """(selectors) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const css = (color) => `rgb(${color.join(",")})`;
  const over = (color, below) => {
    for (const paint of [below, color]) {
      canvas.fillStyle = paint;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (node) => node
    ? over(getComputedStyle(node).backgroundColor, css(ground(node.parentElement)))
    : [255, 255, 255];
  const judge = (node) => {
    const below = ground(node);
    const text = light(over(getComputedStyle(node).color, css(below)));
    const [low, high] = [text, light(below)].sort((a, b) => a - b);
    const what = `${node.className}: ${node.textContent.trim().slice(0, 30)}`;
    return [what, (high + 0.05) / (low + 0.05)];
  };
  return [...document.querySelectorAll(selectors)].filter((n) => n.checkVisibility()).map(judge);
}"""
TEXTS = (
    ".bk-quiet, .bk-ok, .bk-warn, .bk-bad, .line, .form-text, .bk-tag, legend, .invalid-feedback, "
    ".bk-rail a, .bk-rail small, #bk-errors a, .bk-figs span"
)


@pytest.mark.parametrize("dark", [False, True])
async def test_text_stands_out_in_both_themes(tab: Any, site: Any, dark: bool) -> None:
    site.view["errors"] = [
        error("resources.mem", "Never fits."),
        error("preopen_ports.0", "Port 80."),
    ]
    page = await visit(await tab(dark=dark), site)
    assert await page.get_attribute("html", "data-bs-theme") == ("dark" if dark else "light")
    weak: list[Any] = []
    for step in range(1, 6):
        await page.click(f'.bk-rail a[href="#step-{step}"]')
        found = await page.evaluate(CONTRAST, TEXTS)
        assert found
        weak += [pair for pair in found if pair[1] < 4.5]
    assert weak == []


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
