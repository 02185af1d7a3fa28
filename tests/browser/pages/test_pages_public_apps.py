"""A public app in a real browser: its page works, and has nothing of the Hub's host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from playwright.async_api import Browser

from ...service.ways import ALLOWED, Open, free_ports, opened

PAGE = """<!DOCTYPE html><title>App</title>
<link rel="stylesheet" href="style.css">
<p id="shown">x</p>
<script src="plain.js"></script>
<script type="module" src="module.js"></script>
"""
MODULE = """import { four } from "./lib/four.js";
const told = { four, origin: window.origin, plain: window.plain };
const tried = async (name, work) => {
  try { told[name] = await work(); } catch (error) { told[name] = error.name; }
};
await tried("cookie", () => document.cookie);
await tried("storage", () => localStorage.length);
await tried("worker", () => navigator.serviceWorker.register("sw.js"));
await tried("fetched", async () => (await (await fetch("data")).json()).said);
await tried("posted", async () => (await (await fetch("data", {
  method: "PUT", headers: { "Content-Type": "application/json", "X-Mine": "1" }, body: '"hello"',
})).json()).said);
await tried("service", async () => (await fetch(HUB, { credentials: "include" })).status);
await tried("events", () => new Promise((done, failed) => {
  const stream = new EventSource("events");
  stream.onmessage = (event) => { stream.close(); done(event.data); };
  stream.onerror = failed;
}));
await tried("socket", () => new Promise((done, failed) => {
  const address = new URL("socket", location);
  address.protocol = "ws:";
  const socket = new WebSocket(address);
  socket.onopen = () => socket.send("hello");
  socket.onmessage = (event) => done(event.data);
  socket.onerror = failed;
}));
told.font = (await document.fonts.load("16px Own")).length;
told.color = getComputedStyle(document.getElementById("shown")).color;
window.told = told;
"""
STYLE = "@font-face { font-family: Own; src: url(font.ttf) } #shown { color: rgb(1, 2, 3) }"


def _font() -> bytes:
    found = [*Path("/usr/share/fonts").rglob("*.ttf"), *Path("/usr/share/fonts").rglob("*.otf")]
    if not found:
        pytest.skip("this machine has no font")
    return found[0].read_bytes()


@asynccontextmanager
async def app(hub: str) -> AsyncIterator[int]:
    """The app's port."""

    async def data(request: web.Request) -> web.Response:
        said = await request.json() if request.method == "PUT" else "here"
        return web.json_response({"said": said})

    async def events(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: one\n\n")
        await asyncio.sleep(3600)
        return answer

    async def socket(request: web.Request) -> web.WebSocketResponse:
        # As apps that look where a page comes from.
        if request.headers["Origin"] != f"http://{request.host}":
            raise web.HTTPForbidden
        made = web.WebSocketResponse()
        await made.prepare(request)
        async for message in made:
            if message.type is WSMsgType.TEXT:
                await made.send_str(message.data)
        return made

    files = {
        "": ("text/html", PAGE), "style.css": ("text/css", STYLE),
        "plain.js": ("text/javascript", "window.plain = 1"), "sw.js": ("text/javascript", ""),
        "module.js": ("text/javascript", f"const HUB = {hub!r};\n{MODULE}"),
        "lib/four.js": ("text/javascript", "export const four = 4;"),
    }  # fmt: skip
    application = web.Application()
    router = application.router
    for name, (kind, text) in files.items():

        async def serve(_: web.Request, kind: str = kind, text: str = text) -> web.Response:
            return web.Response(
                text=text, content_type=kind,
                headers={"Set-Cookie": "own=1", "Cross-Origin-Resource-Policy": "same-origin"},
            )  # fmt: skip

        router.add_get(f"/{name}", serve)
    found = _font()

    async def font(_: web.Request) -> web.Response:
        return web.Response(body=found)

    router.add_get("/font.ttf", font)
    for path, handler in (("/data", data), ("/events", events), ("/socket", socket)):
        router.add_route("*", path, handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


WORKS = {
    "four": 4, "plain": 1, "fetched": "here", "posted": "hello", "events": "one", "socket": "hello",
    "font": 1, "color": "rgb(1, 2, 3)",
}  # fmt: skip
APART = {
    "origin": "null", "cookie": "SecurityError", "storage": "SecurityError",
    "worker": "SecurityError", "service": "TypeError",
}  # fmt: skip


async def told_by(browser: Browser, ways: Open, url: str) -> dict[str, object]:
    """What the app's page found out, in a browser that is signed in at the Hub."""
    context = await browser.new_context()
    await context.add_cookies(
        [{"name": "jupyterhub-session-id", "value": "x", "url": ways.service.url}]
    )
    page = await context.new_page()
    await page.goto(url)
    told: dict[str, object] = await (await page.wait_for_function("window.told")).json_value()
    names = {cookie["name"] for cookie in await context.cookies()}
    assert "own" not in names, "what the app sets has another name"
    await context.close()
    return told


@pytest.mark.parametrize("kind", ["path", "port"])
async def test_an_app_on_the_hubs_host(kind: str, browser: Browser, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    traits = {"app_ports": f"{port}-{port}", "app_ports_address": "127.0.0.1"}
    async with (
        opened(tmp_path, default_policy=ALLOWED, **traits) as ways,
        app(f"{ways.service.url}api/sessions") as inside,
    ):
        ways.server.items[0]["port"] = inside
        body = {"preferred_port": port} if kind == "port" else {}
        reply = await ways.open(public=True, **body)
        told = await told_by(browser, ways, reply.json["url"])
        assert told == {**WORKS, **APART}


async def test_an_app_on_its_own_host(browser: Browser, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    traits = {
        "public_app_url": f"http://*.localhost:{port}", "public_app_listen": f"127.0.0.1:{port}",
    }  # fmt: skip
    async with (
        opened(tmp_path, default_policy=ALLOWED, **traits) as ways,
        app(f"{ways.service.url}api/sessions") as inside,
    ):
        ways.server.items[0]["port"] = inside
        told = await told_by(browser, ways, (await ways.open(public=True)).json["url"])
        assert {name: told[name] for name in WORKS} == WORKS
        assert told["origin"] != "null"
        assert told["storage"] == 0, "its own"
        assert told["service"] == "TypeError"


async def test_a_page_that_waits_looks_again(browser: Browser, tmp_path: Path) -> None:
    async with opened(tmp_path, default_policy=ALLOWED) as ways:
        way = (await ways.open("gone", public=True)).json["way"]
        page = await browser.new_page()
        await page.goto(ways.url(way))
        await page.get_by_role("heading", name="The app does not answer yet").wait_for()
        ways.server.items[4]["port"] = ways.app.port
        await page.get_by_text('"method": "GET"').wait_for(timeout=20_000)
        await page.close()
