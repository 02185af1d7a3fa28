"""The pages while a session starts and after it failed: whose server, and what they tell."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.async_api import Page, expect
from ui_harness import environment, page_context, person

from jupyterhub_backendai.spawner.in_line import Waiting
from jupyterhub_backendai.spawner.story import Story, Tried

pytestmark = pytest.mark.browser


def event(step: str, state: str, title: str, detail: str = "", **more: Any) -> dict[str, Any]:
    told = {"step": step, "state": state, "at": time.time(), "title": title, "detail": detail}
    return {
        "progress": 10,
        "message": f"{title}: {detail}",
        "backendai": told | {"position": None} | more,
    }


ASKED = event("asked", "done", "Asked", "Python 3.13 in default: 2 cores, 4 GB")
QUEUED = event("queued", "now", "In line, #3", "Waiting for 2 CPU cores: 1 is free.", position=3)
RUNNING = {"name": "lab4", "ready": True, "pending": None}
STOPPED = {"name": "lab4", "ready": False, "pending": None}


async def visit(page: Page, site: Any, server: str = "lab4", user: str = "mkim") -> Page:
    await page.goto(f"{site.url}/hub/spawn-pending/{user}/{server}")
    await page.wait_for_function("window._jupyterhub_page_loaded")
    return page


async def icon(page: Page) -> str:
    """The state that the tab's icon shows; it is part of the page, and comes from nowhere else."""
    return await page.evaluate("""() => {
      const link = document.querySelector("#bk-tab-icon");
      const shown = (state) => link.dataset[state] === link.href;
      return link.href.startsWith("data:image/svg+xml,") && Object.keys(link.dataset).find(shown);
    }""")


# --- cancel


@pytest.mark.parametrize(("server", "path"), [("lab4", "servers/lab4"), ("", "server")])
async def test_cancel_is_about_the_server_of_the_page(
    tab: Any, site: Any, server: str, path: str
) -> None:
    site.events, site.server = [ASKED, QUEUED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(), site, server, user="a.b@x")
    await page.click("#bk-cancel")
    await expect(page.locator("h1")).to_contain_text("was cancelled")
    assert ("DELETE", f"/hub/api/users/a.b@x/{path}", "the-token") in site.calls


async def test_the_stock_page_stops_another_server(tab: Any, site: Any) -> None:
    """Why the page is overridden: the Hub's own stops the default server, whatever is starting."""
    site.stock = True
    page = await visit(await tab(), site)
    async with page.expect_response(lambda reply: reply.request.method == "DELETE"):
        await page.click("#stop-server-btn")
    assert ("DELETE", "/hub/api/users/mkim/server", "the-token") in site.calls


async def test_ready_after_a_cancel_is_not_believed(tab: Any, site: Any) -> None:
    """The Hub ends the stream of a cancelled start with "ready"."""
    site.events, site.server = [ASKED, QUEUED], {"ready": False, "pending": "spawn"}
    watching, acting = await visit(await tab(), site), await visit(await tab(), site)

    def delete() -> None:
        site.server = RUNNING  # so the Hub says for a second
        threading.Timer(1, lambda: setattr(site, "server", STOPPED)).start()
        site.events = [*site.events, {"progress": 100, "ready": True, "message": "Server ready"}]
        site.hold.set()

    site.on_delete = delete
    await acting.click("#bk-cancel")
    for page in (acting, watching):
        await expect(page.locator("h1")).to_contain_text("was cancelled")
        await expect(page.locator("#bk-over")).to_contain_text("has what you asked for")
        assert "spawn-pending" in page.url
    assert ("GET", "/hub/api/users/mkim/servers/lab4", "the-token") in site.calls


async def test_a_cancel_that_fails_can_be_tried_again(tab: Any, site: Any) -> None:
    site.events, site.server = [ASKED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(), site)
    await page.route(
        "**/servers/lab4",
        lambda route: route.fulfill(status=503, json={"message": "The Hub is busy."}),
    )
    await page.click("#bk-cancel")
    await expect(page.locator("#bk-trouble")).to_contain_text("The Hub is busy.")
    await expect(page.locator("#bk-cancel")).to_be_enabled()


# --- the story


