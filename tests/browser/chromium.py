"""The browser of all these tests, and axe-core in it."""

from __future__ import annotations

import os
import re
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from PIL import Image
from playwright.async_api import Page

PROGRAM: dict[str, Any] = {
    "executable_path": os.environ.get("CHROMIUM") or shutil.which("chromium"),
    "args": ["--no-sandbox", "--disable-background-networking"],
}
WIDTHS = (1280, 390)
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
RULES = {"dark": ["color-contrast"], "light": WCAG}  # in the dark what changes with the theme
_RUN = "rules => axe.run({ runOnly: rules, resultTypes: ['violations'] })"
_OVER = "dialog[open], .offcanvas.show"  # what lies over a page, and does not scroll with it


class Barriers:
    """What axe-core, which knows the WCAG, finds on pages: wide and on a phone, in both themes.

    With SCREENSHOTS set to a folder, how each looks is kept there.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    async def look(self, page: Page, where: str) -> None:
        """Looks at a page as it is now. It puts styles in, which a strict policy does not let."""
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(AXE_SCRIPT)
        before = page.viewport_size
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            wide = await page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                self.found[f"{where} at {width}"] = f"it is {wide} pixels wide"
            for theme, rules in RULES.items():
                await page.evaluate("to => document.documentElement.dataset.bsTheme = to", theme)
                response = await page.evaluate(_RUN, rules)
                assert response["passes"], where
                result = AxeResults(response)
                if result.violations_count:
                    self.found[f"{where} at {width}, {theme}"] = result.generate_report()
                await take(page, where, width, theme)
        if before:
            await page.set_viewport_size(before)

    def __str__(self) -> str:
        return "\n\n".join(f"{where}: {report}" for where, report in self.found.items())


async def take(page: Page, where: str, width: int, theme: str) -> None:
    """A picture of all of a page, with what keeps to the window's foot at the foot of it."""
    if "SCREENSHOTS" not in os.environ:
        return
    await page.evaluate("document.fonts.ready")
    over = await page.locator(_OVER).count()
    tall = 900 if over else await page.evaluate("document.documentElement.scrollHeight")
    await page.set_viewport_size({"width": width, "height": tall})
    phone, dark = "-phone" if width < 600 else "", "-dark" if theme == "dark" else ""
    name = "-".join(re.findall("[a-z0-9]+", where.lower()))
    keep(await page.screenshot(animations="disabled"), f"{name}{phone}{dark}")
    await page.set_viewport_size({"width": width, "height": 900})


def keep(picture: bytes, name: str) -> None:
    """Keeps a picture for the docs, where SCREENSHOTS says in which folder: in 256 colours, which
    is what a page has, and a third of the bytes."""
    if folder := os.environ.get("SCREENSHOTS"):
        few = Image.open(BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(Path(folder, f"{name}.png"), optimize=True)
