"""What is inside a session: its apps, and every way to them; in an image with all and in one with
next to nothing."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests

from . import harness
from .harness import IMAGE, TOKEN, Hub, free_port, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]
PLAIN = "backendai-plain:latest"
FIRST = free_port()
PORTS = f"{FIRST}-{FIRST + 9}"
for _ in range(9):
    free_port()  # of this worker's tests none other takes them
SETTINGS = {
    "BackendAI": {
        "environments": [
            {
                **harness.ENVIRONMENTS[0],
                "name": "demo",
                "versions": [{"name": "1", "image": IMAGE}],
            },
            {
                **harness.ENVIRONMENTS[0],
                "name": "plain",
                "versions": [{"name": "1", "image": PLAIN}],
            },
        ],
        "presets": [{"name": "small", "cpu": 0.5, "mem": "512m"}],
        "default_policy": {"public_apps": True, "preferred_port": True},
        "app_ports": PORTS,
        "app_ports_address": "127.0.0.1",
        "app_ports_host": "127.0.0.1",
    }
}
APP = Path(__file__).parent / "inside_app.py"
START = (
    "import subprocess, sys; "
    "subprocess.Popen([sys.executable, 'app.py', sys.argv[1]], start_new_session=True, "
    "stdout=open('app.log', 'w'), stderr=subprocess.STDOUT)"
)
KNOWN = """
    UserKnownHostsFile {}/known
    StrictHostKeyChecking accept-new
    BatchMode yes
"""
LOOK = (
    "pwd; whoami; echo $BACKENDAI_SESSION_NAME; command -v python3; "
    "echo ${JUPYTERHUB_API_TOKEN-none}"
)


class Inside:
    """A session of alice's in one of the images."""

    def __init__(self, hub: Hub, environment: str) -> None:
        self.hub, self.environment = hub, environment
        self.user = hub.add_user("alice")
        options = {
            "name": f"apps-{environment}",
            "environment": environment,
            "preopen_ports": [8080, 8081],
        }
        reply = hub.launch(self.user, options, environment)
        assert reply.status_code in {201, 202}, reply.text

    def until_ready(self) -> Inside:
        self.hub.until_ready(self.user, self.environment)
        name = f"apps-{self.environment}"
        (self.id,) = [s["id"] for s in self.hub.sessions(self.user) if s["name"] == name]
        self.url = f"{self.hub.url}/user/{self.user}/{self.environment}/"
        reply = self.hub.call("POST", f"users/{self.user}/tokens", json={"note": "tests"})
        self.token = reply.json()["token"]
        self.headers = {"Authorization": f"token {self.token}"}
        return self

    def run(self, *command: str) -> str:
        return self.hub.run_inside(self.id, *command)

    def api(self, method: str, path: str = "", **options: Any) -> requests.Response:
        url = f"{self.hub.url}/services/backendai/api/sessions/{self.id}/apps{path}"
        return requests.request(method, url, headers=self.headers, timeout=60, **options)

    @property
    def apps(self) -> dict[str, dict[str, Any]]:
        reply = self.api("GET")
        assert reply.status_code == 200, reply.text
        assert reply.json()["reason"] is None
        return {app["name"]: app for app in reply.json()["apps"]}

    def serve(self, port: int) -> None:
        """Starts the app, as its user would."""
        code = f"open('app.py', 'w').write({APP.read_text()!r})"
        self.run("python3", "-c", code)
        self.run("python3", "-c", START, str(port))
        wait_for("the app to listen", lambda: self.apps[str(port)]["listening"])


@pytest.fixture(scope="module")
def both(hub: Hub) -> dict[str, Inside]:
    found = {name: Inside(hub, name) for name in ("demo", "plain")}
    return {name: one.until_ready() for name, one in found.items()}


@pytest.fixture(params=["demo", "plain"])
def inside(request: pytest.FixtureRequest, both: dict[str, Inside]) -> Inside:
    return both[request.param]


# ---- what there is -------------------------------------------------------------------------------


