"""Counters of containers: of trees of files as kernels make them, and of a real container."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai._within import within
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.docker_readings import reading_of
from jupyterhub_backendai.engine.readings import FREEZER, Files
from jupyterhub_backendai.model.usage import Reading

ID = "ab" * 32
PID = 4711
DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:  99999      16    0    0    0     0          0         0    88888      16    0 0
  eth0: 7000       50    0    0    0     0          0         0     300       4    0 0
net:1: 7 1 0 0 0 0 0 0 5 1 0 0
"""
V1 = {
    "cpuacct": {"cpuacct.usage": "2500000000\n"},
    "memory": {
        "memory.usage_in_bytes": "1000\n",
        "memory.stat": "cache 600\ninactive_file 1\ntotal_inactive_file 400\n",
    },
    "blkio": {
        "blkio.throttle.io_service_bytes": "8:0 Read 1\nTotal 1\n",
        "blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 10\n"
        "8:0 Sync 1\n8:16 Read 4\n8:16 Discard 9\nTotal 4110\n",
    },
}
V2 = {
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n",
    "memory.current": "1000\n",
    "memory.stat": "anon 5\nfile 600\ninactive_file 400\n",
    "io.stat": "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n"
    "253:0\n8:16 rbytes=4 wbytes=10 rios=1\n",
}
WHOLE = (2.5, 600, 4100, 10, 7007, 305)


class Machine:
    """A /proc and its control groups."""

    def __init__(self, root: Path) -> None:
        self.proc, self.groups = root / "proc", root / "with space"
        self.life(100)
        self.write(self.proc / str(PID) / "net" / "dev", DEV)

    def write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def life(self, start: int) -> None:
        fields = " ".join(str(n) for n in [*range(19), start, 0, 0])
        self.write(self.proc / str(PID) / "stat", f"{PID} (odd) name)) {fields}\n")

    def mounts(self, *lines: tuple[str, str, str], root: str = "/") -> None:
        """By kind, name of the directory and options."""
        where = str(self.groups).replace(" ", "\\040")
        text = "22 1 0:1 / / rw - ext4 /dev/vda rw\n"
        for kind, name, options in lines:
            text += f"33 31 0:30 {root} {where}/{name} rw shared:1 - {kind} {kind} rw,{options}\n"
        self.write(self.proc / "self" / "mountinfo", text)

    def member(self, *lines: str) -> None:
        self.write(self.proc / str(PID) / "cgroup", "\n".join(lines) + "\n")

    def version_1(self, path: str, below: str = "") -> None:
        self.mounts(
            ("cgroup", "cpu,cpuacct", "cpu,cpuacct"), ("cgroup", "memory", "memory"),
            ("cgroup", "blkio", "blkio"), ("cgroup", "systemd", "xattr,name=systemd"),
            ("cgroup2", "unified", "nsdelegate"),
        )  # fmt: skip
        self.member(
            f"4:memory:{path}{below}", f"3:cpu,cpuacct:{path}{below}", f"2:blkio:{path}",
            f"1:name=systemd:{path}", "0::/",
        )  # fmt: skip
        for controller, files in V1.items():
            mount = "cpu,cpuacct" if controller == "cpuacct" else controller
            for name, text in files.items():
                self.write(self.groups / mount / path.lstrip("/") / name, text)

    def version_2(self, path: str, below: str = "") -> None:
        self.mounts(("cgroup2", "all", "nsdelegate"))
        self.member(f"0::{path}{below}")
        for name, text in V2.items():
            self.write(self.groups / "all" / path.lstrip("/") / name, text)

    def read(self) -> Reading | None:
        files = Files(self.proc)
        place = files.find(ID, PID)
        return None if place is None else files.read(place)


def values(reading: Reading | None) -> tuple[Any, ...]:
    assert reading is not None
    names = ("cpu", "mem", "disk_read", "disk_write", "net_in", "net_out")
    return tuple(getattr(reading, name) for name in names)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("version", ["version_1", "version_2"])
@pytest.mark.parametrize(
    ("path", "below"),
    [
        (f"/docker/{ID}", ""),
        (f"/system.slice/docker-{ID}.scope", ""),
        (f"/fgpu.slice/fgpu-1.slice/docker-{ID}.scope", "/init.scope"),
        (f"/docker/{'c' * 64}/docker/{ID}", "/user"),
    ],
)
def test_every_version_and_driver(machine: Machine, version: str, path: str, below: str) -> None:
    getattr(machine, version)(path, below)
    assert values(machine.read()) == WHOLE


