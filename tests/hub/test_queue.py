"""More sessions than there is room for: they wait in line, with a reason, and start in order."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from .harness import Hub, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]
# Room for four: capacity is what the admin says, so that the test does not depend on the machine.
SETTINGS = {
    "BackendAI": {
        "agents": [{"name": "node-1", "capacity": {"cpu": 2, "mem": "8g"}}],
        "presets": [{"name": "half", "cpu": 0.5, "mem": "256m"}],
        "default_policy": {"max_sessions": 2},
    }
}
# A request for a start is answered soon, though it waits in line.
EXTRA = 'c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 2}'


def status_of(hub: Hub) -> dict[str, dict[str, object]]:
    return {row["owner"]: row for row in hub.sessions()}


def running(hub: Hub) -> list[str]:
    return [owner for owner, row in status_of(hub).items() if row["status"] == "RUNNING"]


def test_twelve_asked_at_once_on_room_for_four(hub: Hub) -> None:
    users = [hub.add_user(f"user-{index:02}") for index in range(12)]
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(hub.launch, users))
    assert {reply.status_code for reply in replies} <= {201, 202}

    wait_for("four to run", lambda: len(running(hub)) == 4)
    waiting = {o: r for o, r in status_of(hub).items() if r["status"] == "PENDING"}
    assert len(waiting) == 8
    assert sorted(row["position"] for row in waiting.values()) == list(range(1, 9))
    for row in waiting.values():
        assert "CPU core" in str(row["reason"]), row["reason"]
    assert len(hub.held()) == 4
    assert len(hub.containers()) == 4

    # The pending page's stream tells place and reason.
    second = next(o for o, r in waiting.items() if r["position"] == 2)
    told = first_event(hub, second, "queued")
    assert told["position"] == 2
    assert "CPU core" in str(told["detail"])

    order = [
        row["owner"] for row in sorted(waiting.values(), key=lambda r: int(str(r["position"])))
    ]
    started = running(hub)
    for expected in order:
        leaver = started.pop(0)
        hub.delete(leaver)
        wait_for(f"{expected} to run", lambda e=expected: e in running(hub))
        assert len(running(hub)) <= 4
        started.append(expected)
    for user in started:
        hub.delete(user)
    wait_for("all to be over", lambda: not hub.held() and not hub.containers())
    assert {row["status"] for row in hub.sessions()} == {"TERMINATED"}
    by_start = sorted(hub.sessions(), key=lambda r: r["placed_at"])
    # Not by the times of the requests: of twelve that wait for the database at once a later one may
    # be written, and placed, before an earlier one is there.
    assert [r["owner"] for r in by_start[4:]] == order


def first_event(hub: Hub, user: str, step: str) -> dict[str, object]:
    """The first progress event of that step."""
    url = f"{hub.url}/hub/api/users/{user}/server/progress"
    with hub.api.get(url, stream=True, timeout=30) as stream:
        for line in stream.iter_lines():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event.get("backendai", {}).get("step") == step:
                    return dict(event["backendai"])
    raise AssertionError(f"no event of step {step}")


def test_a_quota_waits_without_blocking_others(hub: Hub) -> None:
    user = hub.add_user("greedy")
    for server in ("one", "two", "three"):
        hub.launch(user, {}, server=server)
    wait_for("two to run", lambda: sum(s["status"] == "RUNNING" for s in hub.sessions(user)) == 2)
    third = next(s for s in hub.sessions(user) if s["status"] == "PENDING")
    wait_for(
        "a reason",
        lambda: hub.rows("select reason from sessions where id=?", third["id"])[0]["reason"],
    )
    reason = hub.rows("select reason from sessions where id = ?", third["id"])[0]["reason"]
    assert reason == "You have 2 of 2 sessions. This one starts when one of them ends."
    other = hub.add_user("modest")
    assert hub.launch(other).status_code in {201, 202}
    hub.until_ready(other)
    # Cancelling what waits leaves nothing of it.
    hub.delete(user, third["server_name"])
    wait_for(
        "the third to be cancelled",
        lambda: (
            hub.rows("select status from sessions where id = ?", third["id"])[0]["status"]
            == "CANCELLED"
        ),
    )
    for server in {"one", "two", "three"} - {third["server_name"]}:
        hub.delete(user, server)
    hub.delete(other)
    wait_for("all to be over", lambda: not hub.held() and not hub.containers())
