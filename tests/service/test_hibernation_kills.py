"""kill -9 of the process that hibernates a session, at every step, with a real Docker: afterwards
the session rests with all that it wrote, or goes on and nothing of it is there."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.site.clock import utcnow

from .commit_process import RESTING
from .killing import hibernating

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SOCKET = "unix:///var/run/docker.sock"
IMAGE = "backendai-base:bookworm"


@pytest.mark.parametrize("cancelled", [False, True], ids=["goes-on", "cancelled"])
@pytest.mark.parametrize("step", RESTING)
async def test_a_process_that_is_killed(tmp_path: Path, step: str, cancelled: bool) -> None:
    async with hibernating(tmp_path, SOCKET, IMAGE) as work:
        with work.process(step) as process:
            assert process.wait(240) == -signal.SIGKILL, work.log
        if cancelled:
            work.service.store.cancel_commit(work.commit.id, utcnow())
        over = work.finish()
        await work.end()
        work.finish()  # a sweep, now that nothing of it runs
        expected = CommitStatus.CANCELLED if cancelled else CommitStatus.DONE
        assert over.status is (CommitStatus.DONE if step == "finished" else expected)
        work.check(over)
