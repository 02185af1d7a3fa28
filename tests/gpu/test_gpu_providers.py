"""Providers of shares, against a fake driver and a fake control program of MPS."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from pathlib import Path

import pytest

from jupyterhub_backendai.gpu.errors import GpuError
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.gpu.providers.base import Grants
from jupyterhub_backendai.gpu.providers.mps_control import Control, Daemon, server_name
from jupyterhub_backendai.gpu.providers.whole import Whole
from jupyterhub_backendai.model.gpu_settings import GpuSettings
from jupyterhub_backendai.model.gpus import GpuDevice, GpuRule, Granted
from jupyterhub_backendai.model.slots import MIB
from jupyterhub_backendai.scheduling.fgpu import grant

from .conftest import Fake, Mps, Proc
from .machines import L40S, PLAIN, SYSTEM

SESSION = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32
CONTAINER = "c" * 64
PID = 4321
SERVER = server_name(L40S)
OWN = f"s_{SESSION}"
UNLIMITED = 2**64 - 1
SHARE = 9110 * MIB

Opener = Callable[..., Gpus]


@pytest.fixture
async def opened(mount: Path, mps: Mps, fake: Fake) -> AsyncIterator[Opener]:
    """Makes doors to the machine, which has one GPU in five shares; closes them."""
    gpus: list[Gpus] = []

    def open_(provider: str = "auto", *, driver: str = "cgroupfs", limits: bool = True) -> Gpus:
        own = f"limits {mount}/sys/fs/cgroup/system.slice/hub.service 0 {UNLIMITED} 0\n"
        fake.set(SYSTEM + PLAIN + (own if limits else ""))
        if not limits:  # and none to come
            (mount / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory pids\n")
        rule = GpuRule.model_validate({"shares_per_gpu": 5, "provider": provider})
        control = Control(mps.program, mount / "proc")
        gpus.append(Gpus((rule,), control=control, root=True, mount=mount))
        gpus[-1].engine_says({"CgroupDriver": driver})
        return gpus[-1]

    yield open_
    mps.rules()
    for one in gpus:
        await one.close()


async def only(gpus: Gpus) -> GpuDevice:
    (device,) = await gpus.devices("default")
    assert device.available, device.reason
    return device


async def one_share(gpus: Gpus, provider: str) -> tuple[Granted]:
    device = await only(gpus)
    assert device.provider == provider
    return (grant(device, 1000),)


# ---- memory limits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "parent", "slice_"),
    [
        ("cgroupfs", f"/fgpu/{SESSION}", f"fgpu/{SESSION}"),
        ("systemd", f"fgpu-{SESSION}.slice", f"fgpu.slice/fgpu-{SESSION}.slice"),
    ],
)
async def test_memory_is_held_from_the_first_moment(
    driver: str, parent: str, slice_: str, opened: Opener, fake: Fake, mount: Path, proc: Proc
) -> None:
    gpus = opened("memory", driver=driver)
    granted = await one_share(gpus, "memory")
    root = mount / "sys/fs/cgroup"
    cgroup = root / slice_
    for _ in range(2):
        assert await gpus.prepare(SESSION, granted) == GpuSettings(cgroup_parent=parent)
    assert cgroup.is_dir()
    # All on the way have GPU memory among what they limit.
    for above in (root, cgroup.parent):
        assert (above / "cgroup.subtree_control").read_text() == "+dmem"
    mode, *limits = fake.was_set
    assert mode == f"mode {L40S} 0"
    assert set(limits) == {f"limits {L40S} {cgroup} 0 {SHARE}"}
    # And on the container's own, where programs read the size of their GPU from.
    leaf = cgroup / CONTAINER
    (leaf / "init").mkdir(parents=True)
    proc.add(PID, f"0::/{slice_}/{CONTAINER}/init\n")
    for _ in range(2):
        await gpus.attach(SESSION, granted, CONTAINER, PID)
    assert set(fake.was_set[-2:]) == {f"limits {L40S} {leaf} 0 {SHARE}"}
    # While the container is there its cgroup stays; then it goes, with its limit.
    await gpus.release(SESSION, granted)
    assert cgroup.is_dir()
    (leaf / "init").rmdir()
    leaf.rmdir()
    for _ in range(2):
        await gpus.release(SESSION, granted)
    assert fake.was_set[-1] == f"limits {L40S} {cgroup} 0 {UNLIMITED}"
    assert not cgroup.exists()


async def test_memory_that_cannot_be_held(
    opened: Opener, fake: Fake, mount: Path, proc: Proc
) -> None:
    gpus = opened("memory")
    granted = await one_share(gpus, "memory")
    fake.rules("fail nvmlDeviceSetMemoryLimits_v1 NoPermission")
    with pytest.raises(GpuError, match="cannot be limited.*NoPermission"):
        await gpus.prepare(SESSION, granted)
    # Nothing holds it: what is set is not what is read back.
    fake.rules("fail nvmlDeviceGetMemoryLimits_v1 NotSupported")
    with pytest.raises(GpuError, match="cannot be limited"):
        await gpus.prepare(SESSION, granted)
    fake.rules()
    await gpus.prepare(SESSION, granted)
    # A process that is not the container's, or that has ended meanwhile.
    proc.add(PID, f"0::/fgpu/{OTHER}/{'d' * 64}\n")
    with pytest.raises(GpuError, match="is not in container"):
        await gpus.attach(SESSION, granted, CONTAINER, PID)
    proc.remove(PID)
    with pytest.raises(GpuError, match="has ended"):
        await gpus.attach(SESSION, granted, CONTAINER, PID)
    await gpus.release(SESSION, granted)
    assert not (mount / "sys/fs/cgroup/fgpu" / SESSION).exists()


async def test_cgroups_of_sessions_that_are_over_go(opened: Opener, mount: Path) -> None:
    gpus = opened("memory")
    granted = await one_share(gpus, "memory")
    await gpus.prepare(SESSION, granted)
    root = mount / "sys/fs/cgroup/fgpu"
    (root / OTHER).mkdir()
    # One that this process is about to start stays, whether the list has it yet or not.
    await gpus.restore({}, [SESSION])
    assert [path.name for path in root.iterdir() if path.is_dir()] == [SESSION]
    later = opened("memory")
    await later.restore({SESSION: granted})
    assert (root / SESSION).is_dir()
    await later.restore({})
    assert not (root / SESSION).exists()


async def test_what_was_ended_by_others_goes_from_the_process_that_prepared_it(
    opened: Opener, mps: Mps, mount: Path
) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    await gpus.restore({SESSION: granted})
    await gpus.restore({})
    assert mps.calls == STARTED + HELD + FREED
    assert not (mount / "sys/fs/cgroup/fgpu" / SESSION).exists()


async def test_what_is_prepared_while_things_are_put_right_stays(
    opened: Opener, mps: Mps, mount: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    real = Whole.restore

    async def late(self: Whole, sessions: Mapping[str, Grants], kept: Collection[str]) -> None:
        await gpus.prepare(OTHER, granted)
        await real(self, sessions, kept)

    monkeypatch.setattr(Whole, "restore", late)  # the first of them, after the list was made
    await gpus.restore({})
    assert mps.calls[-1:] == FREED
    (daemon,) = mps.daemons.values()
    assert set(daemon["servers"][SERVER]["namespaces"]) == {f"s_{OTHER}"}
    assert (mount / "sys/fs/cgroup/fgpu" / OTHER).is_dir()


async def test_a_release_that_failed_is_done_later(opened: Opener, mps: Mps, mount: Path) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    mps.rules("fail namespace delete")
    with pytest.raises(GpuError, match="refused: namespace delete"):
        await gpus.release(SESSION, granted)
    mps.rules()
    await gpus.restore({})
    assert mps.calls[-1:] == FREED
    assert not (mount / "sys/fs/cgroup/fgpu" / SESSION).exists()


async def test_one_that_cannot_be_removed_keeps_no_other(
    opened: Opener, mps: Mps, mount: Path
) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    for session in (SESSION, OTHER):
        await gpus.prepare(session, granted)
    root = mount / "sys/fs/cgroup/fgpu"
    (root / "0-bad").mkdir()  # no name of a session
    mps.rules(f"fail namespace delete {OWN}")
    with pytest.raises(GpuError, match=f"refused: namespace delete {OWN}"):
        await gpus.restore({})
    (daemon,) = mps.daemons.values()
    assert set(daemon["servers"][SERVER]["namespaces"]) == {OWN}
    assert not [path for path in (root / SESSION, root / OTHER) if path.exists()]


@pytest.mark.parametrize("session", ["../../x", "a-b", "", "A" * 32, "a" * 62, "a/b"])
async def test_a_name_that_leads_elsewhere(session: str, opened: Opener) -> None:
    gpus = opened("memory")
    granted = await one_share(gpus, "memory")
    with pytest.raises(GpuError, match="cannot be the name"):
        await gpus.prepare(session, granted)


# ---- MPS with namespaces -------------------------------------------------------------------------

LIMITS = "--pinned-memory-limit=9110M --active-thread-percentage=20"
STARTED = [
    "-p 3 -h",
    "-d -p 3 -m",
    f"-p 3 server create {SERVER} --allowed-devices={L40S}",
    f"-p 3 server set {SERVER} --active-thread-percentage=1 --pinned-memory-limit=512M",
]
HELD = [
    f"-p 3 namespace create {OWN} --server={SERVER}",
    f"-p 3 namespace set {OWN} --server={SERVER} {LIMITS}",
]
FREED = [f"-p 3 namespace delete {OWN} --server={SERVER} --force"]


async def test_a_namespace_for_a_session(opened: Opener, mps: Mps, fake: Fake, mount: Path) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    assert granted[0].enforcement.memory == "hard"
    pipes = mount / "run/nvidia-mps"
    directory = f"{pipes}/{SERVER}/{OWN}"
    for _ in range(2):
        assert await gpus.prepare(SESSION, granted) == GpuSettings(
            environment={"CUDA_MPS_PIPE_DIRECTORY": directory},
            mounts=(directory,),
            cgroup_parent=f"/fgpu/{SESSION}",
        )
    assert mps.calls == STARTED + HELD
    # The memory is held for the whole container as well.
    cgroup = mount / "sys/fs/cgroup/fgpu" / SESSION
    assert set(fake.was_set) == {f"limits {L40S} {cgroup} 0 {SHARE}"}
    for _ in range(2):
        await gpus.release(SESSION, granted)
    assert mps.calls == STARTED + HELD + FREED
    assert not cgroup.exists()
    assert pipes.stat().st_mode & 0o777 == 0o755


async def test_without_memory_limits_the_namespace_alone(opened: Opener, mount: Path) -> None:
    gpus = opened(limits=False)
    granted = await one_share(gpus, "mps")
    assert granted[0].enforcement.memory == "soft"
    assert (await gpus.prepare(SESSION, granted)).cgroup_parent == ""
    assert not (mount / "sys/fs/cgroup/fgpu" / SESSION).exists()


async def test_a_mode_for_all_is_changed_before_the_server_starts(
    opened: Opener, mps: Mps, fake: Fake
) -> None:
    gpus = opened()
    fake.change("mode 3", "mode 0")
    granted = await one_share(gpus, "mps")
    fake.rules("fail nvmlDeviceSetComputeMode NoPermission")
    with pytest.raises(GpuError, match="cannot be EXCLUSIVE_PROCESS: NoPermission"):
        await gpus.prepare(SESSION, granted)
    assert mps.daemons == {}
    fake.rules()
    await gpus.prepare(SESSION, granted)
    assert fake.was_set[0] == f"mode {L40S} 3"


async def test_a_server_without_limits_of_its_own_gets_them(opened: Opener, mps: Mps) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    # As if who made it had been killed in between.
    mps.change(lambda daemons: next(iter(daemons.values()))["servers"][SERVER].pop("default"))
    before = len(mps.calls)
    for _ in range(2):
        await opened().restore({SESSION: granted})
    assert mps.calls[before:] == STARTED[3:]


async def test_two_sessions_on_one_gpu(opened: Opener, mps: Mps) -> None:
    gpus = opened()
    device = await only(gpus)
    await gpus.prepare(SESSION, (grant(device, 1000),))
    await gpus.prepare(OTHER, (grant(device, 3500),))
    (daemon,) = mps.daemons.values()
    (server,) = daemon["servers"].values()
    assert {
        name: found["active-thread-percentage"] for name, found in server["namespaces"].items()
    } == {OWN: "20", f"s_{OTHER}": "70"}
    assert server["default"] == {
        "active-thread-percentage": "1",
        "pinned-memory-limit": "512M",
    }


async def test_limits_are_never_set_below_a_running_program(opened: Opener, mps: Mps) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)

    def attach(daemons: dict[str, dict[str, dict[str, dict[str, object]]]]) -> None:
        next(iter(daemons.values()))["servers"][SERVER]["clients"] = [1]

    mps.change(attach)  # type: ignore[arg-type]
    await gpus.prepare(SESSION, granted)
    await opened().restore({SESSION: granted})
    assert mps.calls[: len(STARTED + HELD)] == STARTED + HELD
    assert not [call for call in mps.calls[len(STARTED + HELD) :] if "set" in call]


async def test_a_daemon_that_was_restarted_gets_its_namespaces_again(
    opened: Opener, mps: Mps
) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    mps.change(lambda daemons: daemons.clear())
    before = len(mps.calls)
    await gpus.restore({SESSION: granted})
    assert mps.calls[before:] == STARTED[1:] + HELD


async def test_namespaces_of_sessions_that_are_over_go(opened: Opener, mps: Mps) -> None:
    gpus = opened()
    device = await only(gpus)
    for session in (SESSION, OTHER):
        await gpus.prepare(session, (grant(device, 1000),))

    def add(daemons: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]]) -> None:
        next(iter(daemons.values()))["servers"][SERVER]["namespaces"]["theirs"] = {}

    mps.change(add)  # type: ignore[arg-type]
    later = opened()
    await later.restore({OTHER: (grant(device, 1000),)})
    assert mps.calls[-1:] == FREED
    (daemon,) = mps.daemons.values()
    assert set(daemon["servers"][SERVER]["namespaces"]) == {f"s_{OTHER}", "theirs"}


async def test_without_sessions_nothing_is_started(opened: Opener, mps: Mps) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.release(SESSION, granted)
    await gpus.restore({})
    assert mps.calls == ["-p 3 -h"]
    assert mps.daemons == {}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("fail -d", "MPS: refused: -d"),
        ("fail server create", "refused: server create"),
        ("fail server set", "refused: server set"),
        ("status Fault", "has not come"),
        ("dies", "has not come"),
        ("user 1000", "is not root's"),
        ("fail namespace create", "refused: namespace create"),
        ("fail namespace set", "refused: namespace set"),
        ("unlimited", "is not as it was made"),
    ],
)
async def test_a_daemon_that_does_not_do_as_told(
    rule: str, said: str, opened: Opener, mps: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyterhub_backendai.gpu.providers.mps_control.START_TIMEOUT", 0.3)
    gpus = opened()
    granted = await one_share(gpus, "mps")
    mps.rules(rule)
    with pytest.raises(GpuError, match=said):
        await gpus.prepare(SESSION, granted)
    mps.rules()
    await gpus.release(SESSION, granted)
    for daemon in mps.daemons.values():
        for server in daemon["servers"].values():
            assert server["namespaces"] == {}


async def test_a_server_that_died_is_seen(opened: Opener, mps: Mps, proc: Proc) -> None:
    gpus = opened()
    granted = await one_share(gpus, "mps")
    await gpus.prepare(SESSION, granted)
    (server,) = next(iter(mps.daemons.values()))["servers"].values()
    proc.root.joinpath(str(server["pid"])).rmdir()
    with pytest.raises(GpuError, match=f"the server of {L40S} is"):
        await gpus.prepare(OTHER, granted)


async def test_sockets_have_short_paths(
    opened: Opener, mps: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyterhub_backendai.gpu.providers.mps_control.LONGEST_SOCKET", 90)
    gpus = opened()
    granted = await one_share(gpus, "mps")
    with pytest.raises(GpuError, match="too long a path"):
        await gpus.prepare(SESSION, granted)
    assert not [call for call in mps.calls if "namespace" in call]
    # With the paths that a machine has there is room.
    assert len(f"/run/nvidia-mps/{SERVER}/{OWN}/control") <= 107


async def test_a_gpu_that_is_offered_as_a_whole_again_is_left(
    opened: Opener, mps: Mps, mount: Path, fake: Fake
) -> None:
    shared = opened()
    granted = await one_share(shared, "mps")
    await shared.prepare(SESSION, granted)

    def attach(daemons: dict[str, dict[str, dict[str, dict[str, object]]]]) -> None:
        next(iter(daemons.values()))["servers"][SERVER]["clients"] = [1]

    mps.change(attach)  # type: ignore[arg-type]
    control = Control(mps.program, mount / "proc")
    whole = Gpus((GpuRule(),), control=control, root=True, mount=mount)
    whole.engine_says({})
    own = (grant(await only(whole), 1000),)
    with pytest.raises(GpuError, match="active clients"):
        await whole.prepare(OTHER, own)
    mps.change(lambda daemons: next(iter(daemons.values()))["servers"][SERVER].pop("clients"))
    await whole.prepare(OTHER, own)
    assert mps.calls[-1] == f"-p 3 server delete {SERVER}"
    assert fake.was_set[-1] == f"mode {L40S} 0"
    await whole.close()


# ---- MPS as it was before ------------------------------------------------------------------------


async def test_cooperative_mps(opened: Opener, mps: Mps, mount: Path) -> None:
    mps.rules("old")
    gpus = opened(limits=False)
    granted = await one_share(gpus, "mps2")
    directory = f"{mount}/run/nvidia-mps2/{SERVER}"
    for _ in range(2):
        assert await gpus.prepare(SESSION, granted) == GpuSettings(
            environment={
                "CUDA_MPS_PIPE_DIRECTORY": directory,
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20",
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9110M",
            },
            mounts=(directory,),
        )
    assert mps.calls == ["-p 3 -h", "-d", "< start_server -uid 1000"]
    (daemon,) = mps.daemons.values()
    assert daemon["device"] == L40S
    await gpus.release(SESSION, granted)
    await gpus.restore({SESSION: granted})


async def test_old_drivers_share_memory_with_their_daemon(
    opened: Opener, mps: Mps, fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    mps.rules("old")
    by_itself, gpus = opened(limits=False), opened("mps", limits=False)
    fake.change("driver 615.71.09", "driver 570.1")
    assert (await only(by_itself)).provider == "advisory"
    assert caplog.text == ""
    for _ in range(2):
        granted = await one_share(gpus, "mps2")
    assert (await gpus.prepare(SESSION, granted)).mounts[1:] == ("/dev/shm",)
    assert caplog.text.count("each other's shared memory") == 1


async def test_of_a_driver_without_a_release_the_worse_is_taken_for_true(
    opened: Opener, mps: Mps, fake: Fake
) -> None:
    mps.rules("old")
    gpus = opened("mps", limits=False)
    fake.change("driver 615.71.09", "driver devel")
    granted = await one_share(gpus, "mps2")
    assert (await gpus.prepare(SESSION, granted)).mounts[1:] == ("/dev/shm",)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("fail -d", "refused: -d"),
        ("fail start_server", "refused: start_server"),
        ("status FAULT", "is not well: FAULT"),
        ("dies", "has not come"),
    ],
)
async def test_an_old_daemon_that_does_not_do_as_told(
    rule: str, said: str, opened: Opener, mps: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyterhub_backendai.gpu.providers.mps_control.START_TIMEOUT", 0.3)
    mps.rules("old", rule)
    gpus = opened(limits=False)
    granted = await one_share(gpus, "mps2")
    with pytest.raises(GpuError, match=said):
        await gpus.prepare(SESSION, granted)


async def test_an_old_daemon_is_left(opened: Opener, mps: Mps, mount: Path) -> None:
    mps.rules("old")
    shared = opened(limits=False)
    await shared.prepare(SESSION, await one_share(shared, "mps2"))
    advisory = opened("advisory")
    granted = await one_share(advisory, "advisory")
    assert await advisory.prepare(OTHER, granted) == GpuSettings()
    assert mps.daemons == {}


@pytest.mark.parametrize("rules", [(), ("old",)])
async def test_one_gpu_for_a_session_with_mps(
    rules: tuple[str, ...], opened: Opener, mps: Mps
) -> None:
    mps.rules(*rules)
    gpus = opened(limits=False)
    device = await only(gpus)
    other = device.model_copy(update={"uuid": "GPU-9"})
    with pytest.raises(GpuError, match="one GPU, and not 2"):
        await gpus.prepare(SESSION, (grant(device, 5000), grant(other, 5000)))
    assert mps.daemons == {}


# ---- the program ---------------------------------------------------------------------------------


async def test_which_interface_the_program_has(mps: Mps, tmp_path: Path) -> None:
    assert Control(str(tmp_path / "missing")).protocol() == 0
    assert Control(mps.program).protocol() == 3
    mps.rules("old")
    assert Control(mps.program).protocol() == 2


async def test_a_new_driver_may_have_another_program(opened: Opener, mps: Mps, fake: Fake) -> None:
    mps.rules("old")
    gpus = opened(limits=False)
    assert (await only(gpus)).provider == "mps2"
    mps.rules()
    assert (await only(gpus)).provider == "mps2"
    fake.change("driver 615.71.09", "driver 616.1")
    assert (await only(gpus)).provider == "mps"


async def test_a_driver_that_fails_is_not_another_one(opened: Opener, mps: Mps, fake: Fake) -> None:
    gpus = opened()
    fake.rules("fail nvmlSystemGetDriverVersion Unknown")
    assert (await only(gpus)).provider == "memory"
    assert mps.calls == []
    fake.rules()
    assert (await only(gpus)).provider == "mps"
    for rule in ("fail nvmlSystemGetDriverVersion Unknown", "fail nvmlInitWithFlags Unknown"):
        fake.rules(rule)
        await gpus.devices("default")
        fake.rules()
        assert (await only(gpus)).provider == "mps"
    assert mps.calls == ["-p 3 -h"]


async def test_a_program_that_hangs_stops_no_report(
    opened: Opener, fake: Fake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    def hang(control: Control) -> int:
        release.wait()
        return 3

    async def until_mps() -> str:
        while (provider := (await only(gpus)).provider) == "memory":
            pass
        return provider

    monkeypatch.setattr("jupyterhub_backendai.gpu.providers.mps_control.STEP_TIMEOUT", 0.1)
    monkeypatch.setattr(Control, "protocol", hang)
    gpus = opened()
    for _ in range(2):
        assert (await only(gpus)).provider == "memory"
    assert caplog.text.count("GPUs are offered without MPS") == 1
    release.set()
    assert await asyncio.wait_for(until_mps(), 60) == "mps"


@pytest.mark.parametrize("umask", [0o077, 0])
def test_folders_are_as_they_must_be(umask: int, tmp_path: Path) -> None:
    old = os.umask(umask)
    try:
        for _ in range(2):
            Daemon(tmp_path / "run/mps/gpu", tmp_path / "log/mps/gpu").make_folders()
    finally:
        os.umask(old)
    modes = {str(p.relative_to(tmp_path)): p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    assert modes.pop("log/mps/gpu") == 0o750
    assert modes == dict.fromkeys(("run", "run/mps", "run/mps/gpu", "log", "log/mps"), 0o755)


async def test_a_daemon_has_nothing_of_our_environment(
    opened: Opener, mps: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIPE_DIRECTORY", "PROTOCOL_VERSION", "ACTIVE_THREAD_PERCENTAGE"):
        monkeypatch.setenv(f"CUDA_MPS_{name}", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("JUPYTERHUB_CRYPT_KEY", "secret")
    gpus = opened()
    await gpus.prepare(SESSION, await one_share(gpus, "mps"))
    (daemon,) = mps.daemons.values()
    assert (daemon["protocol"], daemon["device"]) == (3, None)
    names = {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "PATH", "LD_LIBRARY_PATH"}
    # What Python and the shell set by themselves is nobody's secret.
    assert set(daemon["environment"]) - names <= {"LC_CTYPE", "PWD", "SHLVL", "_"}
