"""A Hub that is restarted while an image is made of a session, which stands still meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from .harness import running, wait_for
from .test_images import SETTINGS, Api

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
# How the Hub asks a server whether it is there. It starts the service ten seconds after that began.
IMPATIENT = """
import aiohttp
c.Spawner.http_timeout = 1
c.JupyterHubHTTPClient.session_options = {"timeout": aiohttp.ClientTimeout(sock_read=4)}
"""
MUCH = 200 * 1024**2  # bytes that Docker reads for seconds


def test_a_session_that_stands_still_is_not_taken_for_dead(tmp_path: Path) -> None:
    with running(tmp_path, settings=SETTINGS) as hub:
        api = Api(hub, "owner")
        assert hub.launch("owner").status_code in {201, 202}
        hub.until_ready("owner")
        session = hub.sessions("owner")[-1]["id"]
        container = hub.container_of(session)
        write = f"head -c {MUCH} /dev/urandom > /opt/much"
        assert container.exec_run(["sh", "-c", write], user="root").exit_code == 0

        def stands_still() -> bool:
            container.reload()
            return bool(container.attrs["State"]["Paused"])

        path = f"api/sessions/{session}/commit"
        assert api.call("POST", path, json={"name": "mine"}).status_code == 202
        wait_for("it to stand still", stands_still)
        hub.kill()
        for pid in hub.services():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for("the service to be gone", lambda: not hub.services())
        # Docker lets it go on by itself, unless it was killed, too: until the service is back.
        wait_for("Docker to be through", lambda: not stands_still(), 240)
        assert [row["status"] for row in hub.rows("select status from commits")] == ["COMMITTING"]
        container.pause()
        hub.extra = IMPATIENT
        hub.start()
        hub.until_ready("owner", timeout=240)
        assert hub.run_inside(session, "echo", "here") == "here\n"
        row = api.call("GET", path).json()
        assert row["status"] == "DONE", (row, hub.log_text()[-3000:])
        assert hub.sessions("owner")[-1]["status"] == "RUNNING"
        assert hub.container_of(session).id == container.id
        image = api.images()[0]["id"]
        assert api.call("DELETE", f"api/images/{image}").status_code == 202
        wait_for("the image to be gone", lambda: api.images() == [], 120)
