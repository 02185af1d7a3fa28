"""Warnings of a real session of a real Hub, to a real receiver: in time, and once."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from .harness import running, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

LONG = 180  # seconds that a test waits for what takes half a minute on a machine at rest
PUBLIC = "https://hub.example.org"
SENT = "select state from notices where session_id = ? and channel = 'webhook' and state = 'sent'"


class Receiver(ThreadingHTTPServer):
    """Takes all, and notes it with the time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.got: list[tuple[float, dict[str, Any]]] = []


class Taking(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.got.append((time.time(), json.loads(self.rfile.read(length))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_webhook_is_told_once_before_the_end(tmp_path: Path) -> None:
    with receiver() as hook:
        settings = {
            "JupyterHub": {"public_url": f"{PUBLIC}/"},
            "BackendAI": {
                "usage_interval": 2,
                "idle": {"lifetime": "60s"},
                "idle_warnings": ["30s"],
                "notices_webhook": {"url": f"http://127.0.0.1:{hook.server_port}/hook"},
                "presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}],
                "agents": [{"name": "local", "capacity": {"cpu": 16, "mem": "16g"}}],
            },
        }
        with running(tmp_path, settings=settings) as hub:
            health = f"{hub.url}/services/backendai/health"
            wait_for("the service", lambda: requests.get(health, timeout=10).status_code == 200)
            hub.add_user("alice")
            assert hub.launch("alice", {"name": "work", "preset": "small"}).status_code in {
                201, 202,
            }  # fmt: skip
            hub.until_ready("alice", timeout=LONG)
            session = hub.sessions("alice")[-1]["id"]
            wait_for("the warning", lambda: hook.got, LONG)
            # Whoever comes after knows that it was sent.
            wait_for("the note of it", lambda: hub.rows(SENT, session), LONG)
            for process in hub.services():
                os.kill(process, signal.SIGKILL)
            wait_for("its end", lambda: hub.sessions("alice")[-1]["ended_at"], LONG)
            ((at, told),) = hook.got
            assert (told["owner"], told["session"]) == ("alice", {"id": session, "name": "work"})
            assert told["url"] == f"{PUBLIC}/services/backendai/sessions/{session}"
            assert told["check"] == "lifetime"
            left = datetime.fromisoformat(told["ends_at"]).timestamp() - at
            assert left <= 31, "not before its time"
            assert hub.sessions("alice")[-1]["reason_code"] == "idle_lifetime"