def test_what_is_there_in_each_image(both: dict[str, Inside]) -> None:
    demo, plain = both["demo"].apps, both["plain"].apps
    assert list(demo) == [
        "jupyterlab", "notebook", "terminal", "tensorboard", "sshd", "8080", "8081",
    ]  # fmt: skip
    assert [name for name, app in demo.items() if not app["available"]] == []
    assert list(plain) == ["jupyterlab", "terminal", "tensorboard", "sshd", "8080", "8081"]
    assert [name for name, app in plain.items() if not app["available"]] == ["tensorboard"]
    assert "pip install tensorboard" in plain["tensorboard"]["why"]
    assert demo["terminal"]["notes"] == []
    assert "tmux" in " ".join(plain["terminal"]["notes"])


def test_nothing_of_ours_is_in_what_a_user_starts(inside: Inside) -> None:
    environment = inside.run("env")
    assert "/opt/backendai" not in environment
    assert "JUPYTER_CONFIG_PATH" not in environment
    assert inside.run("whoami") == "work\n"
    home = inside.run("sh", "-c", "cd; pwd; stat -c '%a %U %n' id_container .tmux.conf .bashrc")
    assert home.splitlines()[:2] == ["/home/work", "600 work id_container"]
    with pytest.raises(AssertionError):
        inside.run("sh", "-c", "echo x >> /opt/backendai/lib/backendai_session/__init__.py")


# ---- a port, for its owner -----------------------------------------------------------------------


def test_a_port_says_how_to_use_it_and_serves_what_listens(inside: Inside) -> None:
    page = requests.get(
        f"{inside.url}backendai/open/8080",
        headers={**inside.headers, "Accept": "text/html"},
        timeout=30,
    )
    assert page.status_code == 200
    assert "8080" in page.text
    assert "127.0.0.1" in page.text
    inside.serve(8080)
    url = f"{inside.url}backendai/app/8080/"
    assert "It is here" in requests.get(url, headers=inside.headers, timeout=30).text
    seen = dict(
        requests.get(
            f"{url}echo",
            headers={**inside.headers, "Cookie": "jupyterhub-user-alice=x; own=y"},
            timeout=30,
        ).json()
    )
    assert "jupyterhub" not in json.dumps(seen).lower().replace("jupyterhub-backendai", "")
    assert inside.token not in json.dumps(seen)
    assert requests.get(url, timeout=30, allow_redirects=False).status_code in {302, 403}
    asyncio.run(_sockets_and_events(url, inside.headers))