async def test_place_in_line_and_times(tab: Any, site: Any) -> None:
    site.events, site.server = [ASKED, QUEUED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(), site)
    await expect(page).to_have_title("(#3) lab4-attention")
    assert await icon(page) == "waiting"
    await expect(page.locator("h1")).to_have_text("lab4-attention is in line")
    await expect(page.locator("#bk-place")).to_contain_text("#3")
    row = page.locator("[data-step=queued]")
    await expect(row).to_contain_text("Waiting for 2 CPU cores: 1 is free.")
    await expect(row).to_have_attribute("aria-current", "step")
    await expect(row.locator(".when")).to_contain_text("so far")
    await expect(page.locator("[data-step=image]")).to_be_hidden()
    await expect(page.locator("#bk-spoken")).to_contain_text("In line, #3")
    site.events = [
        *site.events,
        event("placed", "done", "Placed on cpu-01"),
        event("image", "now", "Downloading the image"),
    ]
    await expect(page).to_have_title("Starting: lab4-attention")
    assert await icon(page) == "starting"
    await expect(page.locator("h1")).to_have_text("lab4-attention is starting")
    await expect(page.locator("[data-step=image]")).to_be_visible()
    await expect(row).to_have_class("done")
    await page.click("summary")
    await expect(page.locator(".bk-log div")).to_have_count(4)


@pytest.mark.parametrize("told", [[event("ready", "done", "Ready")], []])
async def test_ready_leads_to_the_server(tab: Any, site: Any, told: list[Any]) -> None:
    site.events, site.server = [ASKED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(), site)
    site.server = RUNNING
    site.events = [ASKED, *told, {"progress": 100, "ready": True, "message": "Server ready"}]
    await expect(page.locator("h1")).to_have_text("JupyterLab")


async def test_failed_says_why_and_leads_back_to_this_form(tab: Any, site: Any) -> None:
    why = "The image of R 4.5 is not on default. <b>Tell the admin.</b>"
    site.server = STOPPED
    site.events = [
        ASKED,
        QUEUED,
        {"progress": 100, "failed": True, "message": f"Spawn failed: {why}"},
    ]
    page = await visit(await tab(), site)
    await expect(page.locator("#bk-over")).to_be_focused()
    await expect(page.locator(".bk-said")).to_have_text(why)
    await expect(page.locator("[data-step=queued]")).to_have_class("bad")
    await expect(page.locator("#bk-cancel")).to_be_hidden()
    link = page.get_by_role("link", name="Edit and start again")
    await expect(link).to_have_attribute("href", "/hub/spawn/mkim/lab4")
    await expect(page).to_have_title("lab4-attention did not start")
    assert await icon(page) == "failed"


async def test_messages_are_never_markup(tab: Any, site: Any) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    site.server = {"ready": False, "pending": "spawn"}
    site.events = [
        event("queued", "now", evil, evil),
        {"progress": 5, "html_message": f"<i>{evil}</i>"},
    ]
    page = await visit(await tab(), site)
    await expect(page.locator("[data-step=queued]")).to_contain_text(evil)
    await page.click("summary")
    assert await page.evaluate("window.hit") is None


async def test_a_lost_stream_is_taken_up_again(tab: Any, site: Any) -> None:
    site.events, site.server = [ASKED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(), site)
    await page.wait_for_selector("[data-step=asked].done")
    site.hold.set()  # the stream ends without a word, as when the Hub restarts
    async with page.expect_request(lambda request: "progress" in request.url):
        pass
    site.events = [ASKED, QUEUED]
    await expect(page.locator("[data-step=queued]")).to_have_class("now")


async def test_no_sideways_scroll_on_a_phone(tab: Any, site: Any) -> None:
    site.events, site.server = [ASKED, QUEUED], {"ready": False, "pending": "spawn"}
    page = await visit(await tab(390, 700, dark=True), site)
    await expect(page.locator("#bk-place")).to_be_visible()
    for width in (390, 320):
        await page.set_viewport_size({"width": width, "height": 700})
        assert await page.evaluate("document.documentElement.scrollWidth") == width


async def test_without_javascript_the_page_looks_again(tab: Any, site: Any) -> None:
    story = Story()
    story.tell("asked", "Asked", "Python 3.13 in default")
    story.tell("queued", "In line, #3", "Waiting for <2> CPU cores.", position=3)
    site.told = story.told
    page = await tab(js=False)
    await page.goto(f"{site.url}/hub/spawn-pending/mkim/lab4")
    await expect(page).to_have_title("(#3) lab4-attention")
    await expect(page.locator("h1")).to_have_text("lab4-attention is in line")
    await expect(page.locator("li.done")).to_contain_text("Python 3.13 in default")
    await expect(page.locator("[aria-current=step]")).to_contain_text("Waiting for <2> CPU cores.")
    await expect(page.get_by_role("link", name="Look now")).to_be_visible()
    assert await page.locator("meta[http-equiv=refresh]").get_attribute("content") == "5"
    await expect(page.locator("#bk-cancel")).to_be_hidden()


# --- with the sessions service

SERVICE = "/services/backendai/"
ID = "5e55" * 8


def tried(*, whole: bool) -> dict[str, Any]:
    return {"session": {"id": ID, "whole": whole}}


