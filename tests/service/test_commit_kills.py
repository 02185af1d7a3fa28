"""kill -9 of the process that makes an image, at every step, with a real Docker: afterwards the
next one makes it whole, or leaves nothing, and the session goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.site.clock import utcnow

from .commit_process import STEPS
from .killing import killing

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SOCKET = "unix:///var/run/docker.sock"
IMAGE = "backendai-base:bookworm"


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
