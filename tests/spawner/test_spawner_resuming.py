"""What is not there any more when a session is resumed: it says so, and rests again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from spawners import site_config, spawner_of
from test_spawner_unknown import rested, running

from jupyterhub_backendai.engine.images import LABEL_IMAGE_HUB, LABEL_IMAGE_ID, MadeImage
from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner
from jupyterhub_backendai.spawner.errors import why
from jupyterhub_backendai.store import Session


@pytest.fixture
async def spawner(tmp_path: Path) -> AsyncIterator[DockerSessionSpawner]:
    spawner = spawner_of(site_config(tmp_path), DockerSessionSpawner)
    yield spawner
    await spawner.site.close()


class Agent:
    """What a test says that the agent has of a session; where nobody says, Docker is asked, which
    does not answer there."""

    def __init__(
        self, spawner: DockerSessionSpawner, session: Session, patch: pytest.MonkeyPatch
    ) -> None:
        self.site = site = spawner.site
        rest = site.store.hibernation(session.id)
        assert rest is not None
        self.labels = {LABEL_IMAGE_ID: rest.id, LABEL_IMAGE_HUB: site.hub_id}
        self.image: MadeImage | None = MadeImage("sha256:2", 10, 5, self.labels)
        self.homes_kept: list[bool] = []
        for name in ("find", "has_home", "stop_session", "remove_session"):
            where = site.engine.images if name == "find" else site.engine
            patch.setattr(where, name, getattr(self, name))
        patch.setattr(site.folders, "create", self.stop_session)

    async def find(self, agent: str, reference: str) -> MadeImage | None:
        return self.image

    async def has_home(self, agent: str, session_id: str) -> bool:
        return True

    async def stop_session(self, *_: Any) -> None:
        return

    async def remove_session(self, agent: str, session_id: str, keep_home: bool = False) -> int:
        self.homes_kept.append(keep_home)
        return 0


async def resumed(
    spawner: DockerSessionSpawner, patch: pytest.MonkeyPatch, **image: Any
) -> tuple[LaunchError, Session]:
    """What comes of a resuming where the agent's image is otherwise: why, and the session."""
    store = spawner.site.store
    session = rested(spawner.site, running(spawner.site))
    agent = Agent(spawner, session, patch)
    if image:
        labels = {**agent.labels, **image["labels"]} if image["labels"] is not None else None
        agent.image = None if labels is None else MadeImage("sha256:2", 10, 5, labels)
    store.run_pass(spawner.site.policies, spawner.site.catalog, session.submitted_at)
    session = store.get(session.id)
    assert (session.status, session.agent) == (Status.SCHEDULED, "here")
    with pytest.raises(LaunchError) as error:
        await spawner._on_agent(session, session.request)
    await spawner.site.end(session.id, *why(error.value))  # as the clean-up of a start does it
    assert all(agent.homes_kept)
    assert store.is_kept(session.id)
    return error.value, store.get(session.id)


@pytest.mark.parametrize(
    "labels",
    [None, {LABEL_IMAGE_ID: "0" * 32}, {LABEL_IMAGE_HUB: "another"}],
    ids=["gone", "of-another-session", "of-another-hub"],
)
async def test_its_image(
    spawner: DockerSessionSpawner, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, session = await resumed(spawner, monkeypatch, labels=labels)
    assert error.reason == "image_missing"
    assert session.status is Status.HIBERNATED
    assert session.reason.startswith("The image that was kept of it is not on here any more")


async def test_its_environment(
    spawner: DockerSessionSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ({"name": "other", "image": "python:3"},)
    monkeypatch.setattr(spawner.site, "catalog", Catalog(environments=others))  # type: ignore[arg-type]
    error, rests = await resumed(spawner, monkeypatch)
    assert error.reason == "environment_gone"
    assert rests.status is Status.HIBERNATED
    assert "environment python is not offered any more" in rests.reason
