"""A real Prometheus reads the service, and answers what the dashboard and the alerts ask."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.service.metrics import book
from jupyterhub_backendai.service.metrics.catalogue import CATALOGUE

from .running import Running, launch, running, until_open
from .test_metrics import end, start

SHARE = Path(__file__).resolve().parents[2] / "share"
RULES = SHARE / "prometheus"
DASHBOARD = json.loads((SHARE / "grafana" / "backendai.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS = [
    rule["expr"]
    for group in yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.fail(f"{program} is missing: run `make test`, it installs it")


class Prometheus:
    """A server that answers at this address."""

    def __init__(self, service: Running, url: str, process: asyncio.subprocess.Process) -> None:
        self.client, self.url, self.process = service.client, url, process

    async def ask(self, path: str, **params: str) -> Any:
        """The data of an answer; an AssertionError where there is an error in it."""
        async with self.client.get(f"{self.url}/api/v1/{path}", params=params) as reply:
            answer = await reply.json()
            assert answer["status"] == "success", (params, answer)
            return answer["data"]

    async def values(self, query: str) -> list[float]:
        """The values of a query, now."""
        data = await self.ask("query", query=query)
        return [float(one["value"][1]) for one in data["result"]]

    async def until(self, query: str, wanted: float) -> None:
        """Until a query has this one value."""
        while await self.values(query) != [wanted]:
            assert self.process.returncode is None, "Prometheus ended"
            await asyncio.sleep(0.1)


@asynccontextmanager
async def prometheus(service: Running, folder: Path) -> AsyncIterator[Prometheus]:
    """Prometheus as the how-to has it, but for the service's address, and quicker."""
    given = yaml.safe_load((RULES / "scrape.yml").read_text())
    given["global"]["scrape_interval"] = "1s"
    (job,) = given["scrape_configs"]
    place = urlsplit(service.url)
    assert place.path + "metrics" == job["metrics_path"]
    job["static_configs"] = [{"targets": [place.netloc]}]
    (folder / "scrape.yml").write_text(yaml.safe_dump(given))
    shutil.copy(RULES / "alerts.yml", folder)
    (folder / "token").write_text(service.hub.token("bob", ["read:metrics"]))
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus", "--config.file", str(folder / "scrape.yml"), "--storage.tsdb.path",
            str(folder / "data"), "--web.listen-address", "127.0.0.1:0",
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        place = await _listens(process, folder / "log")
        yield await _ready(Prometheus(service, f"http://{place}", process), folder)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(process: asyncio.subprocess.Process, log: Path) -> str:
    """Where it does, as it says itself: the system gave it a free port."""
    while True:
        said = await asyncio.to_thread(log.read_text)
        found = re.search(r'"Listening on" address=(\S+)', said)
        if found:
            return found[1]
        assert process.returncode is None, said
        await asyncio.sleep(0.1)


async def _ready(started: Prometheus, folder: Path) -> Prometheus:
    while True:
        assert started.process.returncode is None, (folder / "log").read_text()
        try:
            async with started.client.get(f"{started.url}/-/ready") as reply:
                if reply.status == 200:
                    return started
        except OSError:
            pass  # it does not listen yet
        await asyncio.sleep(0.1)


async def test_it_answers_what_the_dashboard_and_the_alerts_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "SAME", 0.0)
    folder = tmp_path / "service"
    folder.mkdir()
    async with running(folder) as service:
        await until_open(service)
        service.report_agent()
        async with prometheus(service, tmp_path) as server:
            await server.until("backendai_spawn_seconds_count", 0)
            runs, over, _ = [
                str((await launch(service, "alice", {"resources": {"cpu": 1.5}}))["id"])
                for _ in range(3)
            ]
            start(service, runs, over)
            end(service, over, "idle_network", Status.TERMINATING, Status.TERMINATED)
            await server.until('backendai_sessions_ended_total{reason="idle_network"}', 1)
            await server.until('up{job="backendai"}', 1)
            for query in (*QUERIES, *ALERTS):
                await server.values(query.replace("$__rate_interval", "1m"))
            for query, value in {
                'sum(backendai_sessions{status="RUNNING"}) or vector(0)': 1,
                "sum(backendai_queue_length)": 1,
                "sum(backendai_agent_available)": 1,
                "backendai_database_up": 1,
                'backendai_agent_held{slot="cpu"} / (backendai_agent_capacity{slot="cpu"} > 0)':
                    1.5 / 4,
                "sum by (status, reason) (backendai_sessions_ended_last_day)": 1,
            }.items():  # fmt: skip
                assert query in QUERIES
                await server.until(query, value)
            # The rules are loaded, and none of them has failed.
            (group,) = (await server.ask("rules"))["groups"]
            assert [rule["query"] for rule in group["rules"]], "the alerts are there"
            assert {rule.get("lastError", "") for rule in group["rules"]} == {""}


def test_what_is_asked_for_is_told() -> None:
    """Each name in a query is one of the catalogue's."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count"), "gauge": ("",)}
    there = {one.name + suffix for one in CATALOGUE for suffix in suffixes[one.kind]}
    asked = {n for query in (*QUERIES, *ALERTS) for n in re.findall(r"backendai_\w+", query)}
    assert asked <= there


@pytest.mark.parametrize(
    "what", [("rules", "alerts.yml"), ("config", "--syntax-only", "scrape.yml")]
)
def test_promtool_finds_nothing(what: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", "check", *what], cwd=RULES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
