"""What an order left, of which Docker still reads the container, or does not."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from jupyterhub_backendai.engine import docker_images
from jupyterhub_backendai.engine.commit_traces import Traces
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.docker_commits import Stoppable, Stopped
from jupyterhub_backendai.engine.images import Images

AGENT = "local"

pytestmark = pytest.mark.docker


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked of each new connection."""
    found: list[dict[str, Any]] = []
    plain = DockerEngine.host

    def host(self: DockerEngine, agent: str) -> Any:
        one = plain(self, agent)
        if "new_client" not in vars(one):
            new: Callable[..., Any] = one.new_client

            def counted(**more: Any) -> Any:
                found.append(more)
                return new(**more)

            monkeypatch.setattr(one, "new_client", counted)
        return one

    monkeypatch.setattr(DockerEngine, "host", host)
    return found


@pytest.fixture
def images() -> Images:
    name = f"test{uuid.uuid4().hex[:8]}"
    return DockerEngine([AgentConfig(AGENT)], name, name).images


async def test_what_is_not_read_is_cleaned_by_the_connection_that_there_is(
    images: Images, clients: list[dict[str, Any]]
) -> None:
    for order in ("one", "two"):
        await images.clean(AGENT, order)
    assert len(clients) == 1


@pytest.mark.parametrize("early", [False, True], ids=["while it waits", "before"])
async def test_who_does_not_wait_any_more_for_what_is_read_stops_the_asking(
    images: Images, clients: list[dict[str, Any]], early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, go_on, stopped = threading.Event(), threading.Event(), threading.Event()
    plain = Traces.outwait

    class Late(Stoppable):
        def __init__(self, what: str) -> None:
            waits.set()
            assert go_on.wait(60)
            super().__init__(what)

    def outwait(self: Traces, *given: Any) -> None:
        waits.set()
        try:
            plain(self, *given)
        except Stopped:
            stopped.set()
            raise

    monkeypatch.setattr(Traces, "is_read", lambda self, order: True)
    monkeypatch.setattr(Traces, "outwait", outwait)
    if early:
        monkeypatch.setattr(docker_images, "Stoppable", Late)
    task = asyncio.create_task(images.clean(AGENT, "one"))
    assert await asyncio.to_thread(waits.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(stopped.wait, 60)
    assert all("timeout" not in more for more in clients), "Docker is not silent for longer"
    assert len(clients) == 2
