"""One session: its panel, its history, its log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from jupyterhub_backendai.engine.logs import LogPart
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.service.calls import logs as logs_call
from jupyterhub_backendai.site.clock import utcnow

from ...service.running import keep_log
from .conftest import Open
from .sample import Sample

GPU = {"resource_group": "gpu-lab", "preset": "gpu-small"}


async def test_a_session_that_waits_says_why_and_until_when(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    page = await visit(f"sessions/{made['lab4-attention'].id}")
    why = page.get_by_role("region", name="In line, #1")
    await expect(why).to_contain_text("Waiting for 1 FGPU: none is free")
    await expect(why).to_contain_text("Starts at about")  # comes late: it takes its time
    passed = why.get_by_role("img", name="Passed", exact=True)
    await expect(passed).to_have_count(7)
    await expect(why.get_by_role("img", name="Not passed")).to_have_count(1)


async def test_an_estimate_is_asked_for_when_something_changed(sample: Sample, visit: Open) -> None:
    """Not at each refresh: it is the most that a page asks of the server."""
    made = await sample.all("alice")
    ahead = made["lab4-attention"]
    session = await sample.submit("alice", "behind", **GPU)
    sample.place()
    page = await visit("notices")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url.partition("part=")[2]))
    await page.goto(page.url.replace("notices", f"sessions/{session.id}"))
    await expect(page.locator("#bk-why")).to_contain_text("In line, #2")
    await expect(page.locator("#bk-live")).to_have_text("Live")
    await expect(page.locator("[data-late=start]")).to_contain_text(
        re.compile("start", re.IGNORECASE)
    )
    assert asked.count("start") == 1
    for name in ("renamed", "renamed-again"):
        sample.store.change(session.id, name, None, None)
        await expect(page.locator("h1")).to_have_text(name)
    assert asked.count("detail") >= 2
    assert asked.count("start") == 1
    sample.store.move(
        ahead.id, Status.CANCELLED, phase=Phase.CANCEL, now=utcnow(), reason_code="user_requested",
        reason="You ended it.",
    )  # fmt: skip
    sample.place()
    await expect(page.locator("#bk-why")).to_contain_text("In line, #1")
    await expect(page.locator("[data-late=start]")).to_contain_text(
        re.compile("start", re.IGNORECASE)
    )
    assert asked.count("start") == 2


async def test_a_job_that_fails_with_3_shows_the_3(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    page = await visit(f"sessions/{made['nightly'].id}")
    await expect(page.get_by_role("region", name="Why it ended")).to_contain_text("exit code 3")
    await expect(page.locator("header .bk-tag.why")).to_have_text("exit code 3")
    await expect(page.locator("header .bk-tag.bad")).to_have_text("Failure")
    await expect(page.get_by_role("link", name="Start again")).to_be_visible()


async def test_rename_in_place(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "before", 5)
    await sample.run("alice", "taken", 4)
    page = await visit(f"sessions/{session.id}")
    await page.get_by_role("button", name="Rename before").click()
    field = page.get_by_role("textbox", name="New name")
    await expect(field).to_be_focused()
    await field.fill("x y")
    await field.press("Enter")
    await expect(page.get_by_role("alert").filter(has_text="at least 4 characters")).to_be_visible()
    await expect(field).to_be_focused()
    await field.fill("taken")
    await field.press("Enter")
    await expect(page.get_by_role("alert").filter(has_text="taken")).to_be_visible()
    await field.fill("after")
    await field.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("after")
    await expect(page.get_by_role("button", name="Rename after")).to_be_focused()
    assert sample.store.get(session.id).name == "after"


async def test_the_gpus_it_has_and_that_there_are_none(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "trains", 5, **GPU)
    page = await visit(f"sessions/{session.id}")
    about = page.get_by_role("region", name="About")
    await expect(about).to_contain_text(
        "1 FGPU of NVIDIA L40S (GPU-5a5a5a5a…), 22 GB of GPU memory"
    )
    await expect(about.get_by_text("simulated", exact=True)).to_be_visible()
    await expect(about).to_contain_text("There is no such GPU")


async def test_a_rename_while_it_starts(sample: Sample, visit: Open) -> None:
    """What changes meanwhile and is not the name is in nobody's way."""
    sample.agents()
    session = await sample.submit("alice", "before")
    page = await visit(f"sessions/{session.id}")
    await page.get_by_role("button", name="Rename before").click()
    sample.place()
    sample.advance(session, Status.PREPARING, Status.CREATING, Status.RUNNING)
    field = page.get_by_role("textbox", name="New name")
    await expect(page.get_by_role("link", name="Open Jupyter")).to_be_visible()
    await field.fill("after")
    await field.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("after")
    assert sample.store.get(session.id).name == "after"


