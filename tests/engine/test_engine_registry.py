"""Images in a registry: Debian's own `docker-registry`, and some that answer oddly."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
import requests
from aiohttp import web
from committing import AGENT, Committed
from tiny import build_tiny

from jupyterhub_backendai.engine import registry
from jupyterhub_backendai.engine.base import ImageMissing
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.images import LABEL_IMAGE_ID, CommitOrder, Login, RegistryRefused
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.images import CustomImage, ImageStatus
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.spawner.images import check_downloaded, is_there

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("docker-registry"), reason="there is no docker-registry"),
]
USER, PASSWORD = "hub", "p4ss-of-the-registry"
HASH = "$2y$05$abcdefghijklmnopqrstuunLOWaaJlI9W7mkBZNe2ubIZfsjDiIL2"  # of that, by bcrypt
LOGIN = Login(USER, PASSWORD)
CONFIG = """
version: 0.1
log: {{level: debug}}
storage:
  filesystem: {{rootdirectory: {folder}/images}}
  delete: {{enabled: {deletes}}}
http: {{addr: "127.0.0.1:{port}", secret: for-tests}}
auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}
"""


class Registry:
    """One that runs. `log`: what it writes."""

    def __init__(self, folder: Path, port: int) -> None:
        self.host, self.log = f"127.0.0.1:{port}", folder / "log"

    def has(self, name: str, digest: str) -> bool:
        url = f"http://{self.host}/v2/{name}/manifests/{digest}"
        kind = {"Accept": "application/vnd.docker.distribution.manifest.v2+json"}
        found = requests.get(url, auth=(USER, PASSWORD), headers=kind, timeout=30)
        return found.status_code == 200


@contextmanager
def running_registry(folder: Path, deletes: bool = True) -> Iterator[Registry]:
    (folder / "htpasswd").write_text(f"{USER}:{HASH}\n")
    while True:
        found, process = _begin(folder, deletes)
        try:
            deadline = time.monotonic() + 120
            while process.poll() is None and not _answers(found.host):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            if process.poll() is not None:
                # Somebody else was given its port meanwhile.
                assert "address already in use" in found.log.read_text(), found.log.read_text()
                continue
            yield found
            return
        finally:
            process.terminate()
            process.wait(60)


def _begin(folder: Path, deletes: bool) -> tuple[Registry, subprocess.Popen[bytes]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = CONFIG.format(folder=folder, port=port, deletes=str(deletes).lower())
    (folder / "config.yml").write_text(config)
    found = Registry(folder, port)
    with found.log.open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log
        )
    return found, process


def _answers(host: str) -> bool:
    try:
        return requests.get(f"http://{host}/v2/", timeout=5).status_code == 401
    except (requests.exceptions.ConnectionError, requests.exceptions.Timeout):
        return False


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest_asyncio.fixture
async def made(tmp_path: Path) -> AsyncIterator[Committed]:
    made = Committed(f"backendai-test-{uuid.uuid4().hex[:12]}:1")
    try:
        await asyncio.to_thread(build_tiny, made.docker, made.base, tmp_path)
        made.start("/wait")
        yield made
    finally:
        made.docker.remove_container(made.container, force=True)
        made.docker.remove_image(made.base)
        await made.end()


async def an_image(made: Committed, host: str, size: int = 1000) -> CommitOrder:
    """An image of the session for that registry, with so many bytes of its own."""
    folder = Path("/proc") / str(made.docker.inspect_container(made.container)["State"]["Pid"])
    data = os.urandom(size)
    await asyncio.to_thread((folder / "root/opt/file").write_bytes, data)
    order = made.order(reference=f"{host}/team/python:customized_{uuid.uuid4().hex}")
    await made.images.make(AGENT, order)
    return order


async def test_an_image_goes_there_and_comes_from_there_to_another_agent(
    made: Committed, there: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    order = await an_image(made, there.host, 3_000_000)
    told: list[tuple[int, int | None]] = []
    digest = await made.images.push(
        AGENT, order.reference, LOGIN, lambda done, whole: told.append((done, whole))
    )
    assert digest.startswith("sha256:")
    assert there.has("team/python", digest)
    done, whole = told[-1]
    assert done == whole
    assert done >= 3_000_000
    assert await made.images.push(AGENT, order.reference, LOGIN, lambda done, whole: None) == digest
    await made.images.remove(AGENT, order.reference)

    asked: list[str] = []

    def logins(image: str) -> Login | None:
        asked.append(image)
        return LOGIN if image.startswith(f"{there.host}/team/") else None

    config = AgentConfig("other")
    other = DockerEngine([config], made.engine.hub_id, "run", logins)
    nobody = DockerEngine([config], made.engine.hub_id, "run")
    with pytest.raises(ImageMissing):
        await nobody.host("other").downloads.wait(order.reference, lambda done, whole: None)
    assert other.images
    assert await other.images.find("other", order.reference) is None
    await other.host("other").downloads.wait(order.reference, lambda done, whole: None)
    assert asked == [order.reference]
    found = await other.images.find("other", order.reference)
    assert found
    assert found.labels == {**found.labels, **order.labels}
    # By its second name it is the same registry, and another image to Docker.
    second = order.reference.replace("127.0.0.1", "127.0.0.2")
    assert await other.images.find("other", second) is None

    await made.images.unpush(order.reference, digest, LOGIN)
    assert not there.has("team/python", digest)
    await made.images.unpush(order.reference, digest, LOGIN)
    coded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert not [text for text in (PASSWORD, coded) if text in caplog.text]


async def anew(made: Committed, order: CommitOrder) -> str:
    """The digest of another image of the same reference, made and pushed."""
    folder = Path("/proc") / str(made.docker.inspect_container(made.container)["State"]["Pid"])
    await asyncio.to_thread((folder / "root/opt/file").write_bytes, os.urandom(1000))
    await made.images.make(AGENT, made.order(reference=order.reference, **order.labels))
    return await made.images.push(AGENT, order.reference, LOGIN, lambda done, whole: None)


async def test_a_push_that_was_given_up_is_put_right(made: Committed, there: Registry) -> None:
    order = await an_image(made, there.host)
    reference = order.reference
    first = await made.images.push(AGENT, reference, LOGIN, lambda done, whole: None)
    await made.images.put_right(reference, first, LOGIN)
    assert there.has("team/python", first), "it was right"
    assert await made.images.named(reference, LOGIN) == first
    second = await anew(made, order)
    assert second != first
    assert await made.images.named(reference, LOGIN) == second
    await made.images.put_right(reference, first, LOGIN)
    assert not there.has("team/python", second)
    await made.images.remove(AGENT, reference)
    engine = DockerEngine([AgentConfig(AGENT)], made.engine.hub_id, "run", lambda image: LOGIN)
    await engine.host(AGENT).downloads.wait(reference, lambda done, whole: None)
    found = await engine.images.find(AGENT, reference)
    assert found is not None
    assert found.digests == {first}
    # Where there is to be none.
    await made.images.put_right(reference, None, LOGIN)
    assert not there.has("team/python", first)
    assert await made.images.named(reference, LOGIN) is None
    await made.images.put_right(reference, None, LOGIN)
    # Where the one that is to be there is not, either: nobody gets the other one for it.
    third = await anew(made, order)
    await made.images.put_right(reference, first, LOGIN)
    assert not there.has("team/python", third)
    with pytest.raises(RegistryRefused, match="Check user and password"):
        await made.images.put_right(reference, None, Login(USER, "wrong"))


async def test_what_is_downloaded_is_the_image_of_the_list(
    made: Committed, there: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    order = await an_image(made, there.host)
    image = await made.images.find(AGENT, order.reference)
    assert image is not None
    digest = await made.images.push(AGENT, order.reference, LOGIN, lambda done, whole: None)
    await anew(made, order)
    await made.images.remove(AGENT, order.reference)
    engine = DockerEngine([AgentConfig(AGENT)], made.engine.hub_id, "run", lambda image: LOGIN)
    host, log = engine.host(AGENT), logging.getLogger()
    site: Any = SimpleNamespace(engine=engine, hub_id=made.engine.hub_id, log=log)
    own = CustomImage(
        id=order.labels[LABEL_IMAGE_ID], owner="alice", name="mine", reference=order.reference,
        environment="python", version="3", base=made.base, base_id="", engine_id=image.id,
        agent=None, digest=digest, size=1, own=1, status=ImageStatus.READY, reason="",
        made_at=utcnow(), used_at=None,
    )  # fmt: skip
    assert not await is_there(site, host, own)
    await host.downloads.wait(order.reference, lambda done, whole: None)
    with pytest.raises(LaunchError, match="another image where your image mine"):
        await check_downloaded(site, host, own)
    assert digest in caplog.text
    await made.images.put_right(order.reference, digest, LOGIN)
    await host.downloads.wait(order.reference, lambda done, whole: None)
    await check_downloaded(site, host, own)
    # One that was made where images are kept in another way has another id there.
    elsewhere = replace(own, engine_id=f"sha256:{'0' * 64}")
    assert await is_there(site, host, elsewhere)
    assert not await is_there(site, host, replace(elsewhere, digest=f"sha256:{'0' * 64}"))
    assert not await is_there(site, host, replace(own, id="0" * 32))


@pytest.mark.parametrize("login", [None, Login(USER, "wrong-password"), Login("x", PASSWORD)])
async def test_who_is_not_known_there_is_told_so(
    made: Committed, there: Registry, login: Login | None
) -> None:
    order = await an_image(made, there.host)
    with pytest.raises(RegistryRefused) as told:
        await made.images.push(AGENT, order.reference, login, lambda done, whole: None)
    assert told.value.args[0]
    with pytest.raises(RegistryRefused, match="Check user and password") as deleting:
        await made.images.unpush(order.reference, f"sha256:{'0' * 64}", login)
    for error in (told.value, deleting.value):
        assert login is None or login.password not in str(error)
    assert PASSWORD not in repr(LOGIN)


async def test_a_registry_that_allows_no_deletes_says_so(made: Committed, tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    with running_registry(folder, deletes=False) as found:
        order = await an_image(made, found.host)
        digest = await made.images.push(AGENT, order.reference, LOGIN, lambda done, whole: None)
        with pytest.raises(RegistryRefused, match="allows no deletes"):
            await made.images.unpush(order.reference, digest, LOGIN)
        assert found.has("team/python", digest)


async def test_what_is_not_there_cannot_be_sent(made: Committed, there: Registry) -> None:
    with pytest.raises(ImageMissing):
        await made.images.push(AGENT, f"{there.host}/a:1", LOGIN, lambda done, whole: None)


async def test_a_push_that_hangs_ends_when_nobody_waits_and_shows_no_password(
    made: Committed,
) -> None:
    asked, over = asyncio.Event(), asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        while await reader.read(1000):
            pass
        writer.close()
        over.set()

    async with await asyncio.start_server(hangs, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        order = await an_image(made, host)
        task = asyncio.create_task(
            made.images.push(AGENT, order.reference, LOGIN, lambda done, whole: None)
        )
        await asyncio.wait_for(asked.wait(), 60)
        shown = await asyncio.to_thread(_all_that_processes_show)
        assert "push.py" in shown
        assert PASSWORD not in shown
        over.clear()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(over.wait(), 60)
    assert "push.py" not in await asyncio.to_thread(_all_that_processes_show)


def _all_that_processes_show() -> str:
    """Command lines and variables of this process' children."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    files = [Path(f"/proc/{pid}/{what}") for pid in pids for what in ("cmdline", "environ")]
    return "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)


