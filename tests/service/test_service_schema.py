"""The schema holds: whatever is sent, no 500, no status and no shape that it does not have."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, settings

from jupyterhub_backendai.service.openapi import schema as openapi

from .running import Running, keep_log, launch, running, until_open

schemathesis = pytest.importorskip("schemathesis", reason="it comes with the test extra")
from schemathesis import checks  # noqa: E402 - only where it is there

schema = schemathesis.openapi.from_dict(openapi()).exclude(path="/api/events")  # which never ends
CHECKS = [
    checks.not_a_server_error,
    schemathesis.specs.openapi.checks.status_code_conformance,
    schemathesis.specs.openapi.checks.content_type_conformance,
    schemathesis.specs.openapi.checks.response_schema_conformance,
]


@contextmanager
def in_a_thread(folder: Path) -> Iterator[tuple[Running, dict[str, Any]]]:
    """A service on a loop of its own, and a session of alice's: schemathesis blocks."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    manager = running(folder)

    async def begin() -> tuple[Running, dict[str, Any]]:
        started = await manager.__aenter__()
        await until_open(started)
        started.report_agent()
        session = await launch(started, "alice", {})
        keep_log(started, session["id"], b"hello\n")
        return started, session

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    try:
        yield run(begin())
    finally:
        run(manager.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, Any]]]:
    with in_a_thread(tmp_path_factory.mktemp("schema")) as started:
        yield started


@schema.parametrize()
@settings(
    max_examples=int(os.environ.get("SCHEMA_EXAMPLES", "15")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_the_schema_holds(case: Any, alone: tuple[Running, dict[str, Any]]) -> None:
    service, session = alone
    given = case.path_parameters.get("id")
    if given is not None and len(given) % 2:
        case.path_parameters["id"] = session["id"] if "sessions" in case.path else "1"
    if "name" in case.path_parameters and len(case.path_parameters["name"]) % 2:
        case.path_parameters["name"] = "local"
    who = "admin" if "agents" in case.path else "alice"
    headers = {"Authorization": f"token {service.tokens[who]}"}
    # A minute: its own ten seconds are the speed of a machine, which is not what is tested.
    case.call_and_validate(
        base_url=service.url.rstrip("/"), headers=headers, checks=CHECKS, timeout=60
    )


def test_the_schema_is_served(alone: tuple[Running, dict[str, Any]]) -> None:
    service, _ = alone
    served = requests.get(service.url + "api/openapi.json", timeout=10).json()
    assert served == openapi()
    assert set(served["paths"]) >= {"/api/sessions", "/api/sessions/{id}", "/api/events"}
