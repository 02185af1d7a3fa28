"""A service that cannot open says so, to each as much as they may know, and goes on trying."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from tornado.httpserver import HTTPServer
from tornado.web import Application
from traitlets.config import Config

from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.service import handover, parts
from jupyterhub_backendai.service.listening import listen

from .running import Running, running, until, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_wrong_configuration_is_told_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "RETRY", 0.05)
    there = tmp_path / "there"
    async with running(tmp_path, database_url=f"sqlite:///{there}/b.sqlite") as service:
        await until_problem(service)
        health = await service.call("GET", "health")
        assert (health.status, health.json) == (503, {"status": "not_working"})
        told = {}
        for who in ("alice", "admin"):
            reply = await service.call("GET", "api/sessions", who)
            told[who] = reply.json["errors"][0]["message"]
            assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
            page = await service.call("GET", "", who)
            assert page.status == 200  # or the Hub would not start
        assert "BackendAI.database_url" in told["admin"]
        assert str(there) in told["admin"]
        assert told["alice"] == "The sessions service does not work at the moment. Tell your admin."
        assert "database_url" in (await service.call("GET", "", "admin")).json
        assert (await service.call("GET", "api/sessions")).status == 401

        there.mkdir()
        await until_open(service)
        assert (await service.call("GET", "api/sessions", "alice")).status == 200


async def until_problem(service: Running) -> None:
    def is_told() -> bool:
        problem = service.service.parts.problem
        return problem is not None and problem.code == "not_working"

    await until(is_told)


async def test_the_hub_is_away(service: Running) -> None:
    await until_open(service)
    url = service.service.hub_auth.api_url
    service.service.hub_auth.api_url = "http://127.0.0.1:9/hub/api"
    try:
        reply = await service.call("GET", "api/sessions", "mate")
        assert (reply.status, reply.json["errors"][0]["code"]) == (503, "hub_unavailable")
        page = await service.call("GET", "", "mate")
        assert (page.status, page.headers["Retry-After"]) == (503, "5")
        assert "The Hub does not answer" in page.json
        assert page.headers["Content-Type"].startswith("text/html")
    finally:
        service.service.hub_auth.api_url = url


async def test_a_sign_in_that_did_not_work(service: Running) -> None:
    for query in ("error=<b>x", "error=no&error_description=<b>x", "", "code=x", "code=x&state=y"):
        page = await service.call("GET", f"oauth_callback?{query}")
        assert page.status in {400, 403}, query
        assert "Sign in again</a>" in page.json
        assert "<b>x" not in page.json
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]


async def test_a_configuration_goes_through_the_environment() -> None:
    sections = {
        "BackendAI": {"user_policies": {f"user{n}": {"max_sessions": n} for n in range(999)}}
    }
    packed = handover.pack({**sections, "Client": {"groups": {"a", "b"}, "pair": (1, 2)}})
    assert len(packed) < 20_000
    config = handover.unpack(packed)
    assert config.BackendAI == Config(sections["BackendAI"])
    assert config.Client == {"groups": ["a", "b"], "pair": [1, 2]}
    for wrong in ("", "nonsense", "AAAA"):
        with pytest.raises(ConfigurationError, match="no configuration"):
            handover.unpack(wrong)
    with pytest.raises(ConfigurationError, match="cannot be told"):
        handover.pack({"BackendAI": {"hook": print}})


async def test_a_port_that_is_taken_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jupyterhub_backendai.service.listening.PATIENCE", 0.01)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        server = HTTPServer(Application([]))
        listening = asyncio.ensure_future(listen(server, f"http://127.0.0.1:{port}"))
        await asyncio.sleep(0.05)
        assert not listening.done()
    await asyncio.wait_for(listening, 5)
    assert caplog.text.count("it is taken") == 1
    server.stop()