async def test_a_cancelled_start_leads_to_the_launcher(tab: Any, site: Any) -> None:
    site.service = SERVICE
    site.events, site.server = [event("queued", "now", "In line")], {"pending": "spawn"}
    page = await visit(await tab(390), site)
    about = page.locator("#bk-about")
    await expect(page.locator("[data-step=queued]")).to_have_class("now")
    await expect(about).to_be_hidden()  # while it is not known which session it is
    site.events = [*site.events, event("queued", "now", "In line", **tried(whole=True))]
    await expect(about.get_by_role("link")).to_have_text(["About this session", "History"])
    site.events = [*site.events, event("placed", "done", "Placed", **tried(whole=True))]
    await expect(about.get_by_role("link", name="Log")).to_have_attribute(
        "href", f"{SERVICE}sessions/{ID}/log"
    )
    site.server = STOPPED
    await page.click("#bk-cancel")
    again = page.get_by_role("link", name="Edit and start again")
    await expect(again).to_have_attribute("href", f"{SERVICE}launch?like={ID}")
    sessions = page.locator("#bk-over").get_by_role("link", name="Sessions")
    await expect(sessions).to_have_attribute("href", SERVICE)
    assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_what_the_launcher_does_not_know_is_in_the_form_of_the_server(
    tab: Any, site: Any
) -> None:
    """A value that looks secret, say: only where it was typed it still is."""
    site.service, site.server = SERVICE, STOPPED
    told = event("queued", "now", "In line", **tried(whole=False))
    site.events = [told, {"progress": 100, "failed": True, "message": "Spawn failed: No."}]
    page = await visit(await tab(dark=True), site)
    link = page.get_by_role("link", name="Edit and start again")
    await expect(link).to_have_attribute("href", "/hub/spawn/mkim/lab4")
    history = page.get_by_role("link", name="History")
    await expect(history).to_have_attribute("href", f"{SERVICE}sessions/{ID}/history")


async def test_without_javascript_the_session_is_led_to(tab: Any, site: Any) -> None:
    site.service = SERVICE
    story = Story()
    story.tried = Tried(ID, True)
    story.tell("placed", "Admitted")
    site.told = story.told
    page = await tab(js=False)
    await page.goto(f"{site.url}/hub/spawn-pending/mkim/lab4")
    link = page.get_by_role("link", name="About this session")
    await expect(link).to_have_attribute("href", f"{SERVICE}sessions/{ID}")
    await expect(page.locator("#bk-leave").get_by_role("link")).to_have_attribute("href", SERVICE)


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("dark", [False, True])
async def test_a_failed_page_leads_to_the_launcher(
    tab: Any, site: Any, width: int, dark: bool
) -> None:
    site.service = SERVICE
    refused = SimpleNamespace(message="No room.", message_html="", tried=Tried(ID, True))
    site.failed = {"failed": True, "exception": refused}
    page = await tab(width, dark=dark)
    await page.goto(f"{site.url}/hub/not-running/mkim/lab4")
    for name, path in {
        "Edit and start again": f"launch?like={ID}", "Log": f"sessions/{ID}/log",
        "About this session": f"sessions/{ID}", "History": f"sessions/{ID}/history",
    }.items():  # fmt: skip
        link = page.get_by_role("link", name=name, exact=True)
        await expect(link).to_have_attribute("href", SERVICE + path)
    main = page.get_by_role("main")
    await expect(main.get_by_role("link", name="Sessions")).to_have_attribute("href", SERVICE)
    await expect(main.get_by_role("link", name="Home")).to_have_count(0)
    assert await page.evaluate("document.documentElement.scrollWidth") == width


# --- not running


def not_running(*, stock: bool = False, **context: Any) -> str:
    template = environment(stock=stock).get_template("not_running.html")
    return template.render(
        page_context(
            user=person("mkim"), server_name="lab4", spawn_url="/hub/spawn/mkim/lab4", **context
        )
    )


REFUSED = SimpleNamespace(message="No room for <2> days.", message_html="", reason="capacity")


def test_a_refused_start_says_why() -> None:
    """The Hub hands the page no text for its own SpawnException: the stock page is silent."""
    assert "No room for" not in not_running(
        stock=True, failed=True, exception=REFUSED, failed_message=None
    )
    html = not_running(
        failed=True, exception=REFUSED, failed_message=None, failed_html_message=None
    )
    assert "No room for &lt;2&gt; days." in html
    assert (
        'id="start" class="btn btn-primary me-2" href="/hub/spawn/mkim/lab4">Edit and start again'
        in html
    )


@pytest.mark.parametrize("whole", [None, False, True])
def test_only_what_the_launcher_knows_all_of_is_started_again_there(whole: bool | None) -> None:
    refused = SimpleNamespace(message="No.", message_html="")
    refused.tried = None if whole is None else Tried(ID, whole)
    html = not_running(failed=True, exception=refused, backendai_sessions=SERVICE)
    to = f"{SERVICE}launch?like={ID}" if whole else "/hub/spawn/mkim/lab4"
    assert f'href="{to}">Edit and start again' in html
    assert ("About this session" in html) is (whole is not None)
    html = not_running(failed=True, exception=refused)  # no service, so no way there
    assert 'href="/hub/spawn/mkim/lab4">Edit and start again' in html
    assert "About this session" not in html
    assert "Home</a>" in html


