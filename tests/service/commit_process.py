"""The worker of images as a process of its own, which kills itself or waits at a step.

    python -m tests.service.commit_process SETTINGS STEP HOW FOLDER

SETTINGS are of `c.BackendAI`, as JSON. HOW is `die`, or `wait`: it makes the file `there` in
FOLDER, and goes on when there is one named `go`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from traitlets.config import Config

from jupyterhub_backendai.configuration import read_configuration
from jupyterhub_backendai.engine import docker_commits
from jupyterhub_backendai.service.commits.making import Times
from jupyterhub_backendai.service.dropping import Drops
from jupyterhub_backendai.service.images import ImageDoor
from jupyterhub_backendai.service.parts import ServiceSite
from jupyterhub_backendai.service.workers.commits import CommitWorker
from jupyterhub_backendai.store import Session

ENGINES = ("begin", "noted", "committed", "kept", "named")  # where Docker keeps images itself
STEPS = ("asked", "moved", *ENGINES, "reading", "made", "finished")
RESTING = (*STEPS, "paused")  # of one that is hibernated
IN_THE_MIDST = 0.1  # seconds that a container has stood still by then


class Stop:
    """What happens at one step, once."""

    def __init__(self, step: str, how: str, folder: Path) -> None:
        self.step, self.how, self.folder = step, how, folder
        self.over = False

    def at(self, step: str, commit: docker_commits.Commit | None = None) -> None:
        if step == "noted" and self.step == "reading" and not self.over:
            assert commit is not None
            self.over = True
            threading.Thread(target=self._when_it_reads, args=(commit,), daemon=True).start()
        elif step == self.step and not self.over:
            self.over = True
            self._happen(True)

    def _when_it_reads(self, commit: docker_commits.Commit) -> None:
        while not commit.client.inspect_container(commit.order.container)["State"]["Paused"]:
            time.sleep(0.01)
        time.sleep(IN_THE_MIDST)
        self._happen(False)

    def _happen(self, waits: bool) -> None:
        if self.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        (self.folder / "there").touch()
        while waits and not (self.folder / "go").exists():
            time.sleep(0.02)


async def _no_hub(session: Session) -> None:
    """There is none to tell."""


async def main(settings: dict[str, Any], stop: Stop) -> None:
    site = ServiceSite(read_configuration(Config({"BackendAI": settings})), {})
    at = docker_commits.Commit.at

    def told(commit: docker_commits.Commit, step: str) -> None:
        stop.at(step, commit)
        at(commit, step)

    docker_commits.Commit.at = told  # type: ignore[method-assign]
    store = site.store
    move, finish, rest = store.move_commit, store.finish_commit, store.finish_hibernation

    def moved(*args: Any, **more: Any) -> Any:
        stop.at("asked")
        found = move(*args, **more)
        stop.at("moved")
        return found

    def finished(*args: Any) -> Any:
        stop.at("made")
        found = finish(*args)
        stop.at("finished")
        return found

    def rested(*args: Any) -> Any:
        stop.at("made")
        found = rest(*args)
        stop.at("finished")
        return found

    store.move_commit = moved  # type: ignore[method-assign]
    store.finish_commit = finished  # type: ignore[method-assign]
    store.finish_hibernation = rested  # type: ignore[method-assign]
    images = site.engine.images
    worker = CommitWorker(site, images, ImageDoor(), _no_hub, Drops(), Times(again=0.2, away=300))
    while site.store.commits_under_way():
        await worker.once()
        await worker.settled()
    await worker._sweep(list(site.engine.hosts))
    await site.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(json.loads(sys.argv[1]), Stop(sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
