"""Sessions that are hibernated and resumed, with a real Hub and a real Docker."""

from __future__ import annotations

import json
from typing import Any

import docker
import pytest
import requests

from .harness import ENVIRONMENTS, Hub, wait_for
from .installing import assert_installed, install
from .test_images import Api

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SETTINGS = {
    "BackendAI": {
        "agents": [
            {"name": "local", "capacity": {"cpu": 8, "mem": "8g"}, "resource_group": "default"}
        ],
        "resource_groups": [{"name": "default"}],
        "presets": [{"name": "small", "cpu": 0.5, "mem": "512m"}],
        "environments": ENVIRONMENTS,
        "default_policy": {"hibernate": {"most": 2}},
        "usage_interval": 2,
        "idle_warnings": [],
        "user_policies": {
            "nobody": {"hibernate": {"most": 0}},
            "idler": {
                "idle": {
                    "utilization": {"window": "30s", "thresholds": {"cpu": 90}},
                    "then": "hibernate",
                },
            },
        },
    },
}


def running(hub: Hub, api: Api, **body: Any) -> dict[str, Any]:
    """A session of this user that runs."""
    reply = api.call("POST", "api/sessions", json=body)
    assert reply.status_code == 201, reply.text
    return runs(hub, api, reply.json()["sessions"][0]["id"])


def until(hub: Hub, api: Api, session_id: str, status: str, seconds: float = 120) -> dict[str, Any]:
    """The session, when it has come to this status."""

    def there() -> dict[str, Any] | None:
        row = api.call("GET", f"api/sessions/{session_id}").json()
        return dict(row) if row["status"] == status else None

    try:
        return wait_for(f"{session_id} to be {status}", there, seconds)
    except AssertionError:
        print(hub.log_text()[-6000:])
        print(json.dumps(api.call("GET", f"api/sessions/{session_id}/history").json(), indent=1))
        raise


def hibernate(hub: Hub, api: Api, session_id: str) -> dict[str, Any]:
    """The session, when it rests."""
    reply = api.call("POST", f"api/sessions/{session_id}/hibernation")
    assert reply.status_code == 202, reply.text
    assert reply.json()["hibernates"]
    return until(hub, api, session_id, "HIBERNATED")


def resume(hub: Hub, api: Api, session_id: str) -> dict[str, Any]:
    """The session, when it runs again."""
    reply = api.call("POST", f"api/sessions/{session_id}/resume")
    assert reply.status_code == 202, reply.text
    return runs(hub, api, session_id)


def runs(hub: Hub, api: Api, session_id: str) -> dict[str, Any]:
    """The session, when it runs and the Hub has a way to it."""
    row = until(hub, api, session_id, "RUNNING")
    hub.until_ready(api.user, row["server_name"])
    return row


def kept_images(hub: Hub) -> list[str]:
    """References of images that this hub's sessions became."""
    rows = docker.from_env().api.images(filters={"label": f"backendai.image.hub={hub.hub_id}"})
    return [tag for row in rows for tag in row.get("RepoTags") or ()]


def test_what_was_there_is_there_again(hub: Hub) -> None:
    owner = Api(hub, "owner")
    env = {"MY_SECRET": "value-of-mine-7723"}
    before = running(hub, owner, name="work", env=env)
    session = before["id"]
    notebook = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    hub.run_inside(session, "sh", "-c", f"echo '{notebook}' > /home/work/edited.ipynb")
    first = hub.container_of(session)
    install(hub, session)

    rests = hibernate(hub, owner, session)
    assert rests["reason"] == "owner hibernated it."
    assert hub.containers() == []
    assert hub.held() == []
    assert len(hub.volumes()) == 1, "its home"
    wait_for(
        "the Hub to have no server of it", lambda: not hub.server("owner", rests["server_name"])
    )
    kept = owner.call("GET", f"api/sessions/{session}/hibernation").json()
    assert kept["agent"] == "local"
    assert kept["drop_at"] is not None
    listed = owner.call("GET", "api/sessions?state=live").json()["items"]
    assert [row["status"] for row in listed] == ["HIBERNATED"]
    assert owner.images() == [], "it is no image to choose"
    [reference] = kept_images(hub)
    config = docker.from_env().images.get(reference).attrs["Config"]
    assert "value-of-mine-7723" not in json.dumps(config)

    after = resume(hub, owner, session)
    for field in ("name", "server_name", "cpu", "mem", "environment", "version"):
        assert after.get(field) == before.get(field), field
    assert hub.container_of(session).id != first.id
    assert hub.run_inside(session, "cat", "/home/work/edited.ipynb").strip() == notebook
    assert_installed(hub, session)
    assert hub.run_inside(session, "sh", "-c", "echo $MY_SECRET") == "value-of-mine-7723\n"

    # Once more: what was kept the first time goes, and nothing is left at the end.
    hub.run_inside(session, "sh", "-c", "echo second > /home/work/second")
    hibernate(hub, owner, session)
    wait_for("the earlier image to go", lambda: reference not in kept_images(hub), 90)
    resume(hub, owner, session)
    assert hub.run_inside(session, "cat", "/home/work/second") == "second\n"
    assert_installed(hub, session)
    assert owner.call("DELETE", f"api/sessions/{session}").status_code == 202
    until(hub, owner, session, "TERMINATED")
    assert hub.volumes() == []
    wait_for("all images to go", lambda: kept_images(hub) == [], 90)


