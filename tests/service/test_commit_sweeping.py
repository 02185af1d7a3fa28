"""What a sweep leaves where a machine has two names, or another one than before, with a real
Docker: the images that are somebody's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_HUB,
    LABEL_IMAGE_ID,
    LABEL_IMAGE_ORDER,
)
from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.service.commits.sweeping import sweep
from jupyterhub_backendai.store import Commit

from .images_made import begin, make, move, rest
from .running import Running, launch, running, until_open
from .ways import make_running

pytestmark = pytest.mark.docker
SOCKET = "unix:///var/run/docker.sock"
NOTHING = b"\0" * 1024  # the end of an archive: an image with no file in it
NAMES = {"two-names": ["also", "local"], "another-name": ["renamed"], "its-own": ["local"]}


class Machine:
    """Docker, without anything of this test's in it afterwards."""

    def __init__(self) -> None:
        self.docker = docker.APIClient(version="auto")
        self.references: list[str] = []

    def has(self, reference: str) -> bool:
        try:
            self.docker.inspect_image(reference)
        except ImageNotFound:
            return False
        return True

    def put(self, service: Running, commit: Commit) -> str:
        """Makes an image as that work would have; its reference."""
        labels = {
            LABEL_IMAGE_HUB: service.service.parts.site.hub_id,
            LABEL_IMAGE_ID: commit.image_id,
            LABEL_IMAGE_ORDER: commit.id,
        }
        repository, _, tag = commit.reference.rpartition(":")
        changes = [f"LABEL {name}={value}" for name, value in labels.items()]
        self.docker.import_image_from_data(NOTHING, repository=repository, tag=tag, changes=changes)
        self.references.append(commit.reference)
        return commit.reference


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    for reference in filter(machine.has, machine.references):
        machine.docker.remove_image(reference, force=True)
    machine.docker.close()


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
async def test_what_is_kept_stays_whatever_its_machine_is_called(
    tmp_path: Path, machine: Machine, names: list[str]
) -> None:
    agents = [{"name": name, "base_url": SOCKET} for name in names]
    async with running(tmp_path, agents=agents) as service:
        await until_open(service)
        site, store = service.service.parts.site, service.store
        sessions = []
        for _ in range(3):
            sessions.append(await launch(service, "alice", {}))
            await make_running(service, sessions[-1], "127.0.0.1:1")
        rests, has, none = (store.get(session["id"]) for session in sessions)
        assert rests.agent == "local"
        kept = machine.put(service, store.commit_of(rest(service, rests).id))
        own_image = make(service, has, "own")
        own = machine.put(service, store.commit_of(has.id))
        assert own == own_image.reference
        given_up = move(service, begin(service, none, "none"), CommitStatus.COMMITTING)
        nobodys = machine.put(service, move(service, given_up, CommitStatus.FAILED))
        images = site.engine.images
        # Two that sweep at a time, as where one service takes the place of another.
        agents = list(site.engine.hosts)
        await asyncio.gather(*(sweep(site, images, (), agents) for _ in range(2)))
        assert machine.has(kept)
        assert machine.has(own)
        assert not machine.has(nobodys)
