"""A session's container to make images of, made as the spawner makes it, with secrets in it."""

from __future__ import annotations

import json
import subprocess
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
from golden_cases import session

from jupyterhub_backendai.engine.base import ImageFacts
from jupyterhub_backendai.engine.commit_traces import REPOSITORY
from jupyterhub_backendai.engine.create import apply_settings
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_HUB,
    LABEL_IMAGE_ID,
    LABEL_IMAGE_NAME,
    LABEL_IMAGE_OWNER,
    CommitOrder,
)
from jupyterhub_backendai.engine.settings import SiteSettings, container_settings
from jupyterhub_backendai.engine.support import support_files
from jupyterhub_backendai.model.keys import SshKeys
from tests.archives import unpack

AGENT = "local"
IMAGE = "backendai-plain:latest"
# A healthcheck, an entrypoint and variables that a build has given it.
DOCKERFILE = f"""
FROM {IMAGE}
USER root
RUN mkdir -p /opt/tools /data && chown 1000:100 /opt/tools
ENV BUILT="of the image" HF_HOME=/opt/hf
LABEL org.example.kept=yes backendai.session=forged backendai.apps=none
VOLUME /data
HEALTHCHECK --interval=60s CMD true
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/bin/env"]
CMD ["sleep", "1000"]
USER work
WORKDIR /home/work
"""


class Committed:
    """An engine, a container with secrets, and what came of both. `base`: its image."""

    def __init__(self, base: str, client: Mapping[str, Any] | None = None) -> None:
        self.run = uuid.uuid4().hex
        self.engine = DockerEngine(
            [AgentConfig(AGENT, client=client or {})], f"test{self.run[:8]}", self.run[:12]
        )
        self.images = self.engine.images
        self.docker = docker.APIClient(version="auto", timeout=300, **(client or {}))
        self.base = base
        self.container = ""
        self.references: list[str] = []
        self.secrets = {
            name: f"{name.lower()}-{uuid.uuid4().hex}"
            for name in (
                "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_OAUTH_SCOPES", "AWS_SECRET",
                "PYTHONPATH", "HF_HOME",
            )
        }  # fmt: skip
        self.more_secrets = {"ssh": f"PRIVATE{self.run}", "host": f"HOST{self.run}"}

    @property
    def values(self) -> list[str]:
        """All that no image may have in it."""
        return [*self.secrets.values(), *self.more_secrets.values(), self.session_id]

    @property
    def session_id(self) -> str:
        return self.run

    def start(self, *command: str, image: str = "") -> None:
        """Starts the container; it is the session's, and waits."""
        site = SiteSettings(self.engine.hub_id)
        words = command or ("sh", "-c", "sleep 1000")
        facts = session({}, session_id=self.session_id, command=words)
        given = {"image": image or self.base, "env": {"AWS_SECRET": self.secrets["AWS_SECRET"]}}
        facts = replace(facts, request=facts.request.model_copy(update=given))
        settings = container_settings(facts, ImageFacts("", (), {}), site)
        kwargs = apply_settings(
            {"image": image or self.base, "command": list(words), "environment": self.secrets,
             "name": f"{self.engine.hub_id}-{uuid.uuid4().hex[:6]}", "entrypoint": []},
            settings,
        )  # fmt: skip
        self.container = self.docker.create_container(**kwargs)["Id"]
        keys = SshKeys(self.more_secrets["ssh"], "ssh-ed25519 A a", self.more_secrets["host"], "s")
        self.docker.put_archive(self.container, "/", support_files(site, keys=keys))
        self.docker.start(self.container)

    def inside(self, script: str, user: str = "1000:100") -> str:
        """What a script in the container writes."""
        made = self.docker.exec_create(self.container, ["sh", "-c", script], user=user)
        out = self.docker.exec_start(made["Id"]).decode()
        assert self.docker.exec_inspect(made["Id"])["ExitCode"] == 0, out
        return out

    def order(
        self, name: str = "mine", reference: str = "", stay: bool = False, **labels: str
    ) -> CommitOrder:
        """An order of its own, for an image of that name."""
        image = uuid.uuid5(uuid.NAMESPACE_URL, self.run + name).hex
        reference = reference or f"backendai/test:customized_{image}"
        if reference not in self.references:
            self.references.append(reference)
        given = {
            LABEL_IMAGE_HUB: self.engine.hub_id,
            LABEL_IMAGE_ID: image,
            LABEL_IMAGE_OWNER: "alice",
            LABEL_IMAGE_NAME: name,
            LABEL_IMAGE_BASE: self.base,
            **labels,
        }
        return CommitOrder(uuid.uuid4().hex, self.container, reference, given, stay=stay)

    def temporary(self) -> list[str]:
        """Names of all that a commit of this hub left on its way."""
        names = [tag for row in self.docker.images(name=REPOSITORY) for tag in row["RepoTags"]]
        rows = self.docker.containers(all=True, filters={"name": f"{REPOSITORY}-"})
        names += [name.lstrip("/") for row in rows for name in row["Names"]]
        volumes = self.docker.volumes(filters={"name": f"{REPOSITORY}-"})["Volumes"] or []
        names += [row["Name"] for row in volumes]
        return [name for name in names if self.engine.hub_id in name]

    def nameless(self) -> list[str]:
        """Images of this hub without any name."""
        label = f"{LABEL_IMAGE_HUB}={self.engine.hub_id}"
        return self.docker.images(quiet=True, filters={"dangling": True, "label": label})

    def paused(self) -> bool:
        return bool(self.docker.inspect_container(self.container)["State"]["Paused"])

    def run_once(self, image: str, *command: str, **more: Any) -> str:
        """What that command says in a new container of an image."""
        made = self.docker.create_container(image, list(command) or None, **more)["Id"]
        try:
            self.docker.start(made)
            self.docker.wait(made)
            return self.docker.logs(made).decode()
        finally:
            self.docker.remove_container(made, force=True, v=True)

    async def end(self) -> None:
        """Removes all of it."""
        await self.engine.remove_session(AGENT, self.session_id)
        for order in await self.images.leftovers(AGENT):
            await self.images.clean(AGENT, order)
        for reference in self.references:
            await self.images.remove(AGENT, reference)
        self.docker.close()


