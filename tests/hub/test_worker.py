"""The service's workers with a real Hub and real containers: the queue, and batch sessions."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
import requests

from .harness import Hub, running, wait_for
from .visitor import sign_in

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SETTINGS = {
    "BackendAI": {
        # Room for four, and for the one that starts in a minute.
        "agents": [{"name": "node-1", "capacity": {"cpu": 2.1, "mem": "8g"}}],
        "presets": [{"name": "half", "cpu": 0.5, "mem": "256m"}],
        "default_policy": {"max_pending": 200},
        "queue_patience": 3,
    }
}
FINAL = ("TERMINATED", "CANCELLED", "ERROR")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub with its service."""
    folder = tmp_path_factory.mktemp("hub")
    with running(folder, settings=SETTINGS) as started:
        until_open(started)
        token, least = token_of(started, "una"), {"cpu": 0.1, "mem": "256m"}
        batch(started, token, "in-a-minute", "true", starts_at="1min", resources=least)
        yield started


def until_open(hub: Hub) -> None:
    def answers() -> bool:
        try:
            return call(hub, "GET", "health").status_code == 200
        except requests.ConnectionError:
            return False

    wait_for("the service to open", answers)


def call(hub: Hub, method: str, path: str, token: str = "", **more: Any) -> requests.Response:
    headers = {"Authorization": f"token {token}"} if token else {}
    url = f"{hub.url}/services/backendai/{path}"
    return requests.request(method, url, headers=headers, timeout=60, **more)


def token_of(hub: Hub, name: str) -> str:
    hub.add_user(name)
    return str(hub.call("POST", f"users/{name}/tokens", json={}).json()["token"])


def launch(hub: Hub, token: str, name: str, **options: Any) -> list[str]:
    """Ids of the sessions that were queued."""
    reply = call(hub, "POST", "api/sessions", token, json={"name": name, **options})
    assert reply.status_code == 201, reply.text
    return [session["id"] for session in reply.json()["sessions"]]


def batch(hub: Hub, token: str, name: str, command: str, **options: Any) -> str:
    more = {key: options.pop(key) for key in ("timeout", "starts_at") if key in options}
    work = {"command": command, **more}
    (session,) = launch(hub, token, name, type="batch", batch=work, **options)
    return session


def over(hub: Hub, owner: str, count: int) -> list[dict[str, Any]] | None:
    rows = hub.sessions(owner)
    assert len(rows) == count
    return rows if all(row["status"] in FINAL for row in rows) else None


def noted(hub: Hub, session: str, status: str) -> int:
    """Number of the row of the history in which a session came to a status: in their order, which
    the times of two writes that wait for the database need not be in."""
    query = "select id from history where session_id = ? and to_status = ?"
    (row,) = hub.rows(query, session, status)
    return int(row["id"])


def test_batch_sessions_end_as_their_commands_do(hub: Hub) -> None:
    token = token_of(hub, "ana")
    fine = batch(hub, token, "fine", "echo done")
    bad = batch(hub, token, "bad1", "exit 3")
    batch(hub, token, "lost", "no-such-program")
    batch(hub, token, "killed", "kill -9 $$")
    batch(hub, token, "slow", "sleep 300", timeout="2s")
    batch(hub, token, "later", "true", starts_at="4s")
    batch(hub, token, "after-fine", "true", depends_on=[fine])
    batch(hub, token, "after-bad", "true", depends_on=[bad])
    rows = {row["name"]: row for row in wait_for("all to end", lambda: over(hub, "ana", 8), 120)}
    ended = {
        name: (row["status"], row["result"], row["exit_code"], row["reason_code"])
        for name, row in rows.items()
    }
    assert ended == {
        "fine": ("TERMINATED", "success", 0, "task_finished"),
        "bad1": ("TERMINATED", "failure", 3, "task_failed"),
        "lost": ("TERMINATED", "failure", 127, "task_failed"),
        "killed": ("TERMINATED", "failure", 137, "task_failed"),
        "slow": ("TERMINATED", "failure", -2, "task_timeout"),
        "later": ("TERMINATED", "success", 0, "task_finished"),
        "after-fine": ("TERMINATED", "success", 0, "task_finished"),
        "after-bad": ("CANCELLED", "undefined", None, "dependency_failed"),
    }
    later = rows["later"]
    assert later["placed_at"] >= later["not_before"]
    assert later["batch_started_at"] >= later["not_before"]
    assert noted(hub, rows["after-fine"]["id"], "SCHEDULED") > noted(hub, fine, "TERMINATED")
    log = call(hub, "GET", f"api/sessions/{fine}/logs?kind=command", token)
    assert "done" in log.text
    assert not hub.held("ana")
    wait_for("the Hub to know it", lambda: not hub.call("GET", "users/ana").json()["servers"])