# ---- registries that answer oddly ----------------------------------------------------------------

REFERENCE, DIGEST = "team/python:customized_1", f"sha256:{'1' * 64}"


@asynccontextmanager
async def answering(handler: object) -> AsyncIterator[str]:
    """A registry, whose requests that handler answers."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def delete(host: str) -> None:
    await asyncio.to_thread(registry.delete, f"{host}/{REFERENCE}", DIGEST, LOGIN)


async def test_a_registry_may_want_a_token_of_its_own_server() -> None:
    heard: list[tuple[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        said = request.headers.get("Authorization", "")
        heard.append((request.method, said.partition(" ")[0]))
        if request.path == "/token":
            assert request.query["scope"] == "repository:team/python:delete"
            return web.json_response({"token": "T"})
        assert request.path == f"/v2/team/python/manifests/{DIGEST}"
        if said == "Bearer T":
            return web.Response(status=202)
        realm = f'Bearer realm="http://{request.host}/token",service="s"'
        scope = 'scope="repository:team/python:delete"'
        return web.Response(status=401, headers={"WWW-Authenticate": f"{realm},{scope}"})

    async with answering(handler) as host:
        await delete(host)
    assert heard == [("DELETE", "Basic"), ("GET", "Basic"), ("DELETE", "Bearer")]


async def test_nothing_of_the_password_is_in_what_is_told_and_no_redirect_is_followed() -> None:
    heard: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        heard.append(request.path)
        if request.path.startswith("/v2/team"):
            return web.Response(status=307, headers={"Location": "/elsewhere"}, text="moved")
        return web.Response(status=202)

    async def echoes(request: web.Request) -> web.Response:
        text = f"no {request.headers['Authorization']} and {PASSWORD} " + "x" * 5000
        return web.Response(status=500, text=text)

    async with answering(handler) as host:
        with pytest.raises(RegistryRefused, match="307"):
            await delete(host)
    assert len(heard) == 1
    async with answering(echoes) as host:
        with pytest.raises(RegistryRefused, match="500") as told:
            await delete(host)
    coded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert not [text for text in (PASSWORD, coded) if text in str(told.value)]
    assert len(str(told.value)) < 500
    with pytest.raises(RegistryRefused, match="does not answer"):
        await delete(host)


@pytest.mark.parametrize(
    ("host", "says", "without"),
    [
        ("127.0.0.1:5000", {}, True),
        ("127.8.8.8", {}, True),
        ("[::1]:5000", {}, True),
        ("localhost:5000", {}, True),
        ("registry.example.org", {}, False),
        ("10.0.0.1:5000", {"r.example.org": {"Secure": False}}, False),
        ("r.example.org", {"r.example.org": {"Secure": False}}, True),
        ("r.example.org", {"r.example.org": {"Secure": True}}, False),
    ],
)
def test_only_what_docker_takes_without_tls_is_asked_so(
    host: str, says: dict[str, dict[str, bool]], without: bool
) -> None:
    info = {"RegistryConfig": {"IndexConfigs": says}}
    assert registry._without_tls(host, [info]) is without


def test_docker_hub_has_no_such_way() -> None:
    with pytest.raises(RegistryRefused, match="Docker Hub"):
        registry.delete("team/python:1", DIGEST, LOGIN)
