"""Somebody at the terminal's page."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect

expect.set_options(timeout=15_000)
PROMPT = "train-1:~"


class Desk:
    """What they do and see there."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def screen(self) -> Locator:
        return self.page.locator(".shell:not([hidden]) .xterm-rows")

    @property
    def tabs(self) -> Locator:
        return self.page.get_by_role("tab")

    async def is_ready(self) -> None:
        await expect(self.screen).to_contain_text(PROMPT)

    async def sees(self, text: str) -> None:
        await expect(self.screen).to_contain_text(text)

    async def run(self, command: str, sees: str) -> None:
        await self.page.keyboard.type(command)
        await self.page.keyboard.press("Enter")
        await self.sees(sees)

    async def place(self, text: str) -> dict[str, float]:
        """Where a line with that text is; its text alone, not the rest of the row."""
        found = await self.page.evaluate(
            """text => {
                const shell = document.querySelector(".shell:not([hidden])");
                const rows = [...shell.querySelectorAll(".xterm-rows > div")];
                const row = rows.findLast((each) => each.textContent.trimEnd() === text);
                const range = document.createRange();
                range.selectNodeContents(row);
                const { x, y, height } = range.getBoundingClientRect();
                return { x, y: y + height / 2 };
            }""",
            text,
        )
        return dict(found)

    async def drag_over(self, text: str, cell: float = 8.43) -> None:
        """Selects a line's text with the mouse."""
        at = await self.place(text)
        mouse = self.page.mouse
        await mouse.move(at["x"] + 1, at["y"])
        await mouse.down()
        await mouse.move(at["x"] + cell * len(text) / 2, at["y"], steps=4)
        await mouse.move(at["x"] + cell * len(text) + 3, at["y"], steps=4)
        await mouse.up()

    async def says(self, text: str) -> None:
        await expect(self.page.get_by_role("status")).to_contain_text(text)

    async def clipboard(self) -> str:
        """What is in it; asked in another tab, since this page may lack the way to."""
        other = await self.page.context.new_page()
        await other.goto(self.page.url.partition("backendai")[0] + "api")
        found = await other.evaluate("navigator.clipboard.readText()")
        await other.close()
        return str(found)
