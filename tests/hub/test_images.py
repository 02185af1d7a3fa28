"""Images that users make of their sessions, with a real Hub and a real Docker: what is in them, and
who gets into them."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

import docker
import pytest
import requests

from jupyterhub_backendai.engine.commit_traces import REPOSITORY

from .harness import ENVIRONMENTS, IMAGE, TOKEN, Hub, wait_for
from .installing import KEPT_TEXT, assert_installed, install
from .saved import found_in

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]
MANUAL = {"manual_image": True}
SETTINGS = {
    "BackendAI": {
        "agents": [
            {"name": "local", "capacity": {"cpu": 8, "mem": "8g"}, "resource_group": "default"}
        ],
        "resource_groups": [{"name": "default"}],
        "presets": [{"name": "small", "cpu": 0.5, "mem": "512m"}],
        "environments": ENVIRONMENTS,
        "user_policies": {"mallory": MANUAL, "owner": MANUAL},
        "default_policy": {"max_images": 3},
    },
}
VALUE, SHELL = "value-of-mine-5511", "/opt/local/a-shell-of-mine"
TOLD = ("image_missing", "not_found")


class Api:
    """Calls of the service as one user."""

    def __init__(self, hub: Hub, user: str) -> None:
        self.hub, self.user = hub, hub.add_user(user)
        made = hub.call("POST", f"users/{user}/tokens", json={"note": "tests"})
        assert made.status_code == 201, made.text
        self.token = made.json()["token"]

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        url = f"{self.hub.url}/services/backendai/{path}"
        headers = {"Authorization": f"token {self.token}"}
        return requests.request(method, url, headers=headers, timeout=120, **more)

    def commit(self, session_id: str, name: str) -> dict[str, Any]:
        """An image that is made of a session, when it is whole."""
        path = f"api/sessions/{session_id}/commit"
        reply = self.call("POST", path, json={"name": name})
        assert reply.status_code == 202, reply.text

        def over() -> dict[str, Any] | None:
            row = self.call("GET", path).json()
            return dict(row) if row["ended_at"] else None

        row = wait_for("the image to be made", over, 240)
        assert row["status"] == "DONE", (row, self.hub.log_text()[-3000:])
        return row

    def images(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "api/images").json()["items"])


def other_name(hub: Hub) -> str:
    """What an admin calls the image too."""
    return f"retagged-{hub.hub_id}-by-root"


@pytest.fixture(scope="module")
def made(hub: Hub) -> Iterator[tuple[Api, dict[str, Any], list[str], str]]:
    """The owner, the image, all secret values that its container had, and that session's id."""
    owner = Api(hub, "owner")
    options = {
        "env": {"MY_SECRET": VALUE, "SHELL": SHELL},
        "mounts": [{"folder": "data", "create": True}],
    }
    assert hub.launch("owner", options).status_code in {201, 202}
    hub.until_ready("owner")
    session = hub.sessions("owner")[-1]["id"]
    container = hub.container_of(session)
    install(hub, session)
    hub.run_inside(session, "sh", "-c", "echo lost > /home/work/lost")
    hub.run_inside(session, "sh", "-c", "echo lost > /home/work/data/of-the-folder")
    image_env = set(docker.from_env().images.get(IMAGE).attrs["Config"]["Env"])
    lines = [line for line in container.attrs["Config"]["Env"] if line not in image_env]
    values = {line.partition("=")[2] for line in lines}
    # Paths and the name of the base image are no secrets.
    secrets = [
        value for value in values if len(value) >= 16 and "/" not in value and value != IMAGE
    ]
    secrets += [row["apps_key"] for row in hub.rows("select apps_key from kernels")]
    for row in hub.rows("select private, host_private from ssh_keys"):
        secrets += [key.splitlines()[2] for key in row.values()]
    row = owner.commit(session, "with-tools")
    [image] = owner.images()
    assert image["reference"] == row["reference"]
    hub.delete("owner")
    hub.until_over("owner")
    found = docker.from_env().images.get(image["reference"])
    for tag in ("1", f"customized_{'0' * 32}", "latest"):
        assert found.tag(other_name(hub), tag)
    yield owner, image, [*secrets, VALUE, SHELL, session], session
    # Other tests remove theirs meanwhile: no look at each.
    client = docker.from_env().api
    for row in client.images():
        for tag in row.get("RepoTags") or ():
            if image["id"] in tag or tag.startswith(f"retagged-{hub.hub_id}"):
                with suppress(docker.errors.ImageNotFound):
                    client.remove_image(tag, force=True)


