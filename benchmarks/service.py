"""What the sessions service does for many at once: launches, pages of a long list, event streams.

    python benchmarks/service.py [--json] [--seconds 30]

A real Hub with its proxy and its service; everything goes through the proxy, with tokens of users.

* A hundred users launch a session in the same moment. Timed is each answer, and until when all are
  accepted. Their one machine has room for one, so that next to no container is started.
* 2,000 sessions wait. Timed is each kind of page, until its first byte and until the last.
* 10,000 sessions wait. Timed are 200 pages of 50 of everybody's, at places drawn at random.
* The same list as a page for a browser: the whole page, and the part that a live page asks for.
* 500 event streams are open and nothing changes. Told is the share of a core that it takes.

Needs a Docker engine. With --json the last line is {"launches": {...}, "pages": {...},
"list_page": {...}, "html": {...}, "streams": {...}}, in seconds and shares of a core.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # beside this lies a queue.py that is not Python's own

import argparse
import asyncio
import json
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from hubs import Hub, free_port

USERS, SESSIONS, PAGES, STREAMS = 100, 10_000, 200, 500
FEWER, LOOKS = 2_000, 40
_CONFIG = """
c.Authenticator.admin_users = {{"chief"}}
c.DockerSpawner.image = "backendai-demo:latest"
c.BackendAI.service_url = "http://127.0.0.1:{port}"
c.BackendAI.check_hub_access = False
c.BackendAI.default_policy = {{"max_pending": 1_000_000}}
c.BackendAI.agents = [{{"name": "local", "capacity": {{"cpu": 1, "mem": "1g"}}}}]
from jupyterhub_backendai import setup
setup(c)
"""


class Api:
    """Calls of the service, and of the Hub where users are made."""

    def __init__(self, hub: Hub, client: aiohttp.ClientSession) -> None:
        self.hub, self.client = hub, client
        self.url = f"{hub.url}/services/backendai"

    async def user(self, name: str) -> dict[str, str]:
        """A user; the headers of a token of theirs."""
        api, auth = f"{self.hub.url}/hub/api/users", _auth(self.hub.token)
        async with self.client.post(f"{api}/{name}", headers=auth) as reply:
            assert reply.status in {201, 409}, await reply.text()
        async with self.client.post(f"{api}/{name}/tokens", headers=auth, json={}) as reply:
            return _auth((await reply.json())["token"])

    async def launch(self, auth: dict[str, str], **body: Any) -> float:
        """Seconds until the service has accepted a launch."""
        began = time.perf_counter()
        async with self.client.post(f"{self.url}/api/sessions", headers=auth, json=body) as reply:
            if reply.status != 201:
                raise RuntimeError(f"a launch was refused: {reply.status} {await reply.text()}")
            await reply.read()
        return time.perf_counter() - began

    async def all_told(self, auth: dict[str, str]) -> bool:
        """Whether nobody waits without a place in line and a reason."""
        query = {"owner": "*", "status": "PENDING", "limit": "200"}
        async with self.client.get(f"{self.url}/api/sessions", headers=auth, params=query) as reply:
            reply.raise_for_status()
            rows = (await reply.json())["items"]
        return all(row["position"] and row["reason"] for row in rows)

    async def page(self, auth: dict[str, str], offset: int) -> float:
        """Seconds until a page of everybody's sessions is there."""
        began = time.perf_counter()
        query = {"owner": "*", "limit": "50", "offset": str(offset)}
        async with self.client.get(f"{self.url}/api/sessions", headers=auth, params=query) as reply:
            reply.raise_for_status()
            assert len((await reply.json())["items"]) == 50
        return time.perf_counter() - began