def test_twelve_in_order_while_the_hub_is_restarted_twice(hub: Hub) -> None:
    token = token_of(hub, "bob")
    work = {"command": "sleep 1"}
    launch(hub, token, "turn", type="batch", batch=work, count=12)

    def of_bob(*wanted: str) -> int:
        return sum(row["status"] in wanted for row in hub.sessions("bob"))

    wait_for("some to run", lambda: of_bob("RUNNING") >= 2)
    (service,) = hub.services()
    os.kill(service, signal.SIGKILL)
    hub.kill()
    hub.start()
    until_open(hub)
    wait_for("some to end", lambda: of_bob("TERMINATED") >= 5, 90)
    hub.stop()
    hub.start()
    wait_for("all to end", lambda: over(hub, "bob", 12), 120)
    rows = hub.sessions("bob")
    assert [row["name"] for row in rows] == [f"turn-{number}" for number in range(1, 13)]
    assert {(row["result"], row["exit_code"]) for row in rows} == {("success", 0)}
    placed = hub.rows("select session_id from allocations order by id")
    first = list(dict.fromkeys(row["session_id"] for row in placed))
    ours = [session for session in first if session in {row["id"] for row in rows}]
    assert ours == [row["id"] for row in rows]
    assert not hub.held("bob")
    left = {container.labels["backendai.session"] for container in hub.containers()}
    assert not left & {row["id"] for row in rows}


def test_a_hundred_launches_in_a_second(hub: Hub) -> None:
    token = token_of(hub, "eve")
    with ThreadPoolExecutor(20) as pool:
        names = [f"many-{number}" for number in range(100)]
        sessions = [ids[0] for ids in pool.map(lambda name: launch(hub, token, name), names)]

    def told() -> bool:
        rows = hub.sessions("eve")
        waits = [row for row in rows if row["status"] == "PENDING" and row["reason"]]
        return len(waits) == 96

    wait_for("all to run or to know why not", told)
    with ThreadPoolExecutor(20) as pool:
        ends = list(pool.map(lambda s: call(hub, "DELETE", f"api/sessions/{s}", token), sessions))
    assert {reply.status_code for reply in ends} <= {200, 202}
    wait_for("all to end", lambda: over(hub, "eve", 100))
    assert not hub.held("eve")


def test_a_page_lets_go_of_what_waits_and_leads_to_it_later(hub: Hub) -> None:
    token = token_of(hub, "flo")
    full = launch(hub, token, "full", count=4)
    wait_for("no room", lambda: len(hub.held("flo")) == 4)
    visitor = sign_in(hub.url, "flo")
    assert hub.launch("flo", {"name": "mine"}).status_code == 202

    def row() -> dict[str, Any]:
        return next(row for row in hub.sessions("flo") if row["server_name"] == "")

    wait_for("the page to let go", lambda: row()["driver"] is None and not hub.server("flo"))
    assert row()["status"] == "PENDING"
    page = visitor.get(f"{hub.url}/hub/spawn-pending/flo", timeout=30)
    assert "mine is in line" in " ".join(page.text.split())
    hub.stop()
    hub.start()  # which has only the database to know it from
    until_open(hub)
    visitor = sign_in(hub.url, "flo")
    page = visitor.get(f"{hub.url}/hub/spawn-pending/flo", timeout=30)
    home = visitor.get(f"{hub.url}/hub/home", timeout=30).text
    assert "It is in line, #1. It starts by itself" in page.text
    assert "<strong>mine</strong> #1<br>" in home
    assert "Waiting for 0.5 CPU cores" in page.text
    assert "Waiting for 0.5 CPU cores" in home

    # Another that waits is cancelled from its page, by a link and a button.
    assert hub.launch("flo", {"name": "other"}, "other").status_code == 202
    wait_for("that page to let go", lambda: not hub.server("flo", "other"))
    page = visitor.get(f"{hub.url}/hub/spawn-pending/flo/other", timeout=30)
    (link,) = re.findall(r'href="([^"]+)">Cancel session<', page.text)
    asked = visitor.get(f"{hub.url}{link}", timeout=30)
    assert "Cancel other?" in asked.text
    (action,) = re.findall(r'<form method="post" action="([^"]+)">', asked.text)
    assert visitor.post(asked.url, timeout=30).status_code == 403  # from somebody else's page
    done = visitor.post(f"{asked.url}{action}", timeout=30)
    (cancelled,) = (one for one in hub.sessions("flo") if one["name"] == "other")
    assert done.url == f"{hub.url}/services/backendai/sessions/{cancelled['id']}"
    assert f"launch?like={cancelled['id']}" in done.text
    assert (cancelled["status"], cancelled["reason"]) == ("CANCELLED", "flo ended it.")
    assert "You ended it." in done.text
    stranger = sign_in(hub.url, "bob")
    assert stranger.get(f"{hub.url}{link}", timeout=30).status_code == 404

    assert call(hub, "DELETE", f"api/sessions/{full[0]}", token).status_code in {200, 202}
    wait_for("it to run", lambda: row()["status"] == "RUNNING")
    hub.until_ready("flo")
    assert len([one for one in hub.sessions("flo") if one["name"] == "mine"]) == 1
    for session in [*full[1:], row()["id"]]:
        call(hub, "DELETE", f"api/sessions/{session}", token)
    wait_for("all to end", lambda: over(hub, "flo", 6))


def test_a_start_time_is_not_undercut_by_restarts(hub: Hub) -> None:
    (row,) = wait_for("it to end", lambda: over(hub, "una", 1), 120)
    assert (row["result"], row["exit_code"]) == ("success", 0)
    asked, start, placed, began = (
        datetime.fromisoformat(row[name])
        for name in ("submitted_at", "not_before", "placed_at", "batch_started_at")
    )
    assert 59 <= (start - asked).total_seconds() <= 61
    assert start <= placed <= began