def test_the_next_session_has_what_was_installed_and_nothing_of_home(
    hub: Hub, made: tuple[Api, dict[str, Any], list[str], str]
) -> None:
    _, image, _, _ = made
    options = {"environment": "python", "version": image["version_name"]}
    assert hub.launch("owner", options).status_code in {201, 202}
    hub.until_ready("owner")
    session = hub.sessions("owner")[-1]
    assert_installed(hub, session["id"])
    home = hub.run_inside(session["id"], "ls", "-A", "/home/work")
    assert "lost" not in home
    assert "data" not in home
    config = hub.container_of(session["id"]).attrs["Config"]
    labels = [name for name in config["Labels"] if name.startswith("backendai.image.")]
    assert config["Labels"]["backendai.session"] == session["id"]
    assert "backendai.image.owner" in labels
    hub.delete("owner")
    hub.until_over("owner")


def test_nothing_secret_is_in_the_image(
    hub: Hub, made: tuple[Api, dict[str, Any], list[str], str], tmp_path: Path
) -> None:
    _, image, secrets, _ = made
    assert len(secrets) >= 4, secrets
    tar = tmp_path / "image.tar"
    subprocess.run(["docker", "save", "-o", str(tar), image["reference"]], check=True)
    # What is known to be there shows that nothing is overlooked.
    assert found_in(tar, [*secrets, KEPT_TEXT]) == {KEPT_TEXT}
    tar.unlink()
    config = docker.from_env().images.get(image["reference"]).attrs["Config"]
    of_base = docker.from_env().images.get(IMAGE).attrs["Config"]
    for name in ("Cmd", "Entrypoint", "User", "WorkingDir", "Env"):
        assert config.get(name) == of_base.get(name), name
    assert {n for n in config["Labels"] if n.startswith("backendai.")} == {
        f"backendai.image.{n}" for n in ("hub", "id", "owner", "name", "base", "base-id", "made",
                                         "order")
    }  # fmt: skip
    tags = [tag for row in docker.from_env().api.images(name=REPOSITORY)
            for tag in row.get("RepoTags") or ()]  # fmt: skip
    assert not [tag for tag in tags if f":{hub.hub_id}." in tag]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_look_for_secrets_sees_into_a_layer(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    layer = io.BytesIO()
    add(layer, "opt/file", b"x" * 5_000_000 + b"a-secret-of-mine")
    tar = tmp_path / "image.tar"
    with tar.open("wb") as file:
        add(file, "blobs/sha256/1", pack(layer.getvalue()))
    assert found_in(tar, ["a-secret-of-mine", "another"]) == {"a-secret-of-mine"}


def add(file: IO[bytes], name: str, data: bytes) -> None:
    """A tar with one file in it."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(info, io.BytesIO(data))


# ---- somebody who has another's reference --------------------------------------------------------


def spellings(image: dict[str, Any], other: str) -> dict[str, dict[str, Any]]:
    """Eight ways to name it; `other`: a name that an admin gave it."""
    reference = image["reference"]
    found = docker.from_env().images.get(reference)
    repository, _, tag = reference.rpartition(":")
    return {
        "reference": {"image": reference},
        "version": {"environment": "python", "version": image["version_name"]},
        "without environment": {"version": image["version_name"]},
        "digest": {"image": f"{reference}@{found.id}"},
        "host": {"image": f"docker.io/{repository}:{tag}"},
        "retagged": {"image": f"{other}:1"},
        "retagged as one of theirs": {"image": f"{other}:customized_{'0' * 32}"},
        "retagged without a tag": {"image": other},
    }


def refused(hub: Hub, before: set[str], server: str, accepted: set[str]) -> None:
    """Nothing of mallory's runs, or ever had a container. `server`: what was asked for in the Hub,
    `accepted`: ids of sessions that the service has taken."""

    def settled() -> bool:
        # Before the rows: a start in the Hub has its row some time after it began.
        under_way = hub.server("mallory", server)
        rows = [row for row in hub.sessions("mallory") if row["id"] not in before]
        assert all(row["status"] != "RUNNING" for row in rows), rows
        over = {"ERROR", "CANCELLED", "TERMINATED"}
        there = accepted <= {row["id"] for row in rows}
        return not under_way and there and all(row["status"] in over for row in rows)

    wait_for("mallory's starts to be over", settled, 120)
    for row in hub.sessions("mallory"):
        if row["id"] not in before:
            assert "owner" not in row["reason"], row["reason"]
    mallorys = [c for c in hub.containers() if c.labels.get("backendai.user") == "mallory"]
    assert mallorys == []


@pytest.fixture(scope="module")
def mallory(hub: Hub) -> requests.Session:
    """Signed in, as a browser is."""
    Api(hub, "mallory")
    browser = requests.Session()
    browser.get(f"{hub.url}/hub/login")
    data = {"username": "mallory", "password": "secret", "_xsrf": browser.cookies["_xsrf"]}
    assert browser.post(f"{hub.url}/hub/login?next=%2Fhub%2Fhome", data=data).ok
    return browser


DOORS = ("form", "link", "rest", "stored", "restart", "service")


@pytest.mark.parametrize("door", DOORS)
def test_nobody_gets_into_somebody_elses(
    hub: Hub,
    made: tuple[Api, dict[str, Any], list[str], str],
    mallory: requests.Session,
    door: str,
) -> None:
    _, image, _, _ = made
    before = {row["id"] for row in hub.sessions("mallory")}
    api = Api(hub, "mallory")
    for number, (spelling, options) in enumerate(spellings(image, other_name(hub)).items()):
        server = f"{door}{number}"
        reply = come_in(hub, mallory, api, door, server, options)
        assert image["made_at"] not in reply.text, spelling
        assert reply.status_code < 500 or reply.status_code == 503, (spelling, reply.text)
        accepted = reply.json()["sessions"] if door == "service" and reply.ok else []
        refused(hub, before, server, {row["id"] for row in accepted})
        hub.call("DELETE", f"users/mallory/servers/{server}", json={"remove": True})


def come_in(
    hub: Hub, browser: requests.Session, api: Api, door: str, server: str, options: dict[str, Any]
) -> requests.Response:
    """Asks for a session through one of the doors."""
    if door == "service":
        return api.call("POST", "api/sessions", json=options)
    if door == "rest":
        return hub.launch("mallory", options, server)
    if door in {"stored", "restart"}:
        hub.call("PUT", f"users/mallory/servers/{server}", json={"user_options": options})
        if door == "stored":
            return hub.call("POST", f"users/mallory/servers/{server}")
        return browser.get(f"{hub.url}/hub/spawn/mallory/{server}", timeout=60)
    if door == "link":
        query = urlencode({f"opt-{name}": value for name, value in options.items()})
        return browser.get(f"{hub.url}/hub/spawn/mallory/{server}?{query}", timeout=60)
    fields = dict(options)
    if "version" in fields:  # as the form sends it
        fields = {"environment": "python", "version.python": fields["version"]}
    data = {**fields, "_xsrf": browser.cookies.get("_xsrf", path="/hub/")}
    return browser.post(f"{hub.url}/hub/spawn/mallory/{server}", data=data, timeout=120)


def test_the_owner_gets_in_by_its_name(
    hub: Hub, made: tuple[Api, dict[str, Any], list[str], str]
) -> None:
    """So that what is refused above is refused for whose it is."""
    _, image, _, _ = made
    for options in ({"image": image["reference"]}, {"image": f"{other_name(hub)}:1"}):
        assert hub.launch("owner", options).status_code in {201, 202}, options
        hub.until_ready("owner")
        session = hub.sessions("owner")[-1]
        assert_installed(hub, session["id"])
        hub.delete("owner")
        hub.until_over("owner")


def test_an_own_image_that_is_gone_from_its_agent_is_not_downloaded(
    hub: Hub, made: tuple[Api, dict[str, Any], list[str], str]
) -> None:
    """A registry could answer with anybody's; and what has its name is not it."""
    owner, image, _, _ = made
    client = docker.from_env()
    kept = client.images.get(image["reference"])
    assert kept.tag(f"retagged-{hub.hub_id}-kept", "1")
    client.images.remove(image["reference"])
    client.images.get(IMAGE).tag(*image["reference"].split(":"))
    try:
        reply = hub.launch("owner", {"image": image["reference"]})
        assert reply.status_code in {201, 202, 503}
        hub.until_over("owner")
        last = hub.sessions("owner")[-1]
        assert last["reason_code"] == "image_missing"
        assert "delete the image" in last["reason"]
    finally:
        client.images.remove(image["reference"])
        kept.tag(*image["reference"].split(":"))


def test_a_deleted_image_is_gone_from_its_agent(
    hub: Hub, made: tuple[Api, dict[str, Any], list[str], str]
) -> None:
    owner, image, _, _ = made
    path = f"api/images/{image['id']}"
    assert owner.call("DELETE", path).status_code == 202
    wait_for("the image to be gone", lambda: owner.images() == [], 120)
    with pytest.raises(docker.errors.ImageNotFound):
        docker.from_env().images.get(image["reference"])
    assert owner.call("GET", path).status_code == 404
    assert json.dumps(hub.rows("select * from images")) == "[]"
    assert TOKEN not in hub.log_text()