async def launches(
    api: Api, users: list[dict[str, str]], admin: dict[str, str]
) -> dict[str, float]:
    """A hundred in the same moment: until all are accepted, and until each runs or is told its
    place in line and why it waits."""
    began = time.perf_counter()
    took = sorted(await asyncio.gather(*(api.launch(auth) for auth in users)))
    accepted = time.perf_counter() - began
    while not await api.all_told(admin):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.02)
    told = time.perf_counter() - began
    return {"accepted": accepted, "told": told, "median": took[len(took) // 2]}


async def fill(api: Api, admin: dict[str, str], before: int, wanted: int) -> None:
    """More sessions that wait."""
    for number in range(before // 100, wanted // 100):
        await api.launch(admin, name=f"many-{number}", count=100)


async def pages(api: Api, admin: dict[str, str]) -> dict[str, float]:
    """Every page at 2,000 sessions, 1,900 of them an admin's own: the median until its first byte,
    and the 95th percentile until its last."""
    query = {"owner": "*", "name": "many", "limit": "1"}
    async with api.client.get(f"{api.url}/api/sessions", headers=admin, params=query) as reply:
        session = "sessions/" + (await reply.json())["items"][0]["id"]
    found: dict[str, float] = {}
    for name, path in {
        "sessions": "?owner=*", "finished": "?state=over", "session": session,
        "log": f"{session}/log", "history": f"{session}/history",
        "launch": "launch", "notices": "notices", "admin": "admin",
    }.items():  # fmt: skip
        first, last = [], []
        for _ in range(LOOKS):
            began = time.perf_counter()
            async with api.client.get(f"{api.url}/{path}", headers=admin) as reply:
                reply.raise_for_status()
                first.append(time.perf_counter() - began)
                assert "bk-page" in await reply.text()
            last.append(time.perf_counter() - began)
        found |= {f"{name}_first": sorted(first)[LOOKS // 2]}
        found |= {f"{name}_p95": sorted(last)[LOOKS * 95 // 100]}
    return found


async def list_page(api: Api, admin: dict[str, str]) -> dict[str, float]:
    """Pages of a list of 10,000, one after the other."""
    random = Random(1)
    took = sorted([await api.page(admin, random.randrange(SESSIONS - 50)) for _ in range(PAGES)])
    return {"median": took[PAGES // 2], "p95": took[PAGES * 95 // 100], "slowest": took[-1]}


async def html(api: Api, admin: dict[str, str]) -> dict[str, float]:
    """The page of that list, as a browser gets it."""
    found: dict[str, float] = {}
    random = Random(2)
    for name, more in (("page", {}), ("part", {"part": "list"})):
        took = []
        for _ in range(PAGES):
            query = {"owner": "*", "page": str(random.randrange(SESSIONS // 25) + 1), **more}
            began = time.perf_counter()
            async with api.client.get(f"{api.url}/", headers=admin, params=query) as reply:
                reply.raise_for_status()
                assert 'id="s-' in await reply.text()
            took.append(time.perf_counter() - began)
        took.sort()
        found |= {f"{name}_median": took[PAGES // 2], f"{name}_p95": took[PAGES * 95 // 100]}
    return found


async def streams(api: Api, users: list[dict[str, str]], port: int, seconds: float) -> float:
    """The share of a core that the service takes for 500 streams on which nothing happens."""
    async with AsyncExitStack() as stack:
        for number in range(STREAMS):
            auth = users[number % len(users)]
            reply = await stack.enter_async_context(
                api.client.get(f"{api.url}/api/events", headers=auth)
            )
            reply.raise_for_status()
            assert await reply.content.readline() == b"event: begin\n"
        process = _service(port)
        before, began = _processor_time(process), time.perf_counter()
        await asyncio.sleep(seconds)
        return (_processor_time(process) - before) / (time.perf_counter() - began)


async def run(folder: Path, seconds: float) -> dict[str, Any]:
    """All of them on one Hub."""
    port = free_port()
    hub = Hub("service", folder / "hub", _CONFIG.format(port=port))
    await hub.start()
    try:
        timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
            api = Api(hub, client)
            users = [await api.user(f"user{number}") for number in range(USERS)]
            admin = await api.user("chief")
            found: dict[str, Any] = {}
            # Quiet before anything else: with nobody in line no schedule pass takes time.
            found["streams"] = {"share_of_a_core": await streams(api, users, port, seconds)}
            found["launches"] = await launches(api, users, admin)
            await fill(api, admin, USERS, FEWER)
            found["pages"] = await pages(api, admin)
            await fill(api, admin, FEWER, SESSIONS)
            found["list_page"] = await list_page(api, admin)
            found["html"] = await html(api, admin)
            return found
    finally:
        hub.stop()


def _auth(token: str) -> dict[str, str]:
    return {"Authorization": f"token {token}"}


def _service(port: int) -> int:
    """The process of the service, by its port in its environment."""
    for folder in Path("/proc").iterdir():
        try:
            if (
                b"-m\0jupyterhub_backendai.service"
                in (command := (folder / "cmdline").read_bytes())
                and b"keeper.py" not in command
                and f":{port}".encode() in (folder / "environ").read_bytes()
            ):
                return int(folder.name)
        except OSError:
            continue
    raise RuntimeError("the service does not run")


def _processor_time(process: int) -> float:
    """Seconds of a core that a process has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    parser.add_argument("--seconds", type=float, default=30, help="how long streams are watched")
    options = parser.parse_args()
    print(f"load averages before: {os.getloadavg()}")
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(Path(folder), options.seconds))
    print(f"load averages after:  {os.getloadavg()}")
    for what, figures in found.items():
        print(what, ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
