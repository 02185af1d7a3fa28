"""Images of sessions in the pages: how one is made, launched and deleted, and what is told."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.slots import GIB, KIB
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Made, Session

from ...service.image_shelf import shelf_of
from ...service.images_made import begin, make, move, with_engine
from ...service.running import Running
from ..chromium import Barriers
from .conftest import Open
from .sample import Sample
from .test_pages_access import MOST, weight


@pytest.fixture
async def session(sample: Sample) -> Session:
    """In the group that is not the first."""
    sample.agents()
    with_engine(sample.running)
    gpu = {"resource_group": "gpu-lab", "preset": "gpu-small"}
    session = await sample.run("alice", "lab3-cnn", 192, **gpu)
    sample.store.set_kernel(session.id, agent="gpu-01", container_id="b41f0c9d2a77")
    return session


async def chosen(page: Page) -> list[str]:
    """Version and resource group that the form stands at."""
    return [
        await page.get_by_label("Version").first.input_value(),
        await page.locator("input[name=resource_group]:checked").input_value(),
    ]


@pytest.mark.parametrize("js", [True, False], ids=["scripts", "no-scripts"])
async def test_an_image_is_made_with_the_keyboard(
    visit: Open, service: Running, session: Session, js: bool
) -> None:
    page = await visit(f"sessions/{session.id}", js=js)
    await page.get_by_role("link", name="Make an image").press("Enter")
    size = page.get_by_text("on top of PyTorch 2.9")
    await expect(size).to_contain_text("About 2 GB" if js else "About as many bytes")
    name = page.get_by_label("Name", exact=True)
    await name.fill("no")
    await name.press("Enter")
    await expect(name).to_have_attribute("aria-invalid", "true")
    await expect(name).to_have_value("no")
    await expect(page.locator("#bk-name-error")).to_contain_text("4 to 32 letters")
    await name.fill("cnn-tools")
    await name.press("Enter")
    panel = page.get_by_role("region", name="The image cnn-tools is being made")
    await expect(panel).to_contain_text("About 2 GB")
    await panel.get_by_role("button", name="Cancel").press("Enter")
    await expect(page.get_by_role("heading", name="cnn-tools was cancelled")).to_be_visible()
    assert service.store.commit_of(session.id).status is CommitStatus.CANCELLED


async def test_one_that_would_hold_nothing_is_told_before_it_is_made(
    visit: Open, service: Running, session: Session
) -> None:
    shelf_of(service).written = 500 * KIB
    page = await visit(f"sessions/{session.id}/commit", policy=False)
    there = page.get_by_role("region", name="In the image")
    await expect(there).to_contain_text("would be much like PyTorch 2.9")
    barriers = Barriers()
    await barriers.look(page, "make an image of nothing")
    assert not barriers.found, barriers


async def test_progress_is_told_as_it_comes(
    visit: Open, service: Running, session: Session
) -> None:
    page = await visit("")
    await page.get_by_role("link", name="lab3-cnn", exact=True).click()
    panel = page.get_by_role("dialog", name="lab3-cnn")
    await panel.get_by_role("link", name="Make an image").wait_for()
    commit = begin(service, session, "cnn-tools")
    part = panel.get_by_role("region", name="The image cnn-tools")
    await expect(part).to_contain_text("It waits for its turn.")
    await expect(panel.get_by_role("link", name="Make an image")).to_have_count(0)
    move(service, commit, CommitStatus.COMMITTING, CommitStatus.PUSHING)
    service.store.note_commit(commit.id, size=2 * GIB, done=GIB)
    await expect(part).to_contain_text("1 GB of 2 GB")
    bar = part.get_by_role("progressbar")
    await expect(bar).to_have_attribute("value", str(GIB))
    made = Made("sha256:1", "sha256:0", 7 * GIB, 2 * GIB, None)
    service.store.finish_commit(commit.id, made, utcnow())
    await expect(part).to_contain_text("is made")
    note = page.locator("#bk-toasts").get_by_text("The image cnn-tools is made")
    await expect(note).to_be_visible()
    await part.get_by_role("link", name="Launch with it").click()
    await expect(page).to_have_url(re.compile("launch"))
    await page.wait_for_selector("#backendai[data-ready]")
    await expect(page.locator("#bk-review")).to_contain_text("PyTorch Customizedcnn-tools")


async def test_what_failed_says_why(visit: Open, service: Running, session: Session) -> None:
    page = await visit(f"sessions/{session.id}")
    await page.get_by_role("button", name="Notifications, 1 new").wait_for()
    commit = move(service, begin(service, session, "too-large"), CommitStatus.COMMITTING)
    why = "The disk of gpu-01 is full. Delete images, or tell your admin."
    move(service, commit, CommitStatus.FAILED, error_code="no_room", message=why)
    part = page.get_by_role("region", name="The image too-large was not made")
    await expect(part).to_contain_text(why)
    await expect(part.get_by_role("link", name="Make an image")).to_be_visible()
    await expect(page.locator("#bk-toasts")).to_contain_text("The image too-large was not made")


async def test_the_group_follows_an_image_that_is_on_one_agent(
    visit: Open, service: Running, session: Session
) -> None:
    make(service, session, "cnn-tools")
    page = await visit("launch?step=2")
    await page.wait_for_selector("#backendai[data-ready]")
    version = page.get_by_label("Version").first
    assert await chosen(page) == ["2.9", "default"]
    await version.select_option("Customizedcnn-tools")
    await expect(page.locator("#bk-place")).to_contain_text("on the agent gpu-01 only")
    assert await chosen(page) == ["Customizedcnn-tools", "gpu-lab"]
    await version.select_option("2.9")
    await expect(page.locator("#bk-place")).to_have_text("")
    # What the form stands at is what the server takes.
    await version.select_option("Customizedcnn-tools")
    await page.get_by_role("link", name="Confirm and launch").first.click()
    await page.get_by_role("button", name="Launch", exact=True).click()
    await expect(page).to_have_url(re.compile("launched="))


async def test_an_image_is_copied_and_deleted(
    visit: Open, service: Running, session: Session
) -> None:
    image = make(service, session, "cnn-tools")
    page = await visit("images")
    row = page.get_by_role("row").filter(has_text="cnn-tools")
    for said in ("PyTorch 2.9", "2 GB", "7 GB with its base", "never", "gpu-01 only"):
        await expect(row).to_contain_text(said)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await row.get_by_role("button", name="Copy the full name of cnn-tools").click()
    assert await page.evaluate("navigator.clipboard.readText()") == image.reference
    await row.get_by_role("link", name="Delete cnn-tools").click()
    await page.get_by_role("button", name="Delete image").click()
    leaving = page.get_by_role("region", name="Being deleted")
    await expect(leaving).to_contain_text("cnn-tools")
    await expect(page.get_by_role("table")).to_have_count(0)
    service.store.drop_image(image.id)
    await expect(leaving).to_have_count(0)


async def test_the_pages_of_images_shut_nobody_out(
    visit: Open, service: Running, session: Session, sample: Sample
) -> None:
    barriers = Barriers()
    own = f"sessions/{session.id}"

    async def look(path: str, where: str) -> None:
        page = await visit(path, policy=False)
        await page.wait_for_load_state("networkidle" if path.endswith("commit") else "load")
        await barriers.look(page, where)
        light = await visit(path)
        await light.wait_for_load_state("load")
        loaded = await weight(light)
        assert sum(loaded.values()) < MOST, (where, loaded)
        await light.context.close()
        await page.context.close()

    await look("images", "images none")
    leaving = await sample.run("alice", "stats", 31)
    image = make(service, leaving, "old-env")
    service.store.delete_image(image.id)
    service.store.note_deletion(image.id, "cpu-02 does not answer. It is tried again.")
    for name in ("cnn-tools", "thesis-env"):
        make(service, session, name)
    await look(f"{own}/commit", "make an image")
    commit = begin(service, session, "spacy-nlp")
    move(service, commit, CommitStatus.COMMITTING)
    with_image = {
        "environment": "pytorch",
        "version": "Customizedcnn-tools",
        "resource_group": "gpu-lab",
        "preset": "small",
    }
    await sample.run("alice", "lab4-attention", 31, **with_image)
    await look("images", "images")
    await look(own, "session image under way")
    await look(f"{own}/end", "end image under way")
    why = "The disk of gpu-01 is full. Delete images of yours there, or tell your admin."
    move(service, commit, CommitStatus.FAILED, error_code="no_room", message=why)
    await look(own, "session image failed")
    (used, _) = (i for i in service.store.images_of("alice") if i.name != "old-env")
    await look(f"images/{used.id}/delete", "delete an image in use")
    (free,) = (i for i in service.store.images_of("alice") if i.name == "thesis-env")
    await look(f"images/{free.id}/delete", "delete an image")
    make(service, session, "spacy-nlp")
    await look(own, "session image made")
    await look("launch?step=2&version.pytorch=Customizedcnn-tools", "launch with an image")
    assert not barriers.found, barriers
