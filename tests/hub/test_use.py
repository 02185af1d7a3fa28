"""What sessions use, of real containers, by a real service that is killed meanwhile."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import requests

from .harness import Hub, wait_for
from .test_service import api, token_of

pytestmark = pytest.mark.docker
SETTINGS = {
    "BackendAI": {
        "usage_interval": 1,
        "presets": [{"name": "small", "cpu": 0.5, "mem": "512m"}],
    }
}
BUSY = (
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'while True: pass'], "
    "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)"
)
# The kernel of the machine may count no disks, and there is no GPU.
KNOWN = ("cpu", "mem", "net_in", "net_out")


def test_a_busy_session_and_an_idle_one(hub: Hub) -> None:
    token = token_of(hub, "alice")
    for name in ("busy", "idle"):
        assert hub.launch("alice", {"name": name}, name).status_code in {201, 202}
    for name in ("busy", "idle"):
        hub.until_ready("alice", name)
    ids = {row["name"]: row["id"] for row in hub.sessions("alice")}

    def told(name: str) -> Any:
        reply = api(hub, f"api/sessions/{ids[name]}/usage", token)
        return reply.json() if reply.status_code == 200 else None

    def known() -> dict[str, Any] | None:
        """What is told of both, once all of it is known; they are asked something meanwhile."""
        for name in ids:
            server = f"{hub.url}/user/alice/{name}/api"
            requests.get(server, headers={"Authorization": f"token {token}"}, timeout=60)
        both = {name: told(name) for name in ids}
        if any(one is None or one["now"] is None for one in both.values()):
            return None
        for one in both.values():
            values = [one[kind][metric] for kind in ("now", "average", "peak") for metric in KNOWN]
            if None in values or not one["series"]["times"] or not one["totals"]["net_in"]:
                return None
        return both

    hub.run_inside(ids["busy"], "python3", "-c", BUSY)
    wait_for("all to be known", known, 100)
    # Of half a core, however little of it a machine that is busy itself gives.
    wait_for("the load", lambda: (k := known()) and k["busy"]["peak"]["cpu"] >= 50, 100)
    seen = known() or wait_for("all to be known", known, 100)
    for one in seen.values():
        assert one["has"] == {"cpu": 500, "mem": 512 * 2**20, "gpu": False, "gpu_mem": None}
        assert 0 < one["now"]["mem"] <= 512 * 2**20
        assert one["average"]["mem"] <= one["peak"]["mem"] <= 512 * 2**20
        assert one["now"]["gpu"] is None
        assert one["totals"]["net_in"] > 0, "it was asked all the time"
        series = one["series"]
        assert series["resolution"] == 15
        assert series["times"] == sorted(series["times"])
        assert {len(line) for line in series["mean"].values()} == {len(series["times"])}

    def bars() -> dict[str, Any] | None:
        items = api(hub, "api/sessions?state=live", token).json()["items"]
        rows = {row["name"]: row["usage"] for row in items}
        everything = all(row and None not in (row["cpu"], row["mem"]) for row in rows.values())
        return rows if everything else None

    rows = wait_for("the list's shares", bars, 100)
    assert rows.keys() == {"busy", "idle"}
    assert all(0 < row["mem"] <= 100 and row["gpu"] is None for row in rows.values())

    # What was stored is there after a restart, and goes on from there.
    (service,) = hub.services()
    os.kill(service, signal.SIGKILL)
    wait_for("another service", lambda: hub.services() not in ([], [service]), 100)
    after = wait_for("all to be known again", known, 100)
    for name, one in after.items():
        assert one["totals"]["net_in"] >= seen[name]["totals"]["net_in"]
        assert one["peak"]["cpu"] >= seen[name]["peak"]["cpu"]
        assert (
            one["series"]["times"][: len(seen[name]["series"]["times"])]
            == (seen[name]["series"]["times"])
        )