def test_both_versions_together(machine: Machine) -> None:
    """Version 1 for the controllers that it has, 2 for the others."""
    path = f"/docker/{ID}"
    machine.version_2(path)
    machine.version_1(path)
    machine.mounts(("cgroup", "memory", "memory"), ("cgroup2", "all", "nsdelegate"))
    machine.member(f"4:memory:{path}", f"0::{path}")
    (machine.groups / "memory" / path[1:] / "memory.usage_in_bytes").write_text("1001\n")
    assert values(machine.read()) == (2.5, 601, *WHOLE[2:])


@pytest.mark.parametrize(
    ("file", "text", "lost"),
    [
        ("cpu.stat", "user_usec 1\n", (0,)),
        ("cpu.stat", "usage_usec many\n", (0,)),
        ("memory.current", "", (1,)),
        ("memory.stat", "inactive_file\n", (1,)),
        ("io.stat", "8:0 rbytes=? wbytes=1\n", (2, 3)),
        ("io.stat", None, (2, 3)),
    ],
)
def test_an_odd_line_loses_its_own_metric(
    machine: Machine, file: str, text: str | None, lost: tuple[int, ...]
) -> None:
    machine.version_2(f"/docker/{ID}")
    odd = machine.groups / "all" / "docker" / ID / file
    odd.unlink() if text is None else odd.write_text(text)
    expected = tuple(None if i in lost else value for i, value in enumerate(WHOLE))
    assert values(machine.read()) == expected


def test_memory_that_is_all_cache_and_disks_that_did_nothing(machine: Machine) -> None:
    machine.version_2(f"/docker/{ID}")
    group = machine.groups / "all" / "docker" / ID
    (group / "memory.stat").write_text("inactive_file 1000\n")
    (group / "io.stat").write_text("")
    assert values(machine.read())[1:4] == (1000, 0, 0)


def test_a_kernel_that_counts_no_disks(machine: Machine) -> None:
    machine.version_1(f"/docker/{ID}")
    name = "blkio.throttle.io_service_bytes_recursive"
    (machine.groups / "blkio" / "docker" / ID / name).write_text("Total 0\n")
    assert values(machine.read()) == (*WHOLE[:2], None, None, *WHOLE[4:])


def test_interfaces_that_are_not_its_own_or_odd(machine: Machine) -> None:
    machine.version_2(f"/docker/{ID}")
    files = Files(machine.proc)
    shared = files.find(ID, PID, own_net=False)
    assert shared is not None
    assert values(files.read(shared))[4:] == (None, None)
    (machine.proc / str(PID) / "net" / "dev").write_text("a\nb\neth0: x\n")
    assert values(machine.read()) == (*WHOLE[:4], None, None)


def test_another_life_is_another_place(machine: Machine) -> None:
    machine.version_2(f"/docker/{ID}")
    files = Files(machine.proc)
    place = files.find(ID, PID)
    assert place is not None
    machine.life(200)
    assert files.read(place) is None, "its number is another process's by now"
    again = files.find(ID, PID)
    assert again is not None
    assert again.life != place.life


def test_what_cannot_be_seen_from_here(machine: Machine) -> None:
    machine.version_2(f"/docker/{ID}")
    assert Files(machine.proc).find(ID, 1) is None, "no such process"
    machine.member("0::/../../docker/else")
    assert machine.read() is None, "the process of that number is another one here"
    machine.member(f"0::/../docker/{ID}")
    assert machine.read() is None, "it is beside the groups that we see"
    machine.member(f"0::/docker/{ID}")
    machine.mounts(("cgroup2", "all", "nsdelegate"), root=f"/docker/{'c' * 64}")
    assert machine.read() is None
    machine.mounts(("cgroup2", "all/docker", "nsdelegate"), root="/docker")
    assert values(machine.read()) == WHOLE, "of a mount that begins further down"


def test_what_only_freezes_counts_nothing(machine: Machine) -> None:
    """Docker is asked then, and nothing is taken for unknown."""
    path = f"/docker/{ID}"
    machine.mounts(("cgroup", "freezer", "freezer"))
    machine.member(f"2:freezer:{path}", "0::/")
    machine.write(machine.groups / "freezer" / path[1:] / "freezer.state", "THAWED\n")
    files = Files(machine.proc)
    assert files.find(ID, PID) is None
    place = files.find(ID, PID, controllers=[FREEZER])
    assert place is not None
    assert files.lives(place)
    assert dict(place.groups) == {FREEZER: machine.groups / "freezer" / path[1:]}
    machine.version_1(path)
    found = Files(machine.proc).find(ID, PID)
    assert found is not None
    assert FREEZER not in found.groups
    machine.life(200)
    assert not files.lives(place)


