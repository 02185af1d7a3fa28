"""The red team of GPU shares, whole, on machines that hold and on such as do not.

The driver and MPS are fakes, containers and Docker are real. That says whether the red team finds
what is there to be found, and nothing about a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .conftest import Proc
from .machines import H100, L40S, MIB, PLAIN, SYSTEM

ROOT = Path(__file__).parents[2]
RUN = ROOT / "benchmarks" / "fgpu_enforcement" / "run.py"
HERE = Path(__file__).parent
IMAGE = "backendai-demo:latest"
SHARE = 9110 * MIB
UNLIMITED = 2**64 - 1
# A GPU of another session, so that there is something to be found.
NEIGHBOUR = PLAIN.replace(L40S, H100)
HOLDS = {
    "memory": "container",
    "managed": "counted",
    "compute": "container",
    "faults": "stay",
    "pipe": "exclusive",
    "devices": "own",
    "uuids": f"{H100},{L40S}",
    "total": str(46064 * MIB),
}
REFUSES = "#!/bin/sh\necho Permission denied\nexit 1\n"
TAKES = "#!/bin/sh\nexit 0\n"
# Processes of the fake machine's PLAIN would be somebody who uses the GPU.
IDLE = "\n".join(
    line
    for line in (PLAIN + NEIGHBOUR).splitlines()
    if line.split()[:1] not in (["process"], ["mps"], ["sample"])
).replace("mode 3", "mode 0")

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    source = HERE / "fake_cuda.c"
    subprocess.run([*command, f"-Wl,-soname,{library.name}", "-o", library, source], check=True)
    return library


@dataclass
class Answer:
    """What a run said."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.output.splitlines()[-1])
        assert isinstance(found, dict)
        return found

    def case(self, name: str) -> dict[str, Any]:
        return next(dict(case) for case in self.json["cases"] if case["name"] == name)

    @property
    def verdicts(self) -> dict[str, str]:
        return {case["name"]: case["verdict"] for case in self.json["cases"]}


