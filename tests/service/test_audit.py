"""The audit log: one line of each change, with nothing in it that is nobody's business."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from .running import Running, launch, running, until, until_open

SECRET = "s3cret-value"


async def lines_of(path: Path, count: int) -> list[dict[str, Any]]:
    """As soon as there are so many."""

    def read() -> list[str]:
        return path.read_text().splitlines(keepends=True) if path.exists() else []

    await until(lambda: "".join(read()).count("\n") >= count)
    return [json.loads(line) for line in read()]


async def test_each_change_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "backendai.audit")
    file = tmp_path / "audit.log"
    async with running(tmp_path, audit_log=str(file)) as service:
        await until_open(service)
        made = await launch(service, "alice", {"name": SECRET, "env": {"A": SECRET}})
        at = f"api/sessions/{made['id']}"
        await service.call("GET", at, "alice")
        await service.call("PATCH", at, "alice", json={"priority": 3}, params={"x": SECRET})
        await service.call("DELETE", at, "bob")
        await service.call("DELETE", at)  # by nobody who is known
        await service.call("PATCH", "api/agents/local", "alice", json={"schedulable": False})
        await service.call("DELETE", at, "admin", params={"force": "1"})
        lines = await lines_of(file, 5)
        assert [(one["who"], one["method"], one["path"], one["status"]) for one in lines] == [
            ("alice", "POST", "api/sessions", 201),
            ("alice", "PATCH", at, 400),
            ("bob", "DELETE", at, 404),
            ("alice", "PATCH", "api/agents/local", 403),
            ("admin", "DELETE", at, 202),
        ]
        ids = [one.get("sessions") for one in lines]
        assert ids == [[made["id"]], [made["id"]], [made["id"]], None, [made["id"]]]
        assert {key for one in lines for key in one} == {
            "time", "who", "kind", "method", "path", "status", "sessions",
        }  # fmt: skip
        text = file.read_text()
        assert SECRET not in text
        assert not any(token in text for token in service.tokens.values())
        assert file.stat().st_mode & 0o777 == 0o600
        own = [record.getMessage() for record in caplog.records if record.name == "backendai.audit"]
        assert own == text.splitlines(), "the service's own log has them too"

        # As logrotate does it.
        file.rename(tmp_path / "audit.log.1")
        await again(service)
        assert [one["method"] for one in await lines_of(file, 1)] == ["POST"]

        # What cannot be written for a while is in the service's own log, and the rest is written.
        file.unlink()
        file.mkdir()
        await again(service)
        await until(lambda: "audit_log was not written" in told(caplog))
        file.rmdir()
        await again(service)
        assert len(await lines_of(file, 1)) == 1


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in list(caplog.records))


async def again(service: Running) -> None:
    await launch(service, "alice", {})
