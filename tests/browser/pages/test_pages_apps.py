"""The apps of a session in the pages: tiles, every way to each, SSH's words, what is missing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from jupyterhub_backendai.store import Session

from ...service.running import Running, running, until, until_open
from ...service.session_server import KEY, SessionServer, item, session_server
from ...service.ways import ALLOWED, free_ports
from ..chromium import Barriers
from .conftest import Open
from .sample import SITE, Sample

PORTS = free_ports(4)


@pytest.fixture
async def server() -> AsyncIterator[SessionServer]:
    async with session_server() as started:
        started.items = [
            item("jupyterlab", None, title="JupyterLab", category="Development", icon="flask",
                 path="lab", shareable=False, listening=False),
            item("terminal", None, title="Terminal", category="Development", icon="terminal",
                 path="backendai/terminal/", shareable=False, listening=False,
                 notes=["Shells end with the session's Jupyter server."]),
            item("tensorboard", 6006, listening=False, title="TensorBoard", category="ML tools",
                 icon="chart-line",
                 available=False, why="TensorBoard is not installed here. Run: pip install it"),
            item("sshd", 2200, title="SSH and SFTP", category="Utilities", icon="key",
                 protocol="tcp", path="", shareable=False),
            item("8080", 8080, title="Port 8080", category="Preopen ports", icon="globe"),
            item("evil", 1, title="<b>x</b>", icon='"><script>', path="//elsewhere.example.org/"),
        ]  # fmt: skip
        yield started


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    policy = {**SITE["default_policy"], **ALLOWED}
    ports = f"{PORTS[0]}-{PORTS[-1]}"
    own = {"default_policy": policy, "app_ports": ports, "app_ports_address": "127.0.0.1"}
    async with running(tmp_path, **{**SITE, **own}) as started:
        await until_open(started)
        await until(lambda: started.service.book.is_open)
        yield started


@pytest.fixture
async def session(sample: Sample, server: SessionServer) -> Session:
    sample.agents()
    session = await sample.run("alice", "lab3-cnn", 12, preset="small", preopen_ports=[8080])
    sample.store.set_kernel(session.id, agent="cpu-02", address=server.address, apps_key=KEY)
    return session


def card(page: Page, app: str) -> Any:
    return page.locator(f"#app-{app}")


async def test_a_tile_each_and_what_is_missing(visit: Open, session: Session) -> None:
    page = await visit(f"sessions/{session.id}")
    tiles = page.locator(".bk-apps a")
    await expect(tiles).to_have_count(6)
    lab = page.get_by_role("link", name="JupyterLab")
    assert await lab.get_attribute("target") == "_blank"
    href = await lab.get_attribute("href")
    assert href == f"/user/alice/{session.server_name}/lab"
    await expect(page.locator(".bk-apps")).to_contain_text("not here")
    await page.get_by_role("link", name="TensorBoard").click()
    await expect(card(page, "tensorboard")).to_contain_text("pip install it")
    await expect(card(page, "tensorboard").get_by_role("link")).to_have_count(0)


async def test_what_a_program_says_of_itself_leads_nowhere_else(
    visit: Open, session: Session
) -> None:
    page = await visit(f"sessions/{session.id}/apps")
    await expect(card(page, "evil").get_by_role("heading")).to_have_text("<b>x</b>")
    href = await card(page, "evil").get_by_role("link").get_attribute("href")
    assert href == f"/user/alice/{session.server_name}/backendai/open/evil"


async def test_an_app_is_opened_to_the_public_and_closed(visit: Open, session: Session) -> None:
    page = await visit(f"sessions/{session.id}/apps", js=False)
    port = card(page, "8080")
    await port.get_by_role("button", name="Open to the public").click()
    link = port.get_by_role("link").filter(has_text="/public/")
    await expect(link).to_have_text(re.compile(r"^http://[^/]+/.*public/[a-z2-7]{26}/$"))
    await expect(port).to_contain_text("opened by alice")
    await expect(port.get_by_role("button", name="Open to the public")).to_have_count(0)
    await port.get_by_role("button", name="Close it to others").click()
    await expect(link).to_have_count(0)


async def test_ssh_by_a_port_and_a_wrong_one_is_told_beside_its_field(
    visit: Open, session: Session
) -> None:
    page = await visit(f"sessions/{session.id}/apps")
    ssh = card(page, "sshd")
    await expect(ssh).to_contain_text("ProxyCommand python3 ~/.ssh/backendai-ssh.py http://")
    await ssh.get_by_label("Preferred port").fill("70000")
    await ssh.get_by_role("button", name="Give it a port").click()
    field = ssh.get_by_label("Preferred port")
    await expect(field).to_have_value("70000")
    await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(ssh).to_contain_text("Write a number from 1 to 65535")
    await field.fill(str(PORTS[2]))
    await ssh.get_by_role("button", name="Give it a port").click()
    command = f"ssh -i ~/.ssh/id_container -o HostKeyAlias=backendai-[0-9a-f]+ -p {PORTS[2]} work@"
    await expect(ssh.locator("#bk-ssh-long")).to_have_text(re.compile(command))
    await expect(ssh.locator("#bk-ssh-config")).to_contain_text(f"Port {PORTS[2]}")
    before = await ssh.get_by_text("SHA256:").inner_text()
    await ssh.get_by_role("button", name="Make a new key").click()
    await expect(ssh.get_by_text("SHA256:")).not_to_have_text(before)


async def test_an_admin_sees_what_is_open_and_no_key(visit: Open, session: Session) -> None:
    own = await visit(f"sessions/{session.id}/apps")
    await card(own, "8080").get_by_role("button", name="Open to the public").click()
    await expect(card(own, "8080")).to_contain_text("opened by alice")
    page = await visit("admin", "admin")
    row = page.get_by_role("row").filter(has_text="8080")
    await expect(row).to_contain_text("alice")
    await row.get_by_role("link").first.click()
    await expect(card(page, "8080").get_by_role("link").filter(has_text="/public/")).to_be_visible()
    await expect(card(page, "sshd")).to_contain_text("with a key of their own")
    await expect(page.get_by_role("link", name="id_container")).to_have_count(0)
    await expect(page.locator("#app-jupyterlab").get_by_role("link")).to_have_count(0)


async def test_a_session_that_does_not_answer_says_so(
    visit: Open, session: Session, server: SessionServer
) -> None:
    server.items = [{"name": 7}]
    page = await visit(f"sessions/{session.id}/apps")
    await expect(page.locator(".bk-panel")).to_contain_text("Launch it again")


async def test_the_pages_with_apps_shut_nobody_out(
    visit: Open, session: Session, server: SessionServer
) -> None:
    del server.items[-1]  # is in no picture
    barriers = Barriers()
    page = await visit(f"sessions/{session.id}", policy=False)
    await page.locator(".bk-apps").wait_for()
    await barriers.look(page, "session with apps")
    await page.goto(page.url + "/apps")
    await card(page, "8080").get_by_role("button", name="Open to the public").click()
    await card(page, "sshd").get_by_role("button", name="Give it a port").click()
    await card(page, "sshd").get_by_text("opened by").wait_for()
    await barriers.look(page, "apps")
    page = await visit("admin", "admin", policy=False)
    await barriers.look(page, "admin with apps open")
    assert not barriers.found, barriers
