"""The browser of all these tests, and axe-core in it."""

from __future__ import annotations

import os
import shutil
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.async_api import Page

PROGRAM: dict[str, Any] = {
    "executable_path": os.environ.get("CHROMIUM") or shutil.which("chromium"),
    "args": ["--no-sandbox", "--disable-background-networking"],
}
# The whole of it, and again in the dark what changes with the theme.
_RUN = """async () => {
  const theme = document.documentElement.dataset, found = [];
  for (const [name, rules] of [["dark", ["color-contrast"]], ["light", WCAG]]) {
    theme.bsTheme = name;
    found.push([name, await axe.run({ runOnly: rules, resultTypes: ["violations"] })]);
  }
  return found;
}""".replace("WCAG", '["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]')


class Barriers:
    """What axe-core, which knows the WCAG, finds on pages in both themes."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    async def look(self, page: Page, where: str) -> None:
        """Looks at a page as it is now. It puts styles in, which a strict policy does not let."""
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(AXE_SCRIPT)
        for theme, response in await page.evaluate(_RUN):
            assert response["passes"], where
            result = AxeResults(response)
            if result.violations_count:
                self.found[f"{where}, {theme}"] = result.generate_report()

    def __str__(self) -> str:
        return "\n\n".join(f"{where}: {report}" for where, report in self.found.items())
