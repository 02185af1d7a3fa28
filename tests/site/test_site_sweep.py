"""What belongs to no live session goes, on a real Docker engine; what is somebody else's stays."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from traitlets.config import Config

from jupyterhub_backendai.engine.base import LABEL_HUB, LABEL_SESSION
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport

from .test_site_races import submit

pytestmark = pytest.mark.docker
HUB = f"sweep{secrets.token_hex(4)}"
OURS = {LABEL_HUB: HUB}
IN_THE_IMAGE = {LABEL_HUB: HUB, LABEL_SESSION: "of-an-image"}
NOTHING = b"\0" * 1024  # the end of an archive: an image with no file in it


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    """Docker, without anything of this test's in it afterwards."""
    api = docker.APIClient(version="auto")
    yield api
    for name in ("containers", "volumes"):
        found = getattr(api, name)(filters={"name": HUB}, **_all(name))
        for row in found["Volumes"] or () if name == "volumes" else found:
            with contextlib.suppress(docker.errors.NotFound):
                if name == "volumes":
                    api.remove_volume(row["Name"], force=True)
                else:
                    api.remove_container(row["Id"], force=True, v=True)
    api.remove_image(f"{HUB}:1", force=True)


def _all(what: str) -> dict[str, bool]:
    return {"all": True} if what == "containers" else {}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    config.BackendAI.hub_id = HUB
    config.BackendAI.agents = [{"name": "here", "capacity": {"cpu": 2, "mem": "4g"}}]
    site = Site.of(config, {})
    site.store.report_agents([AgentReport("here", "default", Slots(2000, 4 * GIB))], now=utcnow())
    yield site
    await site.close()


async def test_a_sweep(site: Site, api: docker.APIClient) -> None:
    changes = [f"LABEL {name}={value}" for name, value in IN_THE_IMAGE.items()]
    api.import_image_from_data(NOTHING, repository=HUB, tag="1", changes=changes)
    live, driven = submit(site, "live"), submit(site, "driven")
    site.store.run_pass(site.policies, site.catalog, utcnow())
    site.driven.add(driven.id)

    def container(name: str, labels: dict[str, str]) -> None:
        api.create_container(f"{HUB}:1", "true", name=f"{HUB}-{name}", labels=labels)

    def volume(name: str, labels: dict[str, str]) -> None:
        api.create_volume(f"{HUB}-{name}", labels=labels)

    for make in (container, volume):
        kind = make.__name__
        make(f"{kind}-dead", {**OURS, LABEL_SESSION: "0" * 32})
        make(f"{kind}-live", {**OURS, LABEL_SESSION: live.id})
        make(f"{kind}-driven", {**OURS, LABEL_SESSION: driven.id})
        make(f"{kind}-other-hub", {LABEL_HUB: "another", LABEL_SESSION: "0" * 32})
    # Homes whose container was never made, or on an agent that was away when it went.
    volume("volume-alone", {**OURS, LABEL_SESSION: "1" * 32})
    # Somebody made it from an image that claims to be ours, and gave it no label.
    container("container-strange", {})

    assert await site.engine.orphans("here") == sorted(["0" * 32, "1" * 32, live.id, driven.id])
    await site.reconciler._sweep("here")
    assert names(api) == {
        "container-live", "container-driven", "container-other-hub", "container-strange",
        "volume-live", "volume-driven", "volume-other-hub",
    }  # fmt: skip
    assert {c.session_id for c in await site.engine.containers("here")} == {live.id, driven.id}
    whose = site.engine.host("here").belongings.session_of
    assert whose(api, f"{HUB}-container-live") == live.id
    assert whose(api, f"{HUB}-container-strange") == whose(api, f"{HUB}-container-other-hub") == ""
    assert whose(api, f"{HUB}-container-dead") is None
    # Not by its name either, when it is in the way of ours.
    await site.engine.remove_session("here", "of-an-image")
    assert "container-strange" in names(api)
    await site.engine.remove_session("here", live.id)
    assert not {name for name in names(api) if name.endswith("live")}


async def test_directories_are_made_and_leave_no_volume(
    site: Site, api: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the user's image asks for one with each container."""
    api.import_image_from_data(NOTHING, repository=HUB, tag="1", changes=["VOLUME /anonymous"])
    host = site.engine.host("here")
    remove, volumes = host.client.remove_container, []

    def look_and_remove(container: str, **how: Any) -> None:
        mounts = host.client.inspect_container(container)["Mounts"]
        volumes.extend(mount["Name"] for mount in mounts if mount["Type"] == "volume")
        remove(container, **how)

    monkeypatch.setattr(host.client, "remove_container", look_and_remove)
    root = tmp_path / "folders"
    await host.make_directories(f"{HUB}:1", str(root), [("ada/data", 1000, 100, 0o700)])
    assert (root / "ada" / "data").stat().st_uid == 1000
    (volume,) = volumes
    with pytest.raises(docker.errors.NotFound):
        api.inspect_volume(volume)


def names(api: docker.APIClient) -> set[str]:
    """What is there of this test's, without the word that all names begin with."""
    containers = [row["Names"][0] for row in api.containers(all=True, filters={"name": HUB})]
    volumes = [row["Name"] for row in api.volumes(filters={"name": HUB})["Volumes"] or ()]
    return {name.lstrip("/").removeprefix(f"{HUB}-") for name in (*containers, *volumes)}
