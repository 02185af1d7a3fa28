"""The plugin under which DockerSpawner's own test modules run, in a process of their own.

It brings the fixtures that those modules expect (their source distribution has none), with our
spawner in the place of DockerSpawner and the demo image under the names of the images they use.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import docker as docker_api
import pytest
from docker.errors import ImageNotFound
from dockerspawner.dockerspawner import _jupyterhub_xy
from jupyterhub.tests.conftest import app as jupyterhub_app  # noqa: F401
from jupyterhub.tests.conftest import ssl_tmpdir, tmp_cwd, user  # noqa: F401
from jupyterhub.tests.mocking import MockHub
from jupyterhub.user import User
from traitlets.config import Config

from jupyterhub_backendai.engine.base import LABEL_HUB
from jupyterhub_backendai.site.reach import hub_address
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner

IMAGE = "backendai-demo:latest"
IMAGES = (
    "quay.io/jupyterhub/singleuser:4",
    "quay.io/jupyterhub/singleuser:4.0",
    f"quay.io/jupyterhub/singleuser:{_jupyterhub_xy}",  # DockerSpawner's default
    "busybox:1.29.1",
)
HUB_ID = f"suite{secrets.token_hex(4)}"

# The tests that are left out, each with its reason. All others have to pass.
LEFT_OUT = {
    "test_start_stop[False]": (
        "With remove=False a stopped container is kept and started again, with the limits and the "
        "token that it had. A session's container always goes with its session."
    ),
    "test_image_pull_policy": "It pulls busybox from Docker Hub, which a test must not depend on.",
    "test_default_options_form": "It compares the HTML of DockerSpawner's form; ours is another.",
    "test_options_from_form": "It reads the one field of DockerSpawner's own form; see above.",
    "test_deprecated_config": (
        "It compares a warning that has the name of the class in it, which is ours here. That the "
        "deprecated trait works is in test_deprecated_methods."
    ),
}
# The modules that are left out.
OTHER_CLASSES = {
    "test_swarmspawner.py": "SwarmSpawner starts Swarm services; it is no parent of our spawner.",
    "test_systemuserspawner.py": "SystemUserSpawner is another child of DockerSpawner.",
}
# The one test whose server never answers: it runs `sleep` and gives an address that nobody has.
NEVER_ANSWERS = "test_post_start"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="where to write what became of each test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is to be left out, and puts our class in the place of theirs."""
    left_out = [item for item in items if item.name in LEFT_OUT]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    outcomes.update({item.name: "left out" for item in left_out})
    for module in {item.getparent(pytest.Module).obj for item in items}:  # type: ignore[union-attr]
        module.DockerSpawner = DockerSessionSpawner


outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.rpartition("::")[2]
    if report.when == "call" or report.outcome != "passed":
        outcomes[name] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.getoption("--outcomes").write_text(json.dumps(outcomes))


@pytest.fixture(autouse=True, scope="session")
def engine() -> Iterator[docker_api.APIClient]:
    """The names of the images, on the demo image, as long as this runs; and no leftovers."""
    client = docker_api.APIClient(version="auto")
    made = []
    for name in IMAGES:
        try:
            client.inspect_image(name)
        except ImageNotFound:
            repository, _, tag = name.rpartition(":")
            client.tag(IMAGE, repository, tag)
            made.append(name)
    yield client
    ours = {"label": f"{LABEL_HUB}={HUB_ID}"}
    for container in client.containers(all=True, filters=ours):
        client.remove_container(container["Id"], force=True, v=True)
    for volume in client.volumes(filters=ours)["Volumes"] or ():
        client.remove_volume(volume["Name"], force=True)
    for name in made:
        client.remove_image(name)


@pytest.fixture(autouse=True, scope="session")
def reachable() -> None:
    """The mock of the Hub listens where containers reach it. It reads this before it is made."""
    for name, value in (hub_address(Config()) or {}).items():
        setattr(MockHub, name, value)


@pytest.fixture
def app(jupyterhub_app: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: F811
    """The Hub's mock of itself with a site."""
    config = jupyterhub_app.config
    if "BackendAI" not in config:
        database = tmp_path_factory.mktemp("site") / "sessions.sqlite"
        config.DockerSpawner.prefix = f"dockerspawner-{HUB_ID}"
        config.BackendAI.hub_id = HUB_ID
        config.BackendAI.database_url = f"sqlite:///{database}"
    return jupyterhub_app


@pytest.fixture
def dockerspawner_configured_app(app: Any) -> Iterator[Any]:
    """The Hub with named servers and our spawner."""
    settings = {
        "allow_named_servers": True,
        "named_server_limit_per_user": 2,
        "spawner_class": DockerSessionSpawner,
    }
    with mock.patch.dict(app.tornado_settings, settings):
        yield app


_numbers = count(1)


@pytest.fixture
def username() -> str:
    """A name that no other test's user has."""
    return f"test-user-{next(_numbers)}"


@pytest.fixture(autouse=True)
def rows_for_named_servers() -> Iterator[None]:
    """`user.spawners[name]` makes the server's row, as it did before JupyterHub 6."""
    original = User._new_spawner

    def new_spawner(self: User, server_name: str, *args: Any, **kwargs: Any) -> Any:
        if server_name not in self.orm_spawners:
            self._new_orm_spawner(server_name, server_name)
        return original(self, server_name, *args, **kwargs)

    with mock.patch.object(User, "_new_spawner", new_spawner):
        yield


@pytest.fixture(autouse=True)
def no_wait_for_an_answer(request: pytest.FixtureRequest) -> Iterator[None]:
    """Our start() returns when the server answers; in one test none ever does."""
    if request.node.name != NEVER_ANSWERS:
        yield
        return

    async def answers(*_: Any) -> None:
        return None

    with mock.patch.object(DockerSessionSpawner, "_until_it_answers", answers):
        yield
