"""A container that stands still without Docker's knowing, on the real kernel."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from jupyterhub_backendai.engine import freezer
from jupyterhub_backendai.engine.commit_traces import Traces

IMAGE = "backendai-plain:latest"
COUNTS = "n=0; while :; do n=$((n + 1)); echo $n > /tmp/n; sleep 0.01; done"

pytestmark = pytest.mark.docker


@dataclass
class Container:
    """One that counts."""

    client: docker.APIClient
    id: str

    @property
    def pid(self) -> int:
        return int(self.client.inspect_container(self.id)["State"]["Pid"])

    @property
    def paused(self) -> bool:
        """What Docker thinks."""
        return bool(self.client.inspect_container(self.id)["State"]["Paused"])

    @property
    def count(self) -> str:
        return Path(f"/proc/{self.pid}/root/tmp/n").read_text()

    def runc(self, verb: str) -> str:
        """Has it stand still or go on as Docker does, and not by Docker; or tells its state."""
        [kept] = Path("/run/docker").glob(f"runtime-*/moby/{self.id}")
        words = ["runc", "--root", str(kept.parent), verb, self.id]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def goes_on(self) -> None:
        before = self.count
        until(lambda: self.count not in ("", before))

    def freeze(self) -> bool:
        return freezer.freeze(self.id, self.pid)

    def thaw(self) -> bool:
        return freezer.thaw(self.id, self.pid)


def until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def container() -> Iterator[Container]:
    client = docker.from_env().api
    made = client.create_container(IMAGE, ["sh", "-c", COUNTS], entrypoint=[])
    try:
        client.start(made["Id"])
        found = Container(client, made["Id"])
        until(lambda: Path(f"/proc/{found.pid}/root/tmp/n").exists())
        yield found
    finally:
        client.remove_container(made["Id"], force=True, v=True)


def test_what_stands_still_goes_on(container: Container) -> None:
    assert not container.thaw(), "it runs"
    container.runc("pause")
    assert not container.paused
    assert not container.freeze(), "it stands still"
    assert '"status": "paused"' in container.runc("state")
    assert container.thaw()
    container.goes_on()
    assert not container.thaw()
    container.client.pause(container.id)
    container.client.unpause(container.id)
    container.goes_on()


def test_what_its_shim_takes_for_frozen_can_be_frozen_again(container: Container) -> None:
    container.client.pause(container.id)
    assert container.thaw()
    until(lambda: not container.paused)
    container.goes_on()
    container.client.pause(container.id)
    assert '"status": "paused"' in container.runc("state")
    container.client.unpause(container.id)
    container.goes_on()


def test_without_containerds_program_the_kernel_is_asked(
    container: Container, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    container.client.pause(container.id)
    assert container.thaw()
    container.goes_on()
    assert container.paused
    assert "Docker may refuse to have it stand still from now on" in caplog.text
    assert container.freeze()
    container.client.unpause(container.id)
    container.goes_on()


@pytest.mark.parametrize("late", [False, True], ids=["Docker never hears of it", "late"])
def test_a_docker_that_hears_late_that_a_container_stood_still(
    container: Container, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was killed while it paused it. `late`: it takes it for one that stands still
    after it has gone on."""
    traces = Traces(container.client, "test-freezer")
    traces.begin("order", container.id)
    looks: list[bool] = []
    plain = Traces._keep_going

    def keep_going(self: Traces, of: str) -> None:
        looks.append(container.freeze())
        container.thaw()
        if late:
            container.client.pause(container.id)
            container.runc("resume")
        monkeypatch.setattr("jupyterhub_backendai.engine.commit_traces.TOLD", 60 if late else 1)
        plain(self, of)

    monkeypatch.setattr(Traces, "_keep_going", keep_going)
    container.runc("pause")
    assert traces.clear("order")
    assert looks == [True], "it went on, and then Docker was watched"
    assert not container.paused
    container.goes_on()
    assert not traces.orders()


def test_what_is_not_here_is_left_alone() -> None:
    assert not freezer.thaw("f" * 64, 1)
    assert not freezer.freeze("f" * 64, 0)