async def _sockets_and_events(url: str, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession(headers=headers) as client:
        async with client.ws_connect(f"{url}ws") as socket:
            for message in ("text", "ü" * 1000):
                await socket.send_str(message)
                assert await socket.receive_str(timeout=30) == message
            await socket.send_bytes(bytes(1 << 20))
            assert await socket.receive_bytes(timeout=30) == bytes(1 << 20)
        async with client.get(f"{url}events") as events:
            assert await asyncio.wait_for(events.content.readline(), 30) == b"data: first\n"


# ---- for anybody ---------------------------------------------------------------------------------


def test_a_public_app_sees_nothing_of_the_hub_and_ends_at_once(inside: Inside) -> None:
    inside.serve(8081)
    opened = inside.api("POST", "/8081", json={"public": True})
    assert opened.status_code in {200, 201}, opened.text
    url = opened.json()["url"]
    cookies = "_xsrf=secret; jupyterhub-session-id=secret; service-backendai=secret; own=foreign"
    seen = requests.get(
        f"{url}echo", headers={"Cookie": cookies, "Authorization": f"token {TOKEN}"}, timeout=30
    )
    text = seen.text.lower()
    assert "secret" not in text
    assert TOKEN not in text
    assert "foreign" not in text
    page = requests.get(url, timeout=30)
    assert "It is here" in page.text
    assert page.headers["Content-Security-Policy"].startswith("sandbox ")
    assert "allow-same-origin" not in page.headers["Content-Security-Policy"]
    assert "Clear-Site-Data" not in page.headers
    set_cookies = page.raw.headers.getlist("Set-Cookie")
    assert not any(cookie.startswith("_xsrf") for cookie in set_cookies)
    assert all("; path=/services/backendai/public/" in cookie.lower() for cookie in set_cookies)
    # What the app has set comes back to it, under its own name.
    session = requests.Session()
    session.get(url, timeout=30)
    assert "own=of-the-app" in dict(session.get(f"{url}echo", timeout=30).json())["Cookie"]
    asyncio.run(_sockets_and_events(url, {}))
    assert [way["url"] for way in inside.apps["8081"]["ways"]] == [url]
    asyncio.run(_ends_at_once(inside, url))
    assert requests.get(url, timeout=30).status_code == 404
    assert inside.apps["8081"]["ways"] == []


async def _ends_at_once(inside: Inside, url: str) -> None:
    async with aiohttp.ClientSession() as client, client.ws_connect(f"{url}ws") as socket:
        await socket.send_str("still there?")
        assert await socket.receive_str(timeout=30) == "still there?"
        reply = await asyncio.to_thread(inside.api, "DELETE", "/8081")
        assert reply.status_code in {200, 204}
        message = await socket.receive(timeout=30)
        assert message.type in {
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        }


def test_what_gives_the_session_itself_is_never_public(inside: Inside) -> None:
    for app in ("jupyterlab", "terminal", "sshd"):
        reply = inside.api("POST", f"/{app}", json={"public": True})
        assert reply.status_code in {400, 403, 409}, (app, reply.text)
        assert reply.json()["errors"][0]["field"] == "public"
    assert inside.api("POST", "/nonsense", json={}).status_code == 404


# ---- SSH -----------------------------------------------------------------------------------------


@pytest.fixture(params=["port", "websocket"])
def ssh(request: pytest.FixtureRequest, inside: Inside, tmp_path: Path) -> Iterator[list[str]]:
    """Options of `ssh` and `sftp`, from the entry that the page shows."""
    key = tmp_path / "id_container"
    got = requests.get(
        f"{inside.hub.url}/services/backendai/api/key", headers=inside.headers, timeout=30
    )
    assert got.status_code == 200, got.text
    assert got.text == inside.run("cat", "/home/work/id_container")
    key.write_text(got.text)
    key.chmod(0o600)
    if request.param == "port":
        wanted = FIRST + 3
        opened = inside.api("POST", "/sshd", json={"preferred_port": wanted})
        assert opened.status_code in {200, 201}, opened.text
        said = opened.json()
        # Closed a moment ago by the test before this one, it is not given out again at once.
        assert said["port"] == wanted or f"Port {wanted}" in said["message"], said
    page = requests.get(
        f"{inside.hub.url}/services/backendai/sessions/{inside.id}/apps",
        headers=inside.headers,
        timeout=30,
    )
    entry = re.search(r'<pre[^>]*id="bk-ssh-config"[^>]*>(.*?)</pre>', page.text, re.DOTALL)
    assert entry, page.text
    client = Path(__file__).parents[2] / "share/static/backendai/ssh/backendai-ssh.py"
    config = (
        entry[1]
        .replace("~/.ssh/id_container", str(key))
        .replace("~/.ssh/backendai-ssh.py", str(client))
    )
    token = tmp_path / "token"
    token.write_text(inside.token)
    (tmp_path / "config").write_text(config + KNOWN.format(tmp_path))
    yield ["-F", str(tmp_path / "config")]
    if request.param == "port":
        assert inside.api("DELETE", "/sshd").status_code in {200, 204}


def run(*command: str, token: str = "", **options: Any) -> str:
    environment = {"PATH": "/usr/bin:/bin", "BACKENDAI_TOKEN": token, "HOME": "/nonexistent"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ssh_and_sftp_with_the_key_and_not_without(
    inside: Inside, ssh: list[str], tmp_path: Path
) -> None:
    host = f"apps-{inside.environment}"
    said = run(
        "ssh",
        *ssh,
        host,
        LOOK,
        token=inside.token,
    )
    assert said.splitlines() == ["/home/work", "work", host, "/opt/venv/bin/python3", "none"]
    big, back = tmp_path / "big", tmp_path / "back"
    with big.open("wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "big") * (1 << 18))
    run("sftp", *ssh, "-b", "-", host, input=f"put {big} big\nget big {back}\n", token=inside.token)
    assert back.stat().st_size == 100 << 20
    assert back.read_bytes() == big.read_bytes()
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    config = tmp_path / "config"
    config.write_text(re.sub(r"IdentityFile .*", f"IdentityFile {other}", config.read_text()))
    with pytest.raises(AssertionError, match="Permission denied"):
        run("ssh", *ssh, host, "true", token=inside.token)
