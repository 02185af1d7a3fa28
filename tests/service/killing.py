"""A session in a real container whose image is made by a process that is killed on its way."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from jupyterhub_backendai.engine.base import LABEL_HUB, LABEL_KERNEL, LABEL_SESSION
from jupyterhub_backendai.engine.commit_traces import REPOSITORY
from jupyterhub_backendai.engine.settings import scratch_name
from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.store import Commit, Session

from ..hub.harness import wait_for
from .running import BACKEND, Running, launch, running, until_open
from .ways import make_running

ROOT = Path(__file__).resolve().parents[2]
MUCH = 60_000_000  # bytes


def writes(much: int = MUCH) -> str:
    """A script that writes so many bytes, and then that all are there."""
    data = f"head -c {much} /dev/urandom > /opt/it/data"
    return f"mkdir -p /opt/it && {data} && echo whole > /opt/it/z"


@dataclass
class Killing:
    """A session, its container, and processes that make its image."""

    service: Running
    folder: Path
    settings: Mapping[str, Any]
    docker: docker.APIClient
    container: str
    commit: Commit

    def process(self, step: str = "", how: str = "die") -> subprocess.Popen[bytes]:
        """One that does what is to be done, and ends or waits at a step."""
        words = ["-m", "tests.service.commit_process", json.dumps(self.settings), step, how]
        with (self.folder / "process.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *words, str(self.folder)], cwd=ROOT, stdout=log, stderr=log
            )

    def finish(self) -> Commit:
        """Has another process do what is left to do."""
        with self.process() as process:
            assert process.wait(240) == 0, self.log
        return self.now

    @property
    def log(self) -> str:
        return (self.folder / "process.log").read_text()[-4000:]

    @property
    def now(self) -> Commit:
        found: Commit = self.service.store.commit(self.commit.id)
        return found

    def left(self) -> list[str]:
        """All that is there of it beside the image itself."""
        hub = self.service.service.parts.site.hub_id
        rows = self.docker.images(name=REPOSITORY)
        names = [tag for row in rows for tag in row["RepoTags"] or ()]
        for row in self.docker.containers(all=True, filters={"name": REPOSITORY}):
            names += row["Names"]
        volumes = self.docker.volumes(filters={"name": REPOSITORY})["Volumes"] or []
        names += [row["Name"] for row in volumes]
        label = {"dangling": True, "label": f"backendai.image.hub={hub}"}
        return [*(n for n in names if hub in n), *self.docker.images(quiet=True, filters=label)]

    def still(self) -> bool:
        """Whether the session stands still."""
        return bool(self.docker.inspect_container(self.container)["State"]["Paused"])

    def usable(self) -> bool:
        """Whether the session goes on."""
        if self.still():
            return False
        made = self.docker.exec_create(self.container, ["true"])
        self.docker.exec_start(made["Id"])
        return bool(self.docker.exec_inspect(made["Id"])["ExitCode"] == 0)

    def is_there(self) -> bool:
        """Whether the image is there, and whole."""
        try:
            self.docker.inspect_image(self.commit.reference)
        except ImageNotFound:
            return False
        made = self.docker.create_container(self.commit.reference, ["cat", "/opt/it/z"])
        try:
            self.docker.start(made)
            assert self.docker.wait(made)["StatusCode"] == 0
            assert self.docker.logs(made) == b"whole\n"
        finally:
            self.docker.remove_container(made, force=True)
        return True

    def check(self, over: Commit) -> None:
        """Whatever happened: the whole image, or none; and the session."""
        rows = self.service.store.images_of("alice")
        assert over.status in {CommitStatus.DONE, CommitStatus.CANCELLED}, (over, self.log)
        whole = over.status is CommitStatus.DONE
        assert [row.reference for row in rows] == [self.commit.reference] * whole
        assert self.is_there() == whole
        assert self.left() == []
        assert self.usable()


@dataclass
class Hibernating(Killing):
    """One that is hibernated, and writes all the time."""

    home: str = ""

    @property
    def session(self) -> Session:
        return self.service.store.get(self.commit.session_id)

    async def end(self) -> None:
        """What the Hub's process does at its start with what is on its way to its end."""
        await self.service.service.parts.site.reconciler._look_at(self.session, first=True)

    def check(self, over: Commit) -> None:
        """Whatever happened: it rests, and nothing that it wrote is lost; or it goes on."""
        assert self.left() == []
        assert self.service.store.images_of("alice") == []
        rests = over.status is CommitStatus.DONE
        assert self.session.status is (Status.HIBERNATED if rests else Status.RUNNING), self.log
        assert self.service.store.is_kept(self.session.id) == rests
        if not rests:
            assert not self.docker.images(name=self.commit.reference)
            before = self.count(self.container)
            assert self.usable()
            assert self.count(self.container) >= before
            return
        assert not self.docker.containers(all=True, filters={"id": self.container})
        assert self.docker.inspect_volume(self.home)
        assert self.is_there()
        host = {"Mounts": [{"Type": "volume", "Source": self.home, "Target": "/home/work"}]}
        made = self.docker.create_container(
            self.commit.reference, ["sleep", "1000"], host_config=host, user="root"
        )
        try:
            self.docker.start(made)
            assert self.count(made["Id"]) > 0
        finally:
            self.docker.remove_container(made, force=True)

    def count(self, container: str) -> int:
        """How far it has counted: in its home at least as far as outside, which is written after,
        and at most one further."""
        script = "cat /opt/n; cat /home/work/n"
        made = self.docker.exec_create(container, ["sh", "-c", script])
        outside, home = map(int, self.docker.exec_start(made["Id"]).split())
        assert home - 1 <= outside <= home or container == self.container
        return home


