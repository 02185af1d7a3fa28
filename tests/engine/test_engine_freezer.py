"""A container that stands still without Docker's knowing, on the real kernel."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from jupyterhub_backendai.engine import commit_traces, freezer
from jupyterhub_backendai.engine.base import EngineError
from jupyterhub_backendai.engine.commit_traces import Traces
from jupyterhub_backendai.engine.readings import Files, Place

HUB = "test-freezer"
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

    def containerd(self, *words: str, given: bytes = b"") -> None:
        """Calls containerd of this container's shim."""
        shim = freezer._shim(self.id, self.place)
        subprocess.run(
            ["containerd", "--address", shim["-address"], *words], input=given, check=True
        )

    def tell_docker_that_it_stands_still(self) -> None:
        """As a shim does that could not tell it in time."""
        of = b"\x0a" + bytes([len(self.id)]) + self.id.encode()
        kind = b"containerd.events.TaskPaused"
        event = b"\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(of)]) + of
        self.containerd("publish", "--namespace", "moby", "--topic", "/tasks/paused", given=event)
        until(lambda: self.paused)

    @property
    def place(self) -> Place:
        found = Files().find(self.id, self.pid)
        assert found is not None
        return found

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
        Traces(client, HUB).clear("order")  # where a test failed before


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
    [said] = [record.getMessage() for record in caplog.records]
    assert "Docker may refuse to have it stand still from now on" in said
    assert "Install containerd's `ctr`" in said
    assert container.freeze()
    container.client.unpause(container.id)
    container.goes_on()


def test_the_kernel_is_told_until_it_is_so(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that just starts another one is missed now and then."""
    monkeypatch.setenv("PATH", "/nowhere")
    for _ in range(200):
        assert container.freeze()
        file, words, _ = freezer._switch(container.id, container.pid) or pytest.fail("it is here")
        said = file.read_text().strip()
        assert container.thaw()
        assert said == words[True]


def test_a_shim_that_thinks_so_already_is_nothing_to_warn_of(
    container: Container, caplog: pytest.LogCaptureFixture
) -> None:
    container.runc("pause")
    assert container.thaw()
    container.client.pause(container.id)
    container.runc("resume")
    assert container.freeze()
    assert not caplog.records


def test_containerd_that_refuses_is_warned_of(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    ctr = tmp_path / "ctr"
    ctr.write_text("#!/bin/sh\necho 'ctr: permission denied' >&2; exit 1\n")
    ctr.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    container.client.pause(container.id)
    assert container.thaw()
    assert "ctr: permission denied" in caplog.text
    container.goes_on()


@pytest.mark.parametrize("still", [True, False])
def test_what_cannot_be_changed_is_told_for_what_it_is(
    container: Container, still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, text: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv("PATH", "/nowhere")
    if not still:
        container.client.pause(container.id)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refused)
        change = container.freeze if still else container.thaw
        says = "runs, its engine" if still else "stands still, its engine"
        with pytest.raises(EngineError, match=f"{says}.*Permission denied.*Restart its session"):
            change()


def test_whose_word_is_taken_for_the_shims(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = container.place
    assert freezer._shim(container.id, place)
    assert not freezer._shim("f" * 64, place)
    assert not freezer._shim(container.id, replace(place, life=f"{place.pid}-1")), "a later one"
    plain = freezer._status

    def of_a_user(pid: int | str, field: str) -> list[str]:
        return ["0", "1000", "0", "0"] if field == "Uid" else plain(pid, field)

    monkeypatch.setattr(freezer, "_status", of_a_user)
    assert not freezer._shim(container.id, place)


@pytest.mark.parametrize("late", [False, True], ids=["Docker never hears of it", "late"])
def test_a_docker_that_hears_late_that_a_container_stood_still(
    container: Container, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was killed while it paused it. `late`: it takes it for one that stands still
    after it has gone on."""
    traces = Traces(container.client, HUB)
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


def noted_wrongly(container: Container) -> Traces:
    """An order has noted it, and Docker takes it for one that stands still."""
    traces = Traces(container.client, HUB)
    traces.begin("order", container.id)
    container.tell_docker_that_it_stands_still()
    return traces


def test_docker_takes_for_standing_still_what_its_shim_has_running(container: Container) -> None:
    """As when Docker was told late, and whoever watched for that was killed too."""
    traces = noted_wrongly(container)
    with pytest.raises(APIError, match="cannot resume a running"):
        container.client.unpause(container.id)
    container.goes_on()
    assert traces.clear("order")
    assert not container.paused
    container.goes_on()
    assert not traces.orders()
    container.client.pause(container.id)
    container.client.unpause(container.id)


def test_what_docker_cannot_be_told_of_goes_on_all_the_same(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without containerd's program it would be frozen by the kernel alone, and Docker refuse."""
    traces = noted_wrongly(container)
    monkeypatch.setattr(commit_traces, "SETTLED", 1)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        for _ in range(2):
            with pytest.raises(EngineError, match="Docker could not be told"):
                traces.clear("order")
            container.goes_on()
    assert traces.clear("order")
    assert not container.paused
    container.goes_on()


@pytest.mark.parametrize("seen", [True, False], ids=["cannot be changed", "cannot be seen"])
def test_what_cannot_be_set_right_stays_noted(
    container: Container, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = noted_wrongly(container)
    monkeypatch.setattr(commit_traces, "SETTLED", 0)
    with monkeypatch.context() as patch:
        if seen:
            patch.setattr(commit_traces, "freeze", lambda container, pid: False)
        else:
            patch.setattr(commit_traces, "stands_still", lambda container, pid: None)
        with pytest.raises((EngineError, APIError)):
            traces.clear("order")
    assert traces.orders() == {"order"}
    monkeypatch.undo()
    assert traces.clear("order")
    assert not container.paused
    assert not traces.orders()


def test_what_is_not_here_is_left_alone() -> None:
    assert not freezer.thaw("f" * 64, 1)
    assert not freezer.freeze("f" * 64, 0)