def shown(hub: Hub, user: str, server: str) -> str:
    """The Hub's page of a server, as its owner sees it."""
    browser = requests.Session()
    browser.get(f"{hub.url}/hub/login")
    data = {"username": user, "password": "secret", "_xsrf": browser.cookies["_xsrf"]}
    assert browser.post(f"{hub.url}/hub/login?next=%2Fhub%2Fhome", data=data).ok
    return browser.get(f"{hub.url}/hub/user/{user}/{server}/").text


def test_one_that_is_ended_while_it_rests(hub: Hub) -> None:
    owner = Api(hub, "second")
    session = running(hub, owner, name="rests")["id"]
    hub.run_inside(session, "sh", "-c", "echo mine > /home/work/mine")
    hibernate(hub, owner, session)
    # The Hub's own start of that server is none of its business: it comes to nothing.
    server = hub.sessions("second")[-1]["server_name"]
    hub.until_over("second", server)
    reply = hub.launch("second", {}, server)
    assert reply.status_code == 503, reply.text
    assert "Your session rests of this server is hibernated." in reply.json()["message"]
    hub.until_over("second", server)
    assert [row["id"] for row in hub.sessions("second")] == [session]
    assert owner.call("GET", f"api/sessions/{session}").json()["status"] == "HIBERNATED"
    assert hub.containers() == []
    assert len(hub.volumes()) == 1
    page = shown(hub, "second", server)
    assert "is hibernated</h1>" in page
    assert f"/services/backendai/sessions/{session}" in page
    # Nor may anybody else resume it, or know of it.
    other = Api(hub, "other")
    for method, path in (("POST", "resume"), ("GET", "hibernation"), ("POST", "hibernation")):
        assert other.call(method, f"api/sessions/{session}/{path}").status_code == 404
    # A resuming that is cancelled leads back to its rest: while it waits, and as it starts.
    admin = Api(hub, "admin")
    for waits in (True, False):
        drained = admin.call("PATCH", "api/agents/local", json={"schedulable": not waits})
        assert drained.status_code == 200, drained.text
        reply = owner.call("POST", f"api/sessions/{session}/resume")
        assert reply.status_code == 202, reply.text
        if waits:
            ended = owner.call("DELETE", f"api/sessions/{session}")
        else:
            ended = owner.call("DELETE", f"api/sessions/{session}?rests=again")
        if not waits and ended.status_code == 409:  # it was quicker, and is not ended by that
            assert ended.json()["errors"][0]["code"] == "runs_by_now"
            runs(hub, owner, session)
            hibernate(hub, owner, session)
            continue
        assert ended.status_code == 202, ended.text
        until(hub, owner, session, "HIBERNATED")
        wait_for("nothing of it to be left", lambda: hub.containers() == [], 60)
        assert len(hub.volumes()) == 1
    resume(hub, owner, session)
    assert hub.run_inside(session, "cat", "/home/work/mine") == "mine\n"
    hibernate(hub, owner, session)
    assert owner.call("DELETE", f"api/sessions/{session}").status_code == 202
    until(hub, owner, session, "TERMINATED")
    assert hub.volumes() == []
    wait_for("its image to go", lambda: kept_images(hub) == [], 90)


