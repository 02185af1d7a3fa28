"""The shapes of a deployment beside the Hub as root on the host, which is what other tests use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import requests

from .compose import Project
from .harness import IMAGE, Hub, execute, free_port, wait_for
from .visitor import sign_in

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
SOCKET = Path("/var/run/docker.sock")
USER = "backendai-test"
NEW_FOLDER = {"mounts": [{"folder": "data", "create": True}]}


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that others may look into, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="backendai-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


# ---- an ordinary user in the group of the Docker socket -----------------------------------------


@pytest.fixture
def ordinary_user() -> Iterator[list[str]]:
    """A command in front of another that runs it as a user who has nothing but the socket."""
    if os.geteuid() != 0:
        yield []
        return
    if os.environ.get("DOCKER_HOST") or not SOCKET.is_socket():
        pytest.skip("Docker is not reached by its usual socket, whose group is what counts here")
    subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", USER], check=True)
    try:
        account = pwd.getpwnam(USER)
        groups = f"{account.pw_gid},{SOCKET.stat().st_gid}"
        command = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
        command += [f"--groups={groups}", "--"]
        if subprocess.run([*command, "test", "-r", ROOT / "pyproject.toml"]).returncode != 0:
            pytest.skip(f"{ROOT} is for root alone, so no other user can run what is in it")
        yield command
    finally:
        subprocess.run(["userdel", USER], check=True)


def python_for(command: list[str]) -> tuple[str, dict[str, str]]:
    """A Python that this user can start, as its Hub has to, and what it needs to find ours."""
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"

    def starts(python: str) -> bool:
        if shutil.which(python) is None:
            return False
        return subprocess.run([*command, python, "-c", again], capture_output=True).returncode == 0

    if starts(sys.executable):
        return sys.executable, {}
    # One in a home of root's; the system's finds the same packages.
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not starts(system):
        pytest.skip(f"{sys.executable} is for root alone, and there is no {system}")
    return system, {"PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])}


def test_a_hub_of_an_ordinary_user(ordinary_user: list[str], directory: Path) -> None:
    own = directory / "hub"
    own.mkdir()
    if ordinary_user:
        account = pwd.getpwnam(USER)
        os.chown(own, account.pw_uid, account.pw_gid)
    folders = own / "folders"
    python, found = python_for(ordinary_user)
    hub = Hub(
        own,
        settings={"BackendAI": {"folder_root": str(folders), "check_hub_access": True}},
        command=[*ordinary_user, python, "-m", "jupyterhub"],
        environment={"HOME": str(own), **found},
    )
    try:
        hub.start()
        assert hub.process is not None
        uid = account.pw_uid if ordinary_user else os.getuid()
        assert owner(Path(f"/proc/{hub.process.pid}"))[0] == uid
        assert owner(own / "backendai.sqlite")[0] == uid

        user = hub.add_user("alice")
        assert hub.launch(user, NEW_FOLDER).ok
        hub.until_ready(user)
        session = hub.sessions(user)[-1]["id"]
        hub.run_inside(session, "sh", "-c", "echo kept > data/kept; echo lost > lost")
        # The folder belongs to who works in it, the way to it to nobody who signs in.
        assert owner(folders / "users" / user / "data") == (1000, 100)
        assert owner(folders / "users" / user) == (0, 0)
        wait_for("the test of its address", lambda: "reach the Hub at" in hub.log_text())

        hub.delete(user)
        hub.until_over(user)
        wait_for(
            "nothing to be left", lambda: not (hub.containers() or hub.volumes() or hub.held())
        )

        # The Hub itself cannot read what is inside, and need not to offer it again.
        assert hub.launch(user, {"mounts": [{"folder": "data"}]}).ok
        hub.until_ready(user)
        session = hub.sessions(user)[-1]["id"]
        assert hub.run_inside(session, "cat", "data/kept") == "kept\n"
        assert "lost" not in hub.run_inside(session, "ls", ".").split()
    finally:
        hub.end()
        remove(folders)


def owner(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_uid, status.st_gid


def remove(path: Path) -> None:
    """Removes what Docker made as root, as root, whoever runs the tests."""
    docker.from_env().containers.run(
        IMAGE,
        ["rm", "-rf", f"/beside/{path.name}"],
        entrypoint=[],
        user="0:0",
        remove=True,
        volumes=[f"{path.parent}:/beside"],
    )


# ---- in a container with the socket mounted -----------------------------------------------------


class Composed:
    """The example of a Hub in a container, on names and a port of this test."""

    def __init__(self, directory: Path) -> None:
        example = ROOT / "examples" / "compose"
        given = (example / ".env.example").read_text().splitlines()
        values = dict(line.partition("=")[::2] for line in given if line and line[0] != "#")
        self.folders = directory / "folders"
        self.network = f"backendai-test-{os.getpid()}"
        values["PORT"] = str(free_port())
        values["FOLDERS"] = str(self.folders)
        values["SESSIONS_NETWORK"] = self.network
        self.password = values["USER_PASSWORD"]
        self.url = f"http://127.0.0.1:{values['PORT']}"
        self.project = Project(example / "compose.yaml", values, name=self.network)
        self.hub: Any = None

    def up(self) -> None:
        self.hub = self.project.up()
        wait_for("the Hub in its container to answer", self._answers)

    def _answers(self) -> bool:
        self.hub.reload()
        assert self.hub.status == "running", self.log()
        try:
            return requests.get(f"{self.url}/hub/health", timeout=5).status_code == 200
        except requests.ConnectionError:
            return False

    def log(self) -> str:
        return str(self.hub.logs().decode(errors="replace"))

    def sessions(self) -> list[Any]:
        filters = {"network": self.network, "label": "backendai.user"}
        containers = self.project.docker.containers
        return list(containers.list(all=True, filters=filters, ignore_removed=True))

    def down(self) -> None:
        for container in self.sessions():
            with contextlib.suppress(docker.errors.APIError):
                container.remove(force=True, v=True)
            home = {"label": f"backendai.session={container.labels['backendai.session']}"}
            for volume in self.project.docker.volumes.list(filters=home):
                volume.remove(force=True)
        self.project.down()


@pytest.fixture
def composed(directory: Path) -> Iterator[Composed]:
    if os.environ.get("DOCKER_HOST") or not SOCKET.is_socket():
        pytest.skip("Docker is not reached by its usual socket, which the example mounts")
    subprocess.run([ROOT / "share" / "setup" / "image.sh", "hub"], check=True)
    composed = Composed(directory)
    try:
        yield composed
    finally:
        composed.down()
        remove(composed.folders)


def test_a_hub_in_a_container(composed: Composed) -> None:
    composed.up()
    alice = Visitor(composed, "alice")
    assert alice.call("POST", "server", json=NEW_FOLDER).ok
    alice.until_ready()
    (container,) = composed.sessions()
    (network,) = container.attrs["NetworkSettings"]["Networks"]
    assert network == composed.network
    (folder,) = (m for m in container.attrs["Mounts"] if m["Type"] == "bind")
    assert folder["Source"] == str(composed.folders / "users" / "alice" / "data")
    assert owner(Path(folder["Source"])) == (1000, 100)
    assert alice.prints("open('data/kept', 'w').write('by alice'); print('written')") == "written\n"
    assert (Path(folder["Source"]) / "kept").read_text() == "by alice"
    wait_for("the test of its address", lambda: "reach the Hub at" in composed.log())
    assert "Containers on local reach the Hub at http://hub:8081/hub/api" in composed.log()

    # The form offers the folder: the Hub sees it where it has it mounted.
    page = alice.cookies.get(f"{composed.url}/hub/spawn/alice/other", timeout=30)
    assert '"name":"data"' in page.text

    # The Hub's container is replaced, as an update does; its address may be another one then.
    composed.hub.remove(force=True, v=True)
    composed.up()
    alice = Visitor(composed, "alice")
    alice.until_ready()
    assert [c.id for c in composed.sessions()] == [container.id]
    assert alice.prints("print(open('data/kept').read())") == "by alice\n"

    assert alice.call("DELETE", "server").ok
    wait_for("the session to go", lambda: not composed.sessions())
    homes = {"label": f"backendai.session={container.labels['backendai.session']}"}
    wait_for("its home to go", lambda: not composed.project.docker.volumes.list(filters=homes))
    assert (Path(folder["Source"]) / "kept").exists()


class Visitor:
    """Somebody who signed in, and what they may do by API."""

    def __init__(self, composed: Composed, name: str) -> None:
        self.url, self.name = composed.url, name
        self.cookies = sign_in(self.url, name, composed.password)
        self.token = self.call("POST", "tokens", json={}).json()["token"]

    def call(self, method: str, path: str = "", **more: Any) -> requests.Response:
        xsrf = self.cookies.cookies.get("_xsrf", path="/hub/") or ""
        url = f"{self.url}/hub/api/users/{self.name}/{path}".rstrip("/")
        return self.cookies.request(method, url, headers={"X-XSRFToken": xsrf}, timeout=60, **more)

    def until_ready(self) -> None:
        def ready() -> bool:
            server = self.call("GET").json()["servers"].get("", {})
            return bool(server.get("ready"))

        wait_for(f"the server of {self.name} to be ready", ready)

    def prints(self, code: str) -> str:
        """What code prints in the session."""
        return asyncio.run(execute(f"{self.url}/user/{self.name}", code, self.token))