class Machine:
    """A machine with two GPUs of one model, in five shares each, at a short path for sockets."""

    def __init__(self, folder: Path, nvml: Path, cuda: Path) -> None:
        self.folder = folder
        shutil.copy(nvml, folder / "libnvidia-ml.so.1")
        shutil.copy(cuda, folder / "libcuda.so.1")
        Proc(folder / "machine" / "proc")
        for cgroup in ("", "/fgpu", "/fgpu.slice"):
            path = folder / f"machine/sys/fs/cgroup{cgroup}"
            path.mkdir(parents=True)
            (path / "cgroup.controllers").write_text("cpu memory pids dmem\n")
            (path / "cgroup.subtree_control").write_text("cpu memory pids\n")
        for name in ("mps", "inside", "cuda", "cuda/state"):
            (folder / name).mkdir()
        shutil.copy(HERE / "fake_mps_control.py", folder / "mps" / "nvidia-cuda-mps-control")
        (folder / "mps" / "proc").symlink_to(folder / "machine" / "proc")
        (folder / "cuda").chmod(0o755)
        (folder / "cuda" / "state").chmod(0o777)
        own = f"limits {folder}/machine/sys/fs/cgroup/system.slice/hub.service 0 {UNLIMITED} 0"
        # Each device is followed by what there is of it.
        self.nvml(SYSTEM + IDLE.replace("\nmode 0", f"\nmode 0\n{own}"))
        self.behaves()
        self.inside(REFUSES)

    def nvml(self, text: str) -> None:
        (self.folder / "nvml.txt").write_text(text)

    def behaves(self, **rules: str) -> None:
        """As one that holds, but for these."""
        (self.folder / "cuda" / "cuda.json").write_text(json.dumps({**HOLDS, **rules}))

    def inside(self, program: str) -> None:
        """What MPS answers within a container."""
        (self.folder / "inside" / "nvidia-cuda-mps-control").write_text(program)

    def command(self, *arguments: str) -> list[str]:
        fake = ["--fake", str(self.folder), "--image", IMAGE, "--seconds", "1", "--json"]
        return [sys.executable, str(RUN), *fake, *arguments]

    def run(self, *arguments: str, only: str = "") -> Answer:
        chosen = ["--only", *only.split()] if only else []
        done = subprocess.run(
            self.command(*arguments, *chosen),
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    @property
    def modes(self) -> dict[str, int]:
        """Compute modes as they were set last."""
        lines = (self.folder / "nvml.txt.set").read_text().splitlines()
        rows = [line.split() for line in lines if line.startswith("mode ")]
        return {uuid: int(mode) for _, uuid, mode in rows}

    @property
    def daemons(self) -> dict[str, Any]:
        path = self.folder / "mps" / "daemons.json"
        return json.loads(path.read_text()) if path.exists() else {}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def machine(library: Path, cuda: Path) -> Iterator[Machine]:
    before = left_over()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Machine(Path(folder), library, cuda)
    assert left_over() <= before


def left_over() -> set[str]:
    """Containers, volumes and images of red teams."""
    found = [
        *docker("ps", "-a", "--format", '{{.Label "backendai.hub"}} container'),
        *docker("volume", "ls", "--format", '{{.Label "backendai.hub"}} volume'),
        *docker("images", "--format", "{{.Repository}} image"),
    ]
    return {line for line in found if line.startswith("redteam")}


def docker(*arguments: str) -> list[str]:
    done = subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_where_everything_holds(machine: Machine) -> None:
    found = machine.run("--provider", "mps")
    assert found.code == 0, found.output + found.errors
    assert found.output.startswith("FAKE LIBRARIES, NO GPU")
    assert found.json["fake"].startswith("FAKE LIBRARIES")
    assert found.json["provider"] == "mps"
    assert found.json["labels"] == {"memory": "hard", "compute": "soft", "faults": "none"}
    assert found.json["driver"] == "615.71.09"
    assert found.json["uuid"] not in {L40S, ""}
    assert L40S.startswith(found.json["uuid"].rstrip("…"))
    not_held = {name: verdict for name, verdict in found.verdicts.items() if verdict != "held"}
    assert not_held == {
        # Of the older MPS.
        "limit-unset": "not tried",
        "percentage-unset": "not tried",
        # The machine's own cgroups have no GPU memory; and nobody samples the fake's programs.
        "own-cgroup": "not tried",
        "told-use": "broken",
    }, found.output
    assert found.json["axes"]["memory"]["stands"]
    assert not found.errors
    # As it was found.
    assert machine.modes == {L40S: 0}
    assert machine.daemons == {}


@pytest.mark.slow
def test_where_nothing_holds(machine: Machine) -> None:
    machine.behaves(
        memory="none", managed="free", compute="slices", faults="reach", pipe="open", devices="all"
    )
    machine.inside(TAKES)
    found = machine.run("--provider", "mps")
    assert found.code == 1, found.output + found.errors
    held = {name for name, verdict in found.verdicts.items() if verdict == "held"}
    # These are Docker's to hold, and it does.
    assert held == {"setuid", "neighbours-pipe"}, found.output
    assert not found.json["axes"]["memory"]["stands"]
    assert not found.json["axes"]["access"]["stands"]
    assert not found.json["axes"]["compute"]["stands"]
    assert found.json["axes"]["faults"]["stands"]  # nothing is claimed
    plain = found.case("plain")
    assert plain["allowed"] == SHARE
    assert plain["reached"] > SHARE
    assert "memory   hard   BROKEN" in found.output


def test_a_label_soft_is_broken_by_no_harm_alone(machine: Machine) -> None:
    """Who unsets variables has more; who leaves them as they are has what is theirs."""
    machine.behaves(memory="environment", compute="environment")
    cases = "plain limit-unset percentage-raised compute"
    found = machine.run("--provider", "mps2", only=cases)
    assert found.json["provider"] == "mps2"
    assert found.verdicts == {
        "plain": "held",
        "limit-unset": "broken",
        "percentage-raised": "broken",
        "compute": "held",
    }, found.output + found.errors
    assert found.code == 0
    assert found.json["axes"]["memory"] == {
        "axis": "memory",
        "claims": "soft",
        "stands": True,
        "tried": 2,
        "cases": 2,
        "words": "stands (2 of 2 cases tried)",
    }
    assert (machine.modes, machine.daemons) == ({L40S: 0}, {})


def test_a_limit_of_each_process_is_none_of_the_container(machine: Machine) -> None:
    machine.behaves(memory="process")
    found = machine.run("--provider", "memory", only="plain processes pipe-unset")
    assert found.verdicts == {"plain": "held", "processes": "broken", "pipe-unset": "not tried"}
    assert found.case("processes")["reached"] > 2 * SHARE
    assert found.code == 1
    assert "does not have CUDA_MPS_PIPE_DIRECTORY" in found.case("pipe-unset")["note"]


def test_nothing_is_held_where_nothing_works(machine: Machine) -> None:
    """A GPU that gives nothing to anybody has not held anything."""
    machine.behaves(total="0")
    found = machine.run("--provider", "memory", only="plain processes managed restart")
    assert set(found.verdicts.values()) == {"not tried"}, found.output
    assert found.code == 2


def test_a_whole_gpu_has_no_neighbour(machine: Machine) -> None:
    found = machine.run("--provider", "whole", only="plain compute fault other-devices")
    assert found.verdicts == {
        "plain": "held",
        "compute": "not tried",
        "fault": "not tried",
        "other-devices": "held",
    }, found.output + found.errors
    assert found.code == 0
    assert "has all of the GPU" in found.case("compute")["note"]


def test_advice_breaks_nothing(machine: Machine) -> None:
    machine.behaves(memory="none", compute="slices")
    found = machine.run("--provider", "advisory", only="plain")
    assert found.case("plain")["verdict"] == "broken"
    assert (found.code, found.json["axes"]["memory"]["claims"]) == (0, "none")


NO_LIMITS = "\nfail nvmlDeviceGetMemoryLimits_v1 NotSupported\n"


@pytest.mark.parametrize(
    ("nvml", "provider", "words"),
    [
        (SYSTEM, "advisory", "finds no GPU"),
        (SYSTEM + PLAIN, "advisory", "programs run on"),
        (SYSTEM + IDLE + NO_LIMITS, "memory", "cannot be limited here"),
    ],
)
def test_where_nothing_can_be_tried(machine: Machine, nvml: str, provider: str, words: str) -> None:
    machine.nvml(nvml)
    found = machine.run("--provider", provider)
    assert (found.code, found.output) == (2, ""), found.errors
    assert found.errors.startswith("Nothing was tried: ")
    assert words in found.errors


def test_a_machine_without_a_driver(machine: Machine) -> None:
    (machine.folder / "libnvidia-ml.so.1").unlink()
    found = machine.run()
    assert (found.code, found.output) == (2, "")
    assert "Nothing was tried" in found.errors


def test_ctrl_c_leaves_nothing(machine: Machine) -> None:
    """The fixture looks at what is left."""
    running = subprocess.Popen(
        machine.command("--provider", "mps"),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    while " plain " not in running.stdout.readline():
        assert running.poll() is None
    assert left_over()
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (130, "Interrupted; what was made is removed.\n")
    assert (machine.modes, machine.daemons) == ({L40S: 0}, {})


def test_the_list_needs_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(RUN), "--list"],
        env={**environment(), "DOCKER_HOST": "unix:///nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [line[2:].split()[:2] for line in done.stdout.splitlines()[3:]]
    assert ["memory", "plain"] in listed
    # Each case is explained to who reads.
    readme = RUN.with_name("README.md").read_text()
    assert [name for _, name in listed if f"`{name}`" not in readme] == []
