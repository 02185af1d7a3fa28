"""The client of the Hub's API, and the runner of workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jupyterhub_backendai.service import hub as hub_module
from jupyterhub_backendai.service.hub import (
    HubClient,
    HubRefused,
    HubUnavailable,
    HubUser,
    NoSuchUser,
)
from jupyterhub_backendai.service.workers.runner import Runner

from .stand_in import StandIn

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def hub() -> AsyncIterator[StandIn]:
    stand_in = StandIn()
    stand_in.add("ann lee", groups=("lab",))
    server = stand_in.start()
    yield stand_in
    server.stop()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "BACK_OFF", 0.001)


async def test_users_and_their_servers(hub: StandIn) -> None:
    async with HubClient(hub.url, "the-service") as client:
        assert await client.user("ann lee") == HubUser("ann lee", False, frozenset({"lab"}))
        with pytest.raises(NoSuchUser, match="There is no user"):
            await client.user("../nobody")
        hub.asked.clear()
        for name in (".", "..", "\ud800", "a\0b", "x" * 256):
            with pytest.raises(NoSuchUser, match="There is no user") as caught:
                await client.user(name)
            assert len(str(caught.value)) < 120
            with pytest.raises(HubRefused, match="There is no server"):
                await client.stop("ann lee", name)
        assert hub.asked == [], "such a path would be another one"
        assert await client.start("ann lee", "train-1", {"preset": "small"}, "train") is True
        assert hub.servers["ann lee", "train-1"] == {
            "user_options": {"preset": "small"},
            "display_name": "train",
        }
        assert await client.stop("ann lee", "train-1", remove=True) is True
        assert await client.stop("ann lee", "train-1") is True  # twice is fine


async def test_what_may_work_later_is_tried_again(hub: StandIn) -> None:
    async with HubClient(hub.url, "the-service") as client:
        hub.failing[:] = [(503, ""), (429, "Too many."), (502, "")]
        assert (await client.user("ann lee")).name == "ann lee"
        hub.failing[:] = [(503, "")] * 10
        with pytest.raises(HubUnavailable, match="503"):
            await client.user("ann lee")
        for status in (400, 503):
            hub.failing[:] = [(status, "Not like this."), (200, "")]
            with pytest.raises(HubRefused, match="Not like this"):
                await client.user("ann lee")
        hub.failing.clear()
    async with HubClient("http://127.0.0.1:9", "the-service") as nobody:
        with pytest.raises(HubUnavailable):
            await nobody.user("ann lee")


async def test_a_worker_that_fails_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[str] = []
    steady = asyncio.Event()

    async def clumsy() -> None:
        runs.append("clumsy")
        if len(runs) < 4:
            raise RuntimeError("stumbled")
        steady.set()
        await asyncio.Event().wait()

    runner = Runner(first_wait=0.001, longest_wait=0.002)
    runner.start({"clumsy": clumsy})
    with pytest.raises(ValueError, match="runs already"):
        runner.start({"clumsy": clumsy})
    await asyncio.wait_for(steady.wait(), 10)
    await runner.stop()
    assert len(runs) == 4
    assert caplog.text.count("The worker clumsy failed") == 3
