"""Hibernating in the pages: a session is put to rest, resumed and ended, by people of all kinds."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Return, Session

from ...service.images_made import begin_rest, move, rest, with_engine
from ...service.running import Running
from ..chromium import Barriers
from .conftest import Open
from .sample import Sample


@pytest.fixture
async def session(sample: Sample) -> Session:
    sample.agents()
    with_engine(sample.running)
    session = await sample.run("alice", "lab3-cnn", 192)
    sample.store.set_kernel(session.id, agent="cpu-02", container_id="b41f0c9d2a77")
    return session


@pytest.mark.parametrize("js", [True, False], ids=["scripts", "no-scripts"])
async def test_one_is_hibernated_and_resumed_with_the_keyboard(
    visit: Open, service: Running, session: Session, js: bool
) -> None:
    page = await visit(f"sessions/{session.id}", js=js)
    await page.get_by_role("link", name="Hibernate").press("Enter")
    await expect(page.get_by_role("region", name="Not kept")).to_contain_text("kernels too")
    size = page.get_by_role("region", name="Kept", exact=True)
    await expect(size).to_contain_text("about 2 GB" if js else "about as many bytes")
    await page.get_by_role("button", name="Hibernate").press("Enter")
    panel = page.get_by_role("region", name="It is being hibernated")
    await expect(panel).to_contain_text("It waits for its turn.")
    await panel.get_by_role("button", name="Cancel").press("Enter")
    await expect(page.get_by_role("heading", name="Hibernating was cancelled")).to_be_visible()
    assert service.store.commit_of(session.id).status is CommitStatus.CANCELLED
    rest(service, session)
    await page.reload()
    told = page.get_by_role("region", name="Hibernated")
    await expect(told).to_contain_text("You hibernated it.")
    await expect(told).to_contain_text("Until it is resumed it holds nothing.")
    await page.get_by_role("button", name="Resume", exact=True).press("Enter")
    await expect(page.get_by_role("heading", name="In line")).to_be_visible()
    assert service.store.get(session.id).status is Status.PENDING
    # Who does not want to wait for it cancels that, and it rests again.
    await page.get_by_role("link", name="Cancel", exact=True).press("Enter")
    await expect(page.get_by_text("It rests again, and nothing of it is lost.")).to_be_visible()
    await expect(page.get_by_label("Force it")).to_be_hidden()
    await page.get_by_role("button", name="Cancel session").press("Enter")
    await expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    assert service.store.get(session.id).status is Status.HIBERNATED
    await expect(told).to_contain_text("You cancelled its resuming.")
    await page.get_by_role("link", name="Terminate", exact=True).press("Enter")
    lost = "What is kept of it, its home and what was installed in it, is deleted."
    await expect(page.get_by_text(lost)).to_be_visible()


async def test_the_list_has_those_that_rest(
    visit: Open, service: Running, session: Session
) -> None:
    page = await visit("")
    row = page.get_by_role("row").filter(has_text="lab3-cnn")
    await expect(row).to_contain_text("Running")
    rest(service, session)
    await expect(row).to_contain_text("Hibernated")
    await expect(row).to_contain_text("then it is dropped")
    await expect(row.get_by_role("link", name="Open lab3-cnn")).to_have_count(0)
    await row.get_by_role("button", name="Resume lab3-cnn").click()
    await expect(page.get_by_role("heading", name="In line")).to_be_visible()


async def test_what_is_to_rest_again_and_runs_by_now_is_asked_for_anew(
    visit: Open, service: Running, session: Session
) -> None:
    store, site = service.store, service.service.parts.site
    rest(service, session)
    store.resume(session.id, Return("alice", (), None), utcnow())
    page = await visit(f"sessions/{session.id}")
    await page.get_by_role("link", name="Cancel", exact=True).click()
    await expect(page.get_by_text("It rests again, and nothing of it is lost.")).to_be_visible()
    store.run_pass(site.policies, site.catalog, utcnow())
    for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
        store.move(session.id, status, phase=Phase.START, now=utcnow())
    await page.get_by_role("button", name="Cancel session").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("alert")).to_contain_text("It runs by now")
    await expect(dialog).to_contain_text("Files outside folders are deleted.")
    assert store.is_kept(session.id)
    await dialog.get_by_role("button", name="Terminate session").click()
    await expect(dialog).to_be_hidden()
    assert not store.is_kept(session.id)


async def test_what_cannot_rest_says_why(visit: Open, service: Running, session: Session) -> None:
    other = await visit(f"sessions/{session.id}/hibernate")
    commit = move(service, begin_rest(service, session), CommitStatus.COMMITTING)
    await other.reload()
    await expect(other.get_by_role("region", name="It is being hibernated")).to_be_visible()
    why = "The disk of cpu-02 is full. Delete images, or tell your admin."
    move(service, commit, CommitStatus.FAILED, error_code="no_room", message=why)
    page = await visit(f"sessions/{session.id}")
    part = page.get_by_role("region", name="It was not hibernated")
    await expect(part).to_contain_text(why)


async def test_the_pages_shut_nobody_out(
    visit: Open, service: Running, session: Session, sample: Sample
) -> None:
    barriers = Barriers()

    async def look(path: str, where: str) -> None:
        page = await visit(path, policy=False)
        await page.wait_for_load_state("networkidle" if path.endswith("hibernate") else "load")
        await barriers.look(page, where)
        await page.context.close()

    own = f"sessions/{session.id}"
    await look(f"{own}/hibernate", "hibernate")
    commit = move(service, begin_rest(service, session), CommitStatus.COMMITTING)
    await look(own, "session being hibernated")
    await look(f"{own}/end", "end one that is being hibernated")
    move(service, commit, CommitStatus.CANCELLED, message="It was cancelled.")
    rest(service, session)
    await sample.run("alice", "lab4-attention", 31)
    await look("", "sessions with one hibernated")
    await look(own, "session hibernated")
    await look(f"{own}/end", "end one that is hibernated")
    assert not barriers.found, barriers
