"""Which container a process is in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyterhub_backendai.gpu.owners import Owner, Processes, Whose

from .conftest import Proc

ONE, TWO = "1a" * 32, "2b" * 32
TICKS = os.sysconf("SC_CLK_TCK")

V1 = """12:devices:{path}
11:memory:{path}
1:name=systemd:{path}
0::/system.slice/containerd.service
"""


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/system.slice/docker-{ONE}.scope\n",
        f"0::/docker/{ONE}\n",
        f"0::/fgpu.slice/fgpu-s1.slice/docker-{ONE}.scope\n",
        f"0::/sessions/{ONE}\n",
        f"0::/docker/{ONE}/user.slice/init.scope\n",
        f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/docker-{ONE}.scope\n",
        f"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{ONE}.scope\n",
        f"0::/machine.slice/libpod-{ONE}.scope/container\n",
        V1.format(path=f"/docker/{ONE}"),
        V1.format(path=f"/system.slice/docker-{ONE}.scope"),
        # hybrid: version 1 for limits, 2 beside it
        f"5:cpu:/docker/{ONE}\n0::/docker/{ONE}\n",
        # only one hierarchy tells it
        f"9:pids:/\n3:memory:/docker/{ONE}\n0::/\n",
    ],
)
def test_a_container_whatever_is_around_its_id(cgroup: str, proc: Proc) -> None:
    proc.add(7, cgroup)
    assert Processes(proc.root).owner(7) == Owner(Whose.CONTAINER, ONE, start=1000)


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/nvidia-mps.service\n",
        "0::/\n",
        "",
        f"0::/docker/{ONE[:63]}\n",
        f"0::/docker/{ONE}0\n",
        f"0::/docker/{ONE[:63]}G\n",
        V1.format(path="/user.slice"),
    ],
)
def test_a_process_of_the_machine(cgroup: str, proc: Proc) -> None:
    proc.add(7, cgroup)
    assert Processes(proc.root).owner(7) == Owner(Whose.MACHINE, start=1000)


@pytest.mark.parametrize(
    ("ours", "whose"), [((), ONE), ((ONE,), ONE), ((TWO,), TWO), ((ONE, TWO), ONE)]
)
def test_of_containers_within_containers_the_one_that_is_ours(
    ours: tuple[str, ...], whose: str, proc: Proc
) -> None:
    proc.add(7, f"0::/docker/{ONE}/docker/{TWO}\n")
    assert Processes(proc.root, ours).owner(7).container == whose


def test_a_name_that_looks_like_more_fields(proc: Proc) -> None:
    proc.add(7, f"0::/docker/{ONE}\n", start=4711, name="a) S 1 (b) 2")
    assert Processes(proc.root).owner(7) == Owner(Whose.CONTAINER, ONE, start=4711)


def test_a_process_that_has_ended(proc: Proc) -> None:
    assert Processes(proc.root).owner(7) == Owner(Whose.GONE)


def test_a_number_that_was_given_again_since_the_driver_told_it(proc: Proc) -> None:
    table = Processes(proc.root)
    proc.add(7, f"0::/docker/{ONE}\n", start=5000 * TICKS + 2)
    assert table.owner(7) == Owner(Whose.GONE)
    proc.add(7, f"0::/docker/{ONE}\n", start=5000 * TICKS)
    assert table.owner(7).container == ONE


@pytest.mark.parametrize("change", ["another", "nobody"])
def test_a_number_that_is_given_again_while_it_is_read(
    change: str, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(7, f"0::/docker/{ONE}\n", start=100)
    read = Path.read_text

    def read_then_change(path: Path) -> str:
        text = read(path)
        if path.name == "cgroup":
            if change == "another":
                proc.add(7, f"0::/docker/{TWO}\n", start=200)
            else:
                proc.remove(7)
        return text

    monkeypatch.setattr(Path, "read_text", read_then_change)
    assert Processes(proc.root).owner(7) == Owner(Whose.GONE)


def nobody_may_read(proc: Proc) -> None:
    (proc.root / "7/cgroup").unlink()
    (proc.root / "7/cgroup").mkdir()  # root may read every file, and nobody a directory


def stat_is_short(proc: Proc) -> None:
    proc.write("7/stat", "7 (x) S 1\n")


def other_namespace(proc: Proc) -> None:
    proc.write("2/comm", "jupyter-lab\n")


def others_are_hidden(proc: Proc) -> None:
    proc.remove(2)


def no_uptime(proc: Proc) -> None:
    (proc.root / "uptime").unlink()


@pytest.mark.parametrize(
    "spoil", [nobody_may_read, stat_is_short, other_namespace, others_are_hidden, no_uptime]
)
def test_what_cannot_be_seen_is_unknown(spoil: Callable[[Proc], None], proc: Proc) -> None:
    proc.add(7, f"0::/docker/{ONE}\n")
    assert Processes(proc.root).owner(7).whose is Whose.CONTAINER
    spoil(proc)
    assert Processes(proc.root).owner(7) == Owner(Whose.UNKNOWN)


def test_this_machines_own_proc() -> None:
    """The kernel's real files, as far as this machine lets us see them."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            table = Processes(Path("/proc"))
            owner = table.owner(child.pid)
            again = table.owner(child.pid)
        finally:
            child.kill()
    assert owner == again
    sees_all = Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n"
    assert (owner.whose is Whose.UNKNOWN) is not sees_all
    assert (owner.start is not None) is sees_all
    if sees_all:
        assert Processes(Path("/proc")).owner(child.pid).whose is Whose.GONE
