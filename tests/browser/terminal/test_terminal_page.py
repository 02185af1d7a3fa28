"""The terminal's page in a browser, with tmux and without."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.singleuser.jupyter import Server

pytestmark = pytest.mark.browser

NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"


async def test_what_ran_is_there_after_a_reload(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("echo an$((40 + 2))swer", "an42swer")
    await desk.page.reload()
    await desk.sees("an42swer")
    await desk.run("echo st$((1))ill", "st1ill")


async def test_two_windows_see_the_same(sit_down: Any) -> None:
    first = await sit_down()
    second = await sit_down()
    await first.run("echo on$((1))e", "on1e")
    await second.sees("on1e")


async def test_the_wheel_scrolls_back(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("seq -f 'row %g.' 200; echo e$((1))nd", "e1nd")
    await desk.page.mouse.move(400, 250)
    await desk.page.mouse.wheel(0, -120)
    await expect(desk.screen).not_to_contain_text("row 200.")  # at the first turn
    await desk.sees("row 175.")
    for _ in range(3):
        await desk.page.mouse.wheel(0, 120)
    await desk.sees("e1nd")
    await desk.run("echo ba$((1))ck", "ba1ck")


@pytest.mark.parametrize("before", ["", NO_CLIPBOARD], ids=["https", "plain http"])
async def test_what_is_selected_is_in_the_clipboard(sit_down: Any, before: str) -> None:
    desk = await sit_down(before)
    await desk.run("clear; echo one-$((1))-süß; echo e$((1))nd", "e1nd")
    await desk.drag_over("one-1-süß")
    await desk.says("Copied")
    assert (await desk.clipboard()).strip() == "one-1-süß"
    await desk.run("echo aft$((1))er", "aft1er")


@pytest.mark.parametrize("before", ["", NO_CLIPBOARD], ids=["https", "plain http"])
async def test_a_program_copies(sit_down: Any, before: str) -> None:
    desk = await sit_down(before)
    coded = base64.b64encode("from vim: ñ".encode()).decode()
    await desk.run(f"printf '\\e]52;c;{coded}\\a'; echo do$((1))ne", "do1ne")
    await desk.says("Copied")
    assert await desk.clipboard() == "from vim: ñ"


async def test_no_program_reads_the_clipboard(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.evaluate("navigator.clipboard.writeText('secret')")
    await desk.run("printf '\\e]52;c;?\\a'; read -t 1 -s answer; echo got-$((1))", "got-1")
    assert base64.b64encode(b"secret").decode() not in await desk.screen.inner_text()
    await desk.page.keyboard.press("Enter")
    await desk.run("echo x$((1))$answer", "x1")
    assert base64.b64encode(b"secret").decode() not in await desk.screen.inner_text()


async def test_what_a_program_may_copy_is_bounded(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.evaluate("navigator.clipboard.writeText('before')")
    assert await desk.page.evaluate("Clipboard52.textOf('c;' + 'QUJD'.repeat(300000))") is None
    assert await desk.page.evaluate("Clipboard52.textOf('c;QUJD')") == "ABC"
    for bad in ("c;?", "c;", ";!", "x;QUJD", "QUJD", "c;Q"):
        assert await desk.page.evaluate("Clipboard52.textOf", bad) is None, bad
    assert await desk.clipboard() == "before"


async def test_a_paste_is_one_piece(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.evaluate("navigator.clipboard.writeText('echo on$((1))e\\necho tw$((2))o')")
    await desk.page.keyboard.press("Control+Shift+V")
    await desk.sees("echo tw$((2))o")  # nothing runs before Enter
    await expect(desk.screen).not_to_contain_text("on1e")
    await desk.page.keyboard.press("Enter")
    await desk.sees("tw2o")


async def test_the_size_follows_the_window(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("echo size=$(stty size)=", "size=")
    before = await columns(desk)
    await desk.page.set_viewport_size({"width": 600, "height": 400})
    # tmux gathers changes of size for a moment
    until = f"until [ $(stty size | cut -d' ' -f2) -lt {before} ]; do :; done"
    await desk.run(f"{until}; clear; echo then=$(stty size)=", "then=")
    assert await columns(desk, "then") < before


async def columns(desk: Any, word: str = "size") -> int:
    """What the shell told of its size, behind that word."""
    told = re.compile(word + r"=\d+ (\d+)=")
    await expect(desk.screen).to_contain_text(told)
    return int(told.findall(await desk.screen.inner_text())[-1])


async def test_characters_and_colours_of_all_kinds(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run(
        "printf '\\e[38;5;208mOR''ANGE\\e[38;2;10;200;30mGR''EEN\\e[m é世界\\n'", "é世界"
    )
    for word, colour in {"ORANGE": "rgb(255, 135, 0)", "GREEN": "rgb(10, 200, 30)"}.items():
        span = desk.screen.locator(f"span:text-is('{word}')")
        assert await span.evaluate("each => getComputedStyle(each).color") == colour


async def test_several_shells(sit_down: Any, server: Server) -> None:
    desk = await sit_down()
    await desk.run("echo fi$((1))rst", "fi1rst")
    await desk.page.get_by_role("button", name="New shell").click()
    await expect(desk.tabs).to_have_text(["shell-1", "shell-2"])
    await desk.is_ready()
    await desk.run("echo sec$((1))ond", "sec1ond")
    await desk.page.reload()
    await desk.sees("sec1ond")  # the tab that was in front
    await desk.tabs.nth(0).click()
    await desk.sees("fi1rst")
    await desk.page.get_by_role("button", name="Close shell-1").click()
    await expect(desk.tabs).to_have_text(["shell-2"])
    await desk.sees("sec1ond")
    assert server.ask("GET", "terminal/shells")[1]["shells"] == ["shell-2"]


async def test_two_clicks_make_one_shell(sit_down: Any, server: Server) -> None:
    desk = await sit_down()
    await desk.page.get_by_role("button", name="New shell").dblclick()
    await expect(desk.tabs).to_have_text(["shell-1", "shell-2"])
    await desk.is_ready()
    assert server.ask("GET", "terminal/shells")[1]["shells"] == ["shell-1", "shell-2"]


async def test_an_address_that_names_no_shell(sit_down: Any) -> None:
    desk = await sit_down(path="#50%")
    await expect(desk.tabs).to_have_text(["shell-1"])
    await desk.run("echo th$((1))ere", "th1ere")


async def test_the_address_has_no_token(sit_down: Any, server: Server) -> None:
    desk = await sit_down()
    assert desk.page.url == f"{server.url}terminal/#shell-1"
    await desk.page.reload()
    await desk.is_ready()
    await desk.run("echo th$((1))ere", "th1ere")


async def test_a_program_is_not_ended_by_the_way(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("echo go; sleep 4321", "go")
    close = desk.page.get_by_role("button", name="Close shell-1")
    dialog = desk.page.get_by_role("dialog", name="Close shell-1?")
    await close.click()
    await expect(dialog).to_contain_text("sleep 4321")
    await desk.page.get_by_role("button", name="Keep it").click()
    await expect(desk.tabs).to_have_text(["shell-1"])
    await close.click()
    await desk.page.get_by_role("button", name="Close it").click()
    await expect(desk.page.get_by_role("alert")).to_contain_text("The last shell has ended.")


async def test_after_the_last_shell_there_is_another(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.keyboard.type("exit\n")
    await expect(desk.page.get_by_role("alert")).to_contain_text("The last shell has ended.")
    await expect(desk.page.get_by_role("button", name="New shell").last).to_be_visible()
    await desk.page.keyboard.press("Enter")  # it has the focus
    await desk.is_ready()
    await expect(desk.tabs).to_have_text(["shell-1"])


async def test_a_shell_that_somebody_else_closed_is_gone_here(
    sit_down: Any, server: Server
) -> None:
    desk = await sit_down()
    await desk.page.get_by_role("button", name="New shell").click()
    await expect(desk.tabs).to_have_count(2)
    await desk.is_ready()
    server.ask("DELETE", "terminal/shells/shell-2?force=1")
    await expect(desk.tabs).to_have_text(["shell-1"])
    await desk.says("shell-2 has ended.")


async def test_detached_is_not_ended(sit_down: Any, tmux: bool) -> None:
    if not tmux:
        pytest.skip("there is nothing to detach from")
    desk = await sit_down()
    await desk.page.keyboard.press("Control+b")
    await desk.page.keyboard.press("d")
    await expect(desk.page.get_by_role("alert")).to_contain_text("The shell goes on.")
    await desk.page.keyboard.press("Enter")
    await desk.is_ready()
    await desk.run("echo ba$((1))ck", "ba1ck")


async def test_help_says_what_is_there(sit_down: Any, tmux: bool) -> None:
    desk = await sit_down()
    asked = desk.page.get_by_role("button", name="Help", exact=True)
    await asked.click()
    panel = desk.page.get_by_role("complementary", name="Help")
    await expect(panel).to_contain_text("Select with the mouse.")
    await expect(panel.get_by_role("heading", name="tmux")).to_have_count(int(tmux))
    await expect(panel.get_by_text("install tmux in the image")).to_have_count(int(not tmux))
    await expect(asked).to_have_attribute("aria-expanded", "true")
    await desk.page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await desk.run("echo ba$((1))ck", "ba1ck")  # the shell has the focus again


async def test_by_keys_alone(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.get_by_role("button", name="New shell").click()
    await expect(desk.tabs).to_have_count(2)
    await desk.is_ready()
    await desk.page.keyboard.press("Control+Shift+ArrowUp")
    await expect(desk.tabs.nth(1)).to_be_focused()
    await desk.page.keyboard.press("ArrowRight")
    await expect(desk.tabs.nth(0)).to_be_focused()
    await expect(desk.tabs.nth(0)).to_have_attribute("aria-selected", "true")
    await desk.page.keyboard.press("Delete")
    await expect(desk.tabs).to_have_text(["shell-2"])
    await desk.page.keyboard.press("Control+Shift+ArrowUp")
    await desk.page.keyboard.press("Enter")
    await desk.run("echo ba$((1))ck", "ba1ck")
