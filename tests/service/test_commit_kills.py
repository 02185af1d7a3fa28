"""kill -9 of the process that makes an image, at every step, with a real Docker: afterwards the
next one makes it whole, or leaves nothing, and the session goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.site.clock import utcnow

from ..pauses import pauses_of
from .commit_process import STEPS
from .killing import killing

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SOCKET = "unix:///var/run/docker.sock"
IMAGE = "backendai-base:bookworm"
MUCH = 200 * 1024**2  # bytes that Docker reads for seconds


@pytest.mark.parametrize("cancelled", [False, True], ids=["goes-on", "cancelled"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_process_that_is_killed(tmp_path: Path, step: str, cancelled: bool) -> None:
    async with killing(tmp_path, SOCKET, IMAGE) as work:
        with work.process(step) as process:
            assert process.wait(240) == -signal.SIGKILL, work.log
        if cancelled:
            work.service.store.cancel_commit(work.commit.id, utcnow())
        over = work.finish()
        work.check(over)
        expected = CommitStatus.CANCELLED if cancelled else CommitStatus.DONE
        assert over.status is (CommitStatus.DONE if step == "finished" else expected)


@pytest.mark.parametrize("cancelled", [False, True], ids=["goes-on", "cancelled"])
async def test_docker_reads_on_for_a_process_that_is_gone(tmp_path: Path, cancelled: bool) -> None:
    """It lets the session go on at the end of that, and names an image then."""
    async with killing(tmp_path, SOCKET, IMAGE, MUCH) as work:
        with pauses_of(work.docker, work.container) as pauses:
            with work.process("reading") as process:
                assert process.wait(240) == -signal.SIGKILL, work.log
            assert work.still(), "Docker reads"
            if cancelled:
                work.service.store.cancel_commit(work.commit.id, utcnow())
            # What the next process begins with, but at once.
            images = work.service.service.parts.site.engine.images
            await images.clean(work.commit.agent, work.commit.id)
            assert work.left() == []
            over = work.finish()
            commits = 1 if cancelled else 2
            seen = pauses.over(commits)
        work.check(over)
        assert over.status is (CommitStatus.CANCELLED if cancelled else CommitStatus.DONE)
        # It stands still from the beginning of each reading to its end.
        assert seen == ["pause", "commit", "unpause"] * commits
