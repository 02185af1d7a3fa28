"""A container that stands still without Docker's knowing, on the real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from jupyterhub_backendai.engine.freezer import thaw
from jupyterhub_backendai.engine.readings import Files

IMAGE = "backendai-plain:latest"

pytestmark = pytest.mark.docker


@pytest.fixture
def container() -> Iterator[tuple[str, int]]:
    client = docker.from_env().api
    made = client.create_container(IMAGE, ["sleep", "600"], entrypoint=[])
    try:
        client.start(made["Id"])
        yield made["Id"], client.inspect_container(made["Id"])["State"]["Pid"]
    finally:
        client.remove_container(made["Id"], force=True, v=True)


def state(container: str, pid: int) -> tuple[Path, str, str]:
    """The file that says whether it stands still, and its words for yes and no."""
    place = Files().find(container, pid)
    assert place is not None
    if group := place.groups.get("freezer"):
        return group / "freezer.state", "FROZEN", "THAWED"
    return place.groups[""] / "cgroup.freeze", "1", "0"


def test_what_stands_still_goes_on(container: tuple[str, int]) -> None:
    file, still, goes = state(*container)
    assert not thaw(*container), "it runs"
    file.write_text(still)
    while file.read_text().strip() != still:
        pass  # it freezes
    assert thaw(*container)
    assert file.read_text().strip() == goes
    assert not thaw(*container)


def test_what_is_not_here_is_left_alone() -> None:
    assert not thaw("f" * 64, 1)
    assert not thaw("f" * 64, 0)
