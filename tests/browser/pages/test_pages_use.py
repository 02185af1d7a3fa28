"""What a session used, drawn in a real browser; and clocks of browsers that are off."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from jupyterhub_backendai.model.usage import Span, Step, span_of
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Session

from ...service.running import Running, running, until_open
from ..chromium import Barriers
from .conftest import Open
from .sample import SITE, Sample

DRAWN = """() => [...document.querySelectorAll("[data-charts] canvas")].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let colours = 0;
    for (let at = 0; at < data.length; at += 4) {
        const grey = Math.max(data[at], data[at + 1], data[at + 2])
            - Math.min(data[at], data[at + 1], data[at + 2]);
        if (data[at + 3] > 200 && grey > 60) colours += 1;
    }
    return colours;
})"""
# The colour of each bar of tables, as a pixel has it, and whether a line of the chart has it.
SAME = """() => {
    const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const pixel = (colour) => {
        brush.fillStyle = "#010203"; // which is left where the other is none
        brush.fillStyle = colour;
        brush.fillRect(0, 0, 1, 1);
        return [...brush.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    };
    const canvas = document.querySelector("[data-charts] canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return Object.fromEntries(["cpu", "mem", "gpu"].map((kind) => {
        const bar = document.createElement("progress");
        bar.className = `bk-share ${kind}`;
        bar.style.color = "var(--fill)";
        document.body.append(bar);
        const wanted = pixel(getComputedStyle(bar).color);
        bar.remove();
        let found = 0;
        for (let at = 0; at < data.length; at += 4)
            found += wanted.every((value, part) => Math.abs(value - data[at + part]) <= 2) ? 1 : 0;
        return [kind, [wanted.join(" "), found > 20]];
    }));
}"""
SHIFTED = """(() => {
    const real = Date, ahead = %d;
    globalThis.Date = class extends real {
        constructor(...given) { given.length ? super(...given) : super(real.now() + ahead); }
        static now() { return real.now() + ahead; }
    };
})()"""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, **SITE) as started:
        await until_open(started)
        yield started


def steps(session: Session, minutes: int, gpu: float | None = None) -> list[Span]:
    """Steps of 15 seconds up to now, with a gap of five minutes in the middle."""
    now, found = utcnow(), []
    for number in range(4 * minutes):
        ago = 15 * (4 * minutes - number)
        if 600 <= ago < 900:
            continue
        wave = math.sin(number / 9)
        found.append(span_of(Step(
            session.id, now - timedelta(seconds=ago), 15, cpu=500 + 300 * wave,
            mem=2**29 * (1 + wave / 4), net_in=3e6 * (1 + wave), net_out=4e4, gpu=gpu,
        )))  # fmt: skip
    return found


async def busy(service: Running, sample: Sample, gpu: float | None = None) -> Session:
    sample.agents()
    where = {} if gpu is None else {"resource_group": "gpu-lab", "preset": "gpu-small"}
    session = await sample.run("alice", "lab3-cnn", 230, **where)
    service.store.add_usage(steps(session, 40, gpu), before=None, now=utcnow())
    return session


async def until_drawn(page: Page, count: int) -> None:
    """Until so many charts are there, and each has lines in it."""
    await expect(page.locator("[data-charts] canvas")).to_have_count(count)
    await page.wait_for_function(f"({DRAWN})().every((colours) => colours > 100)")


async def test_it_is_drawn_and_told(service: Running, sample: Sample, visit: Open) -> None:
    session = await busy(service, sample)
    page = await visit(f"sessions/{session.id}", policy=False)
    await until_drawn(page, 2)
    charts = page.locator("[data-charts]")
    of_all = charts.get_by_role("img", name=re.compile("^Of what was granted from"))
    await expect(of_all).to_have_accessible_name(re.compile(r"CPU \d+% at last, \d+% at most; Mem"))
    await expect(charts.get_by_role("img", name=re.compile("^Network"))).to_have_count(1)
    hour = charts.get_by_role("button", name="Last hour")
    await expect(hour).to_have_attribute("aria-pressed", "true")
    everything = charts.get_by_role("button", name="All")
    await everything.focus()
    await page.keyboard.press("Enter")
    await expect(everything).to_have_attribute("aria-pressed", "true")
    await until_drawn(page, 2)
    await page.evaluate("document.documentElement.dataset.bsTheme = 'dark'")
    await until_drawn(page, 2)
    barriers = Barriers()
    await barriers.look(page, "session with charts")
    assert not barriers.found, str(barriers)


async def test_lines_have_the_colours_of_the_bars_above(
    service: Running, sample: Sample, visit: Open
) -> None:
    """CPU blue, memory purple, GPU orange; in both themes."""
    session = await busy(service, sample, gpu=90)
    page = await visit(f"sessions/{session.id}")
    for theme in ("light", "dark"):
        await page.evaluate("to => document.documentElement.dataset.bsTheme = to", theme)
        await until_drawn(page, 2)
        await page.wait_for_function(f"Object.values(({SAME})()).every(([, same]) => same)")
        found = await page.evaluate(SAME)
        red, green, blue = zip(
            *(map(int, found[kind][0].split()) for kind in ("cpu", "mem", "gpu")), strict=True
        )
        assert blue[0] > max(red[0], green[0]), "CPU is blue"
        assert min(red[1], blue[1]) > green[1], "memory is purple"
        assert red[2] > green[2] > blue[2], "GPU is orange"


async def test_it_goes_on_by_itself(service: Running, sample: Sample, visit: Open) -> None:
    session = await busy(service, sample)
    page = await visit(f"sessions/{session.id}")
    await until_drawn(page, 2)
    charts = page.locator("[data-charts]")
    more = Step(session.id, utcnow(), 15, cpu=1000, mem=2**30, net_in=9e9, net_out=1)
    service.store.add_usage([span_of(more)], before=None, now=utcnow())
    told = re.compile(r"Received \d{2,} MB/s at last")
    image = charts.get_by_role("img", name=re.compile("^Network"))
    await expect(image).to_have_accessible_name(told, timeout=60_000)


async def test_it_fits_a_phone(service: Running, sample: Sample, visit: Open) -> None:
    session = await busy(service, sample)
    page = await visit(f"sessions/{session.id}", width=390)
    await until_drawn(page, 2)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = await page.locator("[data-charts] canvas").first.bounding_box()
    assert wide is not None
    assert 200 <= wide["width"] <= 390


async def test_one_that_was_never_measured_has_no_charts(
    service: Running, sample: Sample, visit: Open
) -> None:
    sample.agents()
    session = await sample.run("alice", "lab3-cnn", 230)
    page = await visit(f"sessions/{session.id}")
    await expect(page.locator("[data-charts]")).to_contain_text("Nothing was measured in this time")
    await expect(page.locator("[data-charts] canvas")).to_have_count(0)


@pytest.mark.parametrize("hours", [-5, 0, 30])
async def test_times_go_by_the_servers_clock(sample: Sample, visit: Open, hours: int) -> None:
    sample.agents()
    session = await sample.run("alice", "lab3-cnn", 230)
    page = await visit(f"sessions/{session.id}", script=SHIFTED % (hours * 3_600_000))
    await expect(page.locator("header time").first).to_have_text(re.compile(r"^3 h 5\d min$"))