def build(name: str) -> None:
    """The image that test sessions start from."""
    subprocess.run(
        ["docker", "build", "-q", "-t", name, "-"],
        input=DOCKERFILE.encode(), check=True, stdout=subprocess.DEVNULL,
        env={"DOCKER_BUILDKIT": "0", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip


def saved(reference: str, folder: Path, own_layers: int) -> tuple[dict[str, Any], list[str]]:
    """`docker save` of an image, unpacked: its settings, and the paths in its newest layers."""
    tar = folder / "image.tar"
    subprocess.run(["docker", "save", "-o", str(tar), reference], check=True)
    place = folder / "image"
    unpack(tar, place)
    tar.unlink()
    [manifest] = json.loads((place / "manifest.json").read_text())
    paths: list[str] = []
    for layer in manifest["Layers"][-own_layers:]:
        with tarfile.open(place / layer) as archive:
            paths += archive.getnames()
    return json.loads((place / manifest["Config"]).read_text()), paths


def telling(folder: Path, values: list[str]) -> Iterator[str]:
    """Where in the files of an unpacked image any of these values is: also in layers that are
    packed, and below what is replaced by another layer."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield from (f"{value} in {path}" for value in values if _has(path, value.encode()))


def _has(path: Path, value: bytes) -> bool:
    assert path.open("rb").read(2) != b"\x1f\x8b", "a packed layer is to be unpacked first"
    before = b""
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            if value in before + chunk:
                return True
            before = chunk[-len(value) :]
    return False
