"""The pages where each service has a host of its own, and below a prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from ...service.running import running, until_open
from .sample import SITE

LOAD = """(address) => new Promise((told) => {
  document.addEventListener("securitypolicyviolation", (said) => told(said.effectiveDirective));
  const script = Object.assign(document.createElement("script"), { src: address });
  script.onload = () => told("loaded");
  document.head.append(script);
})"""

# A browser takes whatever ends in .localhost for this machine.
HUB = "http://hub.localhost:{port}"


@pytest.mark.parametrize("path", ["", "launch"])
async def test_icons_and_scripts_where_services_have_their_own_host(
    tmp_path: Path, browser: Browser, path: str
) -> None:
    async with running(tmp_path, base="/jhub/", hub_host=HUB, **SITE) as service:
        await until_open(service)
        token = {"Authorization": f"token {service.tokens['alice']}"}
        context = await browser.new_context(extra_http_headers=token)
        page = await context.new_page()
        wrong: list[str] = []
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        await page.goto(service.url.replace("127.0.0.1", "backendai--service.localhost") + path)
        icons = await page.evaluate(
            """() => document.fonts.load('900 16px "Font Awesome 7 Free"', "\\uf0f3")
              .then((found) => found.map((font) => font.status))"""
        )
        assert icons == ["loaded"]
        assert await page.evaluate("typeof bootstrap.Offcanvas") == "function"
        if not path:
            await page.get_by_text("Live", exact=True).wait_for()
        links = await page.eval_on_selector_all("nav a", "all => all.map((a) => a.href)")
        home = f"http://hub.localhost:{page.url.split(':')[2].split('/')[0]}/jhub/hub/home"
        assert home in links
        assert not wrong
        await context.close()


@pytest.mark.parametrize(("policy", "becomes"), [(True, "script-src-elem"), (False, "loaded")])
@pytest.mark.parametrize("path", ["", "launch"])
async def test_a_script_from_a_user_s_server_is_refused(
    tmp_path: Path, browser: Browser, path: str, policy: bool, becomes: str
) -> None:
    """It is on the same host, and would be loaded but for the policy."""
    async with running(tmp_path, **SITE) as service:
        await until_open(service)
        token = {"Authorization": f"token {service.tokens['alice']}"}
        context = await browser.new_context(extra_http_headers=token, bypass_csp=not policy)
        page = await context.new_page()
        script = {"body": "", "content_type": "text/javascript"}
        await page.route("**/user/bob/*", lambda route: route.fulfill(**script))
        await page.goto(service.url + path)
        assert await page.evaluate(LOAD, "/user/bob/files.js") == becomes
        await context.close()