def test_what_is_refused_before_any_work(hub: Hub) -> None:
    nobody, owner = Api(hub, "nobody"), Api(hub, "third")
    session = running(hub, nobody)["id"]
    reply = nobody.call("POST", f"api/sessions/{session}/hibernation")
    assert (reply.status_code, reply.json()["errors"][0]["code"]) == (403, "too_many_hibernated")
    reply = nobody.call("POST", f"api/sessions/{session}/resume")
    assert (reply.status_code, reply.json()["errors"][0]["code"]) == (409, "not_hibernated")
    job = owner.call(
        "POST", "api/sessions", json={"type": "batch", "batch": {"command": "sleep 1000"}}
    ).json()["sessions"][0]["id"]
    reply = owner.call("POST", f"api/sessions/{job}/hibernation")
    assert (reply.status_code, reply.json()["errors"][0]["code"]) == (409, "batch")
    nobody.call("DELETE", f"api/sessions/{session}")
    owner.call("DELETE", f"api/sessions/{job}?force=1")
    wait_for("both to be over", lambda: hub.held() == [] and hub.volumes() == [], 90)


def test_one_that_is_resumed_at_once_runs(hub: Hub) -> None:
    # The Hub is just at the removal of its server: that is not the resumed session's.
    owner = Api(hub, "quick")
    session = running(hub, owner, name="quick")["id"]
    for _ in range(4):
        hibernate(hub, owner, session)
        reply = owner.call("POST", f"api/sessions/{session}/resume")
        assert reply.status_code == 202, reply.text
        runs(hub, owner, session)
    assert [row for row in history(owner, session) if row["phase"] == "cancel"] == []
    assert owner.call("DELETE", f"api/sessions/{session}?force=1").status_code == 202
    wait_for("its home to go", lambda: hub.volumes() == [], 90)


def test_what_is_gone_when_it_is_resumed(hub: Hub) -> None:
    owner = Api(hub, "loser")
    folder = hub.directory / "folders" / "users" / "loser" / "data"
    folder.mkdir(parents=True)
    session = running(hub, owner, name="loser", mounts=[{"folder": "data"}])["id"]
    hibernate(hub, owner, session)
    # A folder: it starts without, and says so.
    folder.rmdir()
    resume(hub, owner, session)
    said = [row["message"] for row in history(owner, session)]
    gone = "It starts without data: not there any more, or not for you any more."
    assert gone in said
    assert not folder.exists()
    # Its image: it does not start from another one.
    hibernate(hub, owner, session)
    wait_for("the earlier image to go", lambda: len(kept_images(hub)) == 1, 90)
    [reference] = kept_images(hub)
    images = docker.from_env().images
    images.get(reference).tag(reference.rpartition(":")[0], "aside")
    images.remove(reference)
    not_resumed(hub, owner, session, "The image that was kept of it is not on local any more")
    assert len(hub.volumes()) == 1, "its home"
    # Its home: it does not start with an empty one.
    images.get(f"{reference.rpartition(':')[0]}:aside").tag(*reference.rsplit(":", 1))
    images.remove(f"{reference.rpartition(':')[0]}:aside")
    [home] = hub.volumes()
    home.remove()
    not_resumed(hub, owner, session, "The home that was kept of it is not on local any more.")
    assert hub.volumes() == []
    assert owner.call("DELETE", f"api/sessions/{session}").status_code == 202
    until(hub, owner, session, "TERMINATED")
    wait_for("its image to go", lambda: kept_images(hub) == [], 90)


def not_resumed(hub: Hub, api: Api, session_id: str, told: str) -> None:
    """Resumes it, until it rests again for that reason."""
    assert api.call("POST", f"api/sessions/{session_id}/resume").status_code == 202

    def refused() -> bool:
        row = api.call("GET", f"api/sessions/{session_id}").json()
        return row["status"] == "HIBERNATED" and row["reason"].startswith(told)

    wait_for("it to rest again", refused, 120)


def history(api: Api, session_id: str) -> list[dict[str, Any]]:
    """What was done with the session, the newest first."""
    return list(api.call("GET", f"api/sessions/{session_id}/history").json()["items"])


def test_one_that_is_idle_rests_by_itself(hub: Hub) -> None:
    idler = Api(hub, "idler")
    reply = idler.call("POST", "api/sessions", json={"name": "parked"})
    session = reply.json()["sessions"][0]["id"]
    # It may rest before it is seen to run. That is a start, a window of 30 seconds and its image.
    rests = until(hub, idler, session, "HIBERNATED", 480)
    assert rests["reason"].startswith("It was little used for 30 seconds: ")
    assert rests["reason_code"] == "idle_utilization"
    assert hub.held("idler") == []
    assert len(hub.volumes()) == 1, "its home"
    assert idler.call("DELETE", f"api/sessions/{session}").status_code == 202
    wait_for("its home to go", lambda: hub.volumes() == [], 240)
    wait_for("its image to go", lambda: kept_images(hub) == [], 240)