def test_answers_of_the_stats_api() -> None:
    said = {
        "cpu_stats": {"cpu_usage": {"total_usage": 2500000000}},
        "memory_stats": {"usage": 1000, "stats": {"inactive_file": 400}},
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"major": 8, "minor": 0, "op": "read", "value": 4096},
                {"major": 8, "minor": 16, "op": "Read", "value": 4},
                {"major": 8, "minor": 0, "op": "Write", "value": 10},
            ]
        },
        "networks": {
            "eth0": {"rx_bytes": 7000, "tx_bytes": 300},
            "x": {"rx_bytes": 7, "tx_bytes": 5},
        },
    }
    assert values(reading_of(said, 1.0)) == WHOLE
    said["blkio_stats"] = {"io_service_bytes_recursive": None}
    del said["networks"]
    assert values(reading_of(said, 1.0)) == (2.5, 600, None, None, None, None)
    assert reading_of({"cpu_stats": {"cpu_usage": {}}, "memory_stats": {}}, 1.0) is None


# ---- a real container ----

LOAD = """
i=0; while [ ! -e /tmp/quiet ]; do i=$((i+1)); done; sleep 1000
"""
# To nobody: it is counted as it leaves.
TALK = """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(1000), ("192.0.2.1", 9))
"""


class Busy:
    """A container that computes until it is told not to."""

    def __init__(self) -> None:
        self.engine = DockerEngine([AgentConfig("local")], "test-readings", uuid.uuid4().hex[:12])
        self.host = self.engine.host("local")
        self.id = ""

    async def read(self) -> Reading | None:
        return (await self.engine.readings("local", [self.id, "f" * 64])).get(self.id)

    async def asked(self) -> Reading | None:
        return (await self.host.readings._ask([self.id, "f" * 64])).get(self.id)

    async def execute(self, *command: str) -> None:
        def run(client: Any) -> None:
            made = client.exec_create(self.id, list(command))
            client.exec_start(made["Id"])

        await self.host.call(run)


@pytest.fixture
async def busy() -> AsyncIterator[Busy]:
    one = Busy()

    def create(client: Any) -> str:
        made = client.create_container(
            "backendai-demo:latest", ["sh", "-c", LOAD], entrypoint=[],
            labels={"backendai.hub": "test-readings"},
            host_config=client.create_host_config(mem_limit="256m", init=True),
        )  # fmt: skip
        client.start(made["Id"])
        return str(made["Id"])

    one.id = await one.host.call(create)
    yield one
    await one.host.call(lambda client: client.remove_container(one.id, force=True, v=True))


async def until(look: Callable[[], Coroutine[Any, Any, Any]], good: Callable[[Any], bool]) -> Any:
    async def wait() -> Any:
        while not good(found := await look()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found

    return await within(120, wait())


@pytest.mark.docker
@pytest.mark.slow
async def test_a_real_container(busy: Busy) -> None:
    def works(reading: Reading | None) -> bool:
        return reading is not None and bool(reading.cpu and reading.mem)

    first = await until(busy.read, works)
    more = await until(busy.read, lambda r: r is not None and r.cpu > first.cpu + 0.2)
    assert more.life == first.life
    assert more.at > first.at
    assert 0 < more.mem < 256 * 2**20
    said = await until(busy.asked, works)
    assert said.cpu >= more.cpu, "the same counter, by Docker's own word"
    later = await until(busy.read, lambda r: r is not None and r.cpu >= said.cpu)
    assert later.net_in >= said.net_in >= first.net_in

    async def talks() -> Reading | None:
        await busy.execute("python3", "-c", TALK)
        return await busy.read()

    await until(talks, lambda r: r is not None and r.net_out > first.net_out + 5000)
    # Started again it is another life; while it does not run nothing is known.
    await busy.host.call(lambda client: client.kill(busy.id))
    await until(busy.read, lambda r: r is None)
    assert await busy.asked() is None
    await busy.host.call(lambda client: client.start(busy.id))
    again = await until(busy.read, works)
    assert again.life != first.life