async def test_a_name_that_somebody_else_changed_meanwhile(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "before", 5)
    page = await visit(f"sessions/{session.id}")
    await page.get_by_role("button", name="Rename before").click()
    field = page.get_by_role("textbox", name="New name")
    sample.store.rename(session.id, "theirs")
    await field.fill("mine")
    await field.press("Enter")
    await expect(page.get_by_role("alert").filter(has_text="named it theirs")).to_be_visible()
    assert sample.store.get(session.id).name == "theirs"
    await field.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("mine")
    assert sample.store.get(session.id).name == "mine"


async def test_escape_in_the_name_leaves_the_panel_open(sample: Sample, visit: Open) -> None:
    sample.agents()
    await sample.run("alice", "before", 5)
    page = await visit("")
    await page.get_by_role("link", name="before", exact=True).click()
    panel = page.get_by_role("dialog", name="before")
    await panel.get_by_role("button", name="Rename before").click()
    await page.keyboard.press("Escape")
    await expect(panel.get_by_role("button", name="Rename before")).to_be_focused()
    await expect(panel).to_be_visible()


async def test_the_panel_opens_beside_the_list_and_goes_back(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    page = await visit("")
    before = page.url
    await page.get_by_role("link", name="thesis-finetune", exact=True).click()
    panel = page.get_by_role("dialog", name="thesis-finetune")
    await expect(panel).to_contain_text("python train.py --epochs 40")
    assert page.url.endswith(f"sessions/{made['thesis-finetune'].id}")
    sample.store.rename(made["thesis-finetune"].id, "renamed")
    panel = page.get_by_role("dialog", name="renamed")
    await expect(panel.get_by_role("heading", level=1)).to_have_text("renamed")
    await page.go_back()
    await expect(panel).to_be_hidden()
    await expect(page).to_have_url(before)
    await page.go_forward()
    await expect(page.get_by_role("dialog")).to_contain_text("python train.py")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page).to_have_url(before)


