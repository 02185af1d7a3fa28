"""kill -9 of a Docker daemon at every step of a commit: the image is made all the same, or nothing
of it is there, and the session goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from jupyterhub_backendai.model.images import CommitStatus

from ..hub.harness import wait_for
from ..hub.second_engine import SecondEngine, missing
from ..service.commit_process import STEPS
from ..service.killing import killing

IMAGE = "backendai-base:bookworm"
pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    engine = SecondEngine(tmp_path_factory.mktemp("engine"), place=4)
    try:
        engine.start()
        try:
            engine.client().images.get(IMAGE)
        except docker.errors.ImageNotFound:
            with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as saved:
                load = ["docker", "--host", engine.socket, "load"]
                subprocess.run(load, stdin=saved.stdout, check=True, stdout=subprocess.DEVNULL)
        if not enters_containers(engine.client().api):
            pytest.skip("in a chroot Docker runs outside of a container what is to run in it")
        yield engine
    finally:
        engine.stop()


def enters_containers(client: docker.APIClient) -> bool:
    """Whether what it is to run in a container runs there, and not on the machine itself."""
    made = client.create_container(IMAGE, ["sleep", "600"])
    try:
        client.start(made)
        entered = client.exec_create(made, ["test", "-e", "/.dockerenv"])["Id"]
        client.exec_start(entered)
        return bool(client.exec_inspect(entered)["ExitCode"] == 0)
    finally:
        client.remove_container(made, force=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
async def test_a_daemon_that_is_killed(engine: SecondEngine, tmp_path: Path, step: str) -> None:
    async with killing(tmp_path, engine.socket, IMAGE) as work:
        with work.process(step, "wait") as process:
            wait_for("the step", lambda: (tmp_path / "there").exists(), 120)
            engine.kill()
            engine.start()
            (tmp_path / "go").touch()
            assert process.wait(240) == 0, work.log
        over = work.now
        work.check(over)
        assert over.status is CommitStatus.DONE, work.log
