"""Idle checks in a real browser: what is told of them, warnings, and keeping a session."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from jupyterhub_backendai.model.usage import Span, Step, span_of
from jupyterhub_backendai.service.sampling import Has
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Session

from ...service.running import Running, running, until_open
from ..chromium import Barriers
from .conftest import Open
from .sample import SITE, Sample

RULES = {
    "lifetime": "7d",
    "network": {"timeout": "4h"},
    "utilization": {"window": "1h", "thresholds": {"cpu": 5, "mem": 10}, "operator": "or"},
}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    """With idle checks, whose worker goes one round where a test wants it."""
    async with running(tmp_path, **{**SITE, "idle": RULES}) as started:
        await until_open(started)
        yield started


async def watched(service: Running, sample: Sample) -> Session:
    """A session that was used last 3 hours and 20 minutes ago, as its server has said."""
    session = await sample.run("alice", "lab3-cnn", 230)
    worker = service.service.idle
    assert worker is not None
    await worker.once()
    assert worker.watch is not None
    one, now = worker.watch.sessions[session.id], worker.watch.clock.now()
    one.hear(now - 200 * 60, now - 60, now)
    for ago in range(3600, -15, -15):
        one.add(Step(session.id, utcnow(), 15, cpu=300, mem=2**29), now - ago)
    worker.watch.judge(one)
    return session


def used(service: Running, session: Session) -> Span:
    """It is measured."""
    step = Step(session.id, utcnow(), 15, cpu=620, mem=2**30, net_in=3e6, net_out=4e4)
    service.service.sampling.has[session.id] = Has(1000, 2**31)
    service.service.sampling.latest[session.id] = step
    return span_of(step)


async def test_the_panel_tells_and_keeps(service: Running, sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await watched(service, sample)
    service.store.add_usage([used(service, session)], before=None, now=utcnow())
    page = await visit(f"sessions/{session.id}", policy=False)
    checks = page.get_by_role("region", name="Idle checks")
    await expect(checks).to_contain_text(re.compile(r"\b3\d min left"))
    await expect(checks).to_contain_text("Lifetime")
    await expect(checks).to_contain_text("less than 5% is too little")
    await expect(checks.locator(".bk-tag.warn")).to_have_text(["CPU 30%", "Memory 25%"])
    await expect(checks.locator(".bk-tag.ok").last).to_have_text("It is used.")
    use = page.get_by_role("region", name="Use")
    await expect(use).to_contain_text("0.62 cores")
    await expect(use).to_contain_text("Received")
    warning = page.locator("[data-warns]")
    await expect(warning).to_contain_text("lab3-cnn will be ended at")
    barriers = Barriers()
    await barriers.look(page, "session with idle checks")
    assert not barriers.found, str(barriers)
    await checks.get_by_role("button", name="Keep it 2 h").click()
    await expect(checks).to_contain_text(re.compile(r"2 h 3\d min left"))
    await expect(checks).to_contain_text("6 h are left to you")
    await expect(warning).to_have_count(0)
    assert service.store.idle_records()[session.id].kept == 7200


async def test_the_list_and_the_warning_on_a_phone(
    service: Running, sample: Sample, visit: Open
) -> None:
    sample.agents()
    session = await watched(service, sample)
    used(service, session)
    page = await visit("", width=390, policy=False)
    row = page.locator(f"#s-{session.id}")
    await expect(row).to_contain_text("min left")
    await expect(row).to_contain_text("CPU 62%")
    await expect(page.locator("[data-warns]")).to_contain_text("Keep it 2 h")
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    barriers = Barriers()
    await barriers.look(page, "sessions with a warning")
    assert not barriers.found, str(barriers)


async def test_it_is_kept_without_any_script(service: Running, sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await watched(service, sample)
    page = await visit(f"sessions/{session.id}/keep", js=False)
    await expect(page.locator("main")).to_contain_text("nobody has used for 4 hours")
    await page.get_by_role("button", name="Keep it 2 h").click()
    await expect(page.locator("h1")).to_have_text("lab3-cnn")
    assert service.store.idle_records()[session.id].kept == 7200