async def test_the_history_filters_sorts_and_shows_steps(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.submit("alice", "oddly", 30)
    sample.place(30)
    sample.store.retry_or_give_up(
        session.id, phase=Phase.START, error_code="agent_unreachable",
        reason="An agent did not answer, so we try another.", now=utcnow(),
    )  # fmt: skip
    sample.place()
    sample.advance(session, Status.PREPARING, Status.CREATING, Status.RUNNING)
    page = await visit(f"sessions/{session.id}/history")
    rows = page.locator(".bk-history > tbody")
    total = await rows.count()
    assert total == len(sample.store.history(session.id))
    await page.get_by_label("Result").select_option(Result.NEED_RETRY.value)
    await page.get_by_role("button", name="Filter").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("agent_unreachable")
    assert "result=NEED_RETRY" in page.url
    await page.get_by_role("link", name="Clear").click()
    await expect(rows).to_have_count(total)
    await page.get_by_role("link", name="Phase").click()
    await expect(rows.first).to_contain_text("Submit")
    steps = page.locator("details").first
    await steps.locator("summary").click()
    await expect(steps).to_contain_text("check_limits")
    time = page.get_by_role("img", name="In line")
    assert "Being started" in str(await time.get_attribute("aria-label"))


async def test_the_log_is_shown_searched_and_downloaded(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "writes", 5)
    sample.end(session, "user_requested", "You ended it.")
    lines = [f"line {number}\n" for number in range(3000)]
    keep_log(sample.running, session.id, "".join(lines).encode(), b"<b>bold</b> \xff\n")
    page = await visit(f"sessions/{session.id}/log")
    box = page.get_by_role("log", name="Lines")
    await expect(box).to_contain_text("<b>bold</b>")
    text = await box.inner_text()
    assert "line 2999" in text
    assert "line 999\n" not in text  # only its end at first
    await page.get_by_role("searchbox").fill("line 17")
    await expect(page.get_by_role("status").filter(has_text="111 lines found")).to_be_visible()
    await page.get_by_role("searchbox").fill("nowhere")
    await expect(page.get_by_text("No line has it.")).to_be_visible()
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download").click()
    path = await (await waiting.value).path()
    assert path.read_text().splitlines()[0] == "line 0"


async def test_a_log_that_is_quiet_for_long_is_followed_on(
    sample: Sample, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server breaks it off now and then; only the log's own end is told as one."""
    monkeypatch.setattr(logs_call, "LIFETIME", 4)  # more than the page takes for trouble
    sample.agents()
    session = await sample.run("alice", "quiet", 5)
    sample.store.set_kernel(session.id, role="main", agent="cpu-02", container_id="c0ffee")
    opened, goes_on, over = [], asyncio.Event(), asyncio.Event()

    async def open_log(agent: str, container: str, part: LogPart) -> AsyncIterator[bytes]:
        opened.append(part)
        yield b"".join(b"line %d\n" % n for n in range(200))
        for event, line in ((goes_on, b"at last\n"), (over, b"bye\n")):
            await event.wait()
            yield line

    monkeypatch.setattr(sample.site.engine, "open_log", open_log)
    page = await visit(f"sessions/{session.id}/log")
    said, box = page.locator("#bk-log-said"), page.locator("#bk-lines")
    await expect(said).to_have_text("Live")
    await page.evaluate(
        """() => {
          window.told = [];
          const said = document.getElementById("bk-log-said");
          const note = () => told.push(said.textContent);
          new MutationObserver(note).observe(said, { childList: true });
          const box = document.getElementById("bk-lines");
          box.scrollTop = 200;
        }"""
    )
    for _ in range(200):
        if len(opened) == 2:
            break
        await asyncio.sleep(0.05)
    assert [part.follow for part in opened] == [True, True]
    await expect(box).to_have_text("".join(f"line {n}\n" for n in range(200)))
    assert await box.evaluate("box => box.scrollTop") == 200, "where somebody reads"
    goes_on.set()
    await expect(box).to_contain_text("at last")
    assert (await box.inner_text()).count("line 199") == 1
    told = await page.evaluate("told")
    assert set(told) <= {"Live"}
    over.set()
    await expect(said).to_have_text("The log has come to its end.")
    assert (await box.inner_text()).endswith("at last\nbye\n")


async def test_a_log_that_is_not_kept_is_no_empty_one(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "kept", 5)
    sample.end(session, "user_requested", "You ended it.")
    page = await visit(f"sessions/{session.id}/log")
    await expect(page.get_by_role("status").filter(has_text="no such log")).to_be_visible()
    await expect(page.locator("#bk-lines")).to_be_hidden()


async def test_a_long_name_is_no_wider_than_a_phone(sample: Sample, visit: Open) -> None:
    sample.agents()
    long = "averylongnamewithoutanybreak" * 2 + "tillhere"
    runs = await sample.run("alice", long, 5)
    batch = {"type": "batch", "batch": {"command": "true"}}
    over = await sample.run("alice", long[::-1], 5, **batch)
    sample.end(over, "task_finished", "Its command ended.", 0)
    waits = await sample.submit("alice", f"{long[:60]}wait", **GPU)
    sample.place()
    assert len(long) == 64
    paths = ["", "?state=over", "notices", "admin", f"launch?like={over.id}"]
    paths += [f"sessions/{s.id}{part}" for s in (runs, over) for part in ("", "/history", "/log")]
    paths += [f"sessions/{s.id}{part}" for s in (runs, waits) for part in ("", "/end")]
    wide = {}
    for path in paths:
        page = await visit(path, "admin" if path == "admin" else "alice", width=390)
        shown = page.get_by_text(long[:20]).or_(page.get_by_text(long[:-21:-1]))
        await expect(shown.first).to_be_attached()
        wide[path] = await page.evaluate("document.documentElement.scrollWidth")
        await page.context.close()
    assert {path for path, width in wide.items() if width > 390} == set()


async def test_somebody_elses_is_not_there(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "mine", 5)
    for path in ("", "/history", "/log", "/end"):
        page = await visit(f"sessions/{session.id}{path}", "bob")
        await expect(page.locator("main")).to_contain_text("There is no such session.")
        assert "mine" not in await page.locator("main").inner_text()
    page = await visit(f"sessions/{session.id}", "admin")
    await expect(page.get_by_role("heading", level=1)).to_have_text("mine")
    await expect(page.get_by_role("link", name="Open Jupyter")).to_have_count(0)