@pytest.mark.parametrize("failed", [False, True])
async def test_one_that_is_hibernated_leads_to_its_page(failed: bool) -> None:
    async def last() -> str:
        return ID

    async def rests() -> bool:
        return True

    user = person("mkim")
    user.spawners["lab4"] = SimpleNamespace(
        name="lab4", display_name="", last_session=last, rests=rests
    )
    told = {"failed": True, "exception": REFUSED} if failed else {"failed": False}
    template = environment(enable_async=True).get_template("not_running.html")
    html = await template.render_async(
        page_context(
            user=user, server_name="lab4", spawn_url="/hub/spawn/mkim/lab4",
            backendai_sessions=SERVICE, **told,
        )
    )  # fmt: skip
    assert "lab4 is hibernated</h1>" in html
    assert f'href="{SERVICE}sessions/{ID}">To its page' in html
    assert "Resume it on its page" in html
    assert "Edit and start again" not in html


async def test_what_has_ended_leads_to_its_history() -> None:
    async def last() -> str:
        return ID

    user = person("mkim")
    user.spawners["lab4"] = SimpleNamespace(name="lab4", display_name="", last_session=last)
    template = environment(enable_async=True).get_template("not_running.html")
    html = await template.render_async(
        page_context(
            user=user, server_name="lab4", spawn_url="/hub/spawn/mkim/lab4",
            backendai_sessions=SERVICE,
        )
    )  # fmt: skip
    assert f'href="{SERVICE}sessions/{ID}/history"' in html
    assert 'href="/hub/spawn/mkim/lab4">Start it' in html


def test_a_failure_without_a_message_says_what_to_do() -> None:
    html = not_running(failed=True, exception=ValueError("secret"), failed_message=None)
    assert "its log says what" in html
    assert "secret" not in html


def test_html_of_the_spawner_is_html() -> None:
    html = not_running(
        failed=True, failed_html_message="See <a href='/x'>why</a>", failed_message="See why"
    )
    assert "<a href='/x'>why</a>" in html


def test_a_stopped_server_is_started_by_its_own_form() -> None:
    html = not_running()
    assert "lab4 is not running" in html
    assert 'href="/hub/spawn/mkim/lab4">Start it' in html


@pytest.mark.parametrize("implicit", [0, 10], ids=["by hand", "by itself"])
async def test_a_session_that_ended_by_itself_says_why(implicit: int) -> None:
    """The page asks the spawner, in the Hub's own asynchronous templates."""

    async def because() -> str:
        return "Memory ran out <on 2 GB>."

    async def page(why: Any) -> str:
        user = person("mkim")
        user.spawners["lab4"] = SimpleNamespace(name="lab4", display_name="", ended_because=why)
        template = environment(enable_async=True).get_template("not_running.html")
        return await template.render_async(
            page_context(
                user=user, server_name="lab4", spawn_url="/hub/spawn/mkim/lab4",
                implicit_spawn_seconds=implicit,
            )
        )  # fmt: skip

    html = await page(because)
    assert "Memory ran out &lt;on 2 GB&gt;." in html
    assert "or was never started" not in html
    assert ("started again in a moment" in html) is bool(implicit)
    assert 'role="status"' not in await page(None)  # of a spawner that is not ours


@pytest.mark.parametrize("template", ["not_running.html", "home.html"])
async def test_what_waits_by_itself_is_told_with_its_reason(template: str) -> None:
    """From the database, through the spawner, for every page that the Hub shows meanwhile."""

    async def waiting() -> list[Waiting]:
        mine = Waiting("0" * 32, "lab<4>", "lab4", 2, "Waiting for <1> core.")
        return [Waiting("1" * 32, "another", "another", None, ""), mine]

    spawner = SimpleNamespace(name="lab4", display_name="", ready=False, waiting=waiting)
    user = person("mkim", all_spawners=lambda **_: [])
    user.spawners["lab4"] = spawner
    shown = environment(enable_async=True).get_template(template)
    html = await shown.render_async(
        page_context(
            user=user, server_name="lab4", spawn_url="/hub/spawn/mkim/lab4",
            default_server=spawner, url="/hub/spawn/mkim",
        )
    )  # fmt: skip
    assert ("lab&lt;4&gt;</strong> #2" if template == "home.html" else "in line, #2.") in html
    assert "Waiting for &lt;1&gt; core." in html
    assert f'href="/services/backendai/sessions/{"0" * 32}/end"' in html
    assert ("another" in html) is (template == "home.html")
    assert "is not running" not in html
