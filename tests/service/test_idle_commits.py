"""Idle checks and the making of an image: the end comes after that."""

from __future__ import annotations

from pathlib import Path

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.site.clock import utcnow

from .image_shelf import begin
from .test_idle_worker import HOUR, idle


async def test_a_session_ends_after_its_image_is_made(tmp_path: Path) -> None:
    async with idle(tmp_path, {"lifetime": "1h"}) as one:
        session = {"id": one.id, "owner": "alice"}
        commit = begin(one.service, session)
        one.service.store.move_commit(commit.id, CommitStatus.COMMITTING, utcnow())
        await one.rounds(HOUR + 600, each=60)
        assert one.session.status is Status.RUNNING
        one.service.store.move_commit(commit.id, CommitStatus.FAILED, utcnow())
        await one.rounds(600, each=60)
        assert one.session.reason_code == "idle_lifetime"
        assert not one.is_running