# Each number is there whole: a file takes the place of the one before it.
COUNTS = (
    "n=0; while :; do n=$((n+1)); echo $n > /home/work/m; mv /home/work/m /home/work/n; "
    "echo $n > /opt/m; mv /opt/m /opt/n; done"
)


@asynccontextmanager
async def hibernating(folder: Path, base_url: str, image: str) -> AsyncIterator[Hibernating]:
    """One on the daemon at that address whose session is to be hibernated."""
    agents = [{"name": "local", "base_url": base_url}]
    environments = [{"name": "python", "image": image}]
    client = docker.APIClient(base_url=base_url, version="auto", timeout=300)
    async with running(folder, agents=agents, environments=environments) as service:
        await until_open(service)
        session = await launch(service, "alice", {})
        await make_running(service, session, "127.0.0.1:1")
        hub = service.service.parts.site.hub_id
        home = scratch_name(hub, session["id"])
        labels = {LABEL_HUB: hub, LABEL_SESSION: session["id"], LABEL_KERNEL: "main1"}
        client.create_volume(home, labels=labels)
        host = {"Mounts": [{"Type": "volume", "Source": home, "Target": "/home/work"}]}
        made = client.create_container(
            image, ["sh", "-c", f"{writes()}; {COUNTS}"], user="root", labels=labels,
            host_config=host,
        )["Id"]  # fmt: skip
        reference = ""
        try:
            client.start(made)
            wait_for("it to count", lambda: _says(client, made, "cat /opt/n"))
            service.store.set_kernel(session["id"], container_id=made)
            path = f"api/sessions/{session['id']}/hibernation"
            reply = await service.call("POST", path, "alice")
            assert reply.status == 202, reply.json
            reference = reply.json["reference"]
            settings = {
                **BACKEND, "database_url": f"sqlite:///{folder}/b.sqlite",
                "log_directory": str(folder / "logs"),
                "agents": agents, "environments": environments,
            }  # fmt: skip
            commit = service.store.commit(reply.json["id"])
            yield Hibernating(service, folder, settings, client, made, commit, home)
        finally:
            with suppress(APIError):
                client.remove_container(made, force=True)
            with suppress(APIError):
                client.remove_volume(home, force=True)
            if reference:
                with suppress(APIError):
                    client.remove_image(reference)
            client.close()


def _says(client: docker.APIClient, container: str, script: str) -> bytes:
    made = client.exec_create(container, ["sh", "-c", script])
    out: bytes = client.exec_start(made["Id"])
    return out if client.exec_inspect(made["Id"])["ExitCode"] == 0 else b""


@asynccontextmanager
async def killing(
    folder: Path, base_url: str, image: str, much: int = MUCH
) -> AsyncIterator[Killing]:
    """One on the daemon at that address, which has written so many bytes."""
    agents = [{"name": "local", "base_url": base_url}]
    environments = [{"name": "python", "image": image}]
    client = docker.APIClient(base_url=base_url, version="auto", timeout=300)
    async with running(folder, agents=agents, environments=environments) as service:
        await until_open(service)
        session = await launch(service, "alice", {})
        await make_running(service, session, "127.0.0.1:1")
        made = client.create_container(image, ["sleep", "1000"], user="root")["Id"]
        reference = ""
        try:
            client.start(made)
            wrote = client.exec_create(made, ["sh", "-c", writes(much)], user="root")
            client.exec_start(wrote["Id"])
            assert client.exec_inspect(wrote["Id"])["ExitCode"] == 0
            service.store.set_kernel(session["id"], container_id=made)
            path = f"api/sessions/{session['id']}/commit"
            name = f"k{uuid.uuid4().hex[:8]}"
            reply = await service.call("POST", path, "alice", json={"name": name})
            assert reply.status == 202, reply.json
            reference = reply.json["reference"]
            settings = {
                **BACKEND, "database_url": f"sqlite:///{folder}/b.sqlite",
                "log_directory": str(folder / "logs"),
                "agents": agents, "environments": environments,
            }  # fmt: skip
            commit = service.store.commit(reply.json["id"])
            yield Killing(service, folder, settings, client, made, commit)
        finally:
            client.remove_container(made, force=True)
            if reference:
                with suppress(APIError):
                    client.remove_image(reference)
            client.close()
