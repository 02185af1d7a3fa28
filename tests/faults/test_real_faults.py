"""The same for real: service, Hub, proxy and a Docker daemon are killed while sessions come and go.

None by default: `REAL_FAULT_SCHEDULES=2` runs so many; `FAULT_SEED=7` only that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jupyterhub_backendai.site.reach import _gateways

from ..hub.harness import Hub
from ..hub.second_engine import SecondEngine, missing
from ..hub.test_worker import token_of, until_open
from .plan import plan
from .real import Real, safely
from .schedule import FAULTS, OWNERS

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]
ONLY = os.environ.get("FAULT_SEED")
SCHEDULES = int(os.environ.get("REAL_FAULT_SCHEDULES", "0"))
SEEDS = [int(ONLY)] if ONLY else list(range(1, SCHEDULES + 1))
ROOM = {"cpu": 2, "mem": "8g"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    engine = SecondEngine(tmp_path_factory.mktemp("engine"), place=2)
    try:
        engine.start().have_image()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def hub(engine: SecondEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub with its service, and two agents; the second one's daemon may be killed."""
    hub = Hub(tmp_path_factory.mktemp("hub"))
    witness = hub.directory / "witness"
    witness.mkdir()
    witness.chmod(0o777)
    gateway = _gateways(hub.docker.networks.get("bridge").attrs)[0]
    one = {"name": "one", "hub_connect_url": f"http://{gateway}:{hub.hub_port}"}
    two = {"name": "two", "hub_connect_url": f"http://{engine.gateway}:{hub.hub_port}"}
    hub.settings = {
        "JupyterHub": {"hub_ip": "0.0.0.0", "hub_connect_ip": "127.0.0.1"},
        "ConfigurableHTTPProxy": {"check_running_interval": 1},
        # Eight servers that start beside everything else are no defect of theirs.
        "DockerSpawner": {"volumes": {str(witness): "/witness"}, "http_timeout": 120},
        "BackendAI": {
            "resource_groups": [{"name": "default", "selection": "dispersed"}],
            "agents": [{**one, "capacity": ROOM}, {**two, "base_url": engine.socket,
                                                   "capacity": ROOM}],
        },
    }  # fmt: skip
    try:
        yield hub.start()
    finally:
        hub.end()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_nothing_is_lost_left_or_done_twice(
    hub: Hub, engine: SecondEngine, seed: int
) -> None:
    print(f"FAULT_SEED={seed} python -m pytest {__file__}")
    until_open(hub)
    run = Real(hub, engine, plan(seed), {owner: token_of(hub, owner) for owner in OWNERS})
    try:
        run.run()
        assert run.done == FAULTS
        assert not run.wrong_results()
    finally:
        wrong = [safely(run.problems), safely(run.wrong_results)]
        print(*run.histories(), *run.story, *wrong, sep="\n")
