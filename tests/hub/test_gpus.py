"""GPUs from the rule of the admin to the container: simulated ones, and those of a fake driver.

Nothing here has a GPU. What Docker is asked for real ones is real, and it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..gpu.conftest import _build
from ..gpu.machines import L40S, TWO_GPUS
from .harness import Hub, running, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SETTINGS = {
    "BackendAI": {
        "simulated_gpus": 2,
        "presets": [{"name": "share", "cpu": 0.1, "mem": "256m", "fgpu": 3}],
    }
}
LITTLE = {"cpu": 0.1, "mem": "256m"}


def devices(hub: Hub, owner: str) -> list[dict[str, Any]]:
    """What the owner's session holds of GPUs."""
    (row,) = hub.held(owner)
    return list(json.loads(row["devices"]))


def environment(hub: Hub, session_id: str) -> dict[str, str]:
    pairs = hub.container_of(session_id).attrs["Config"]["Env"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_simulated_gpus_are_given_waited_for_and_taken_back(hub: Hub) -> None:
    (agent,) = hub.rows("select * from agents")
    assert agent["fgpu"] == 10_000
    assert [d["provider"] for d in json.loads(agent["devices"])] == ["simulated"] * 2
    for name in ("ann", "ben"):
        hub.launch(hub.add_user(name))
        hub.until_ready(name)
    (first,), (second,) = devices(hub, "ann"), devices(hub, "ben")
    assert first["uuid"] != second["uuid"], "3 of 5 fit on no GPU twice"
    assert (first["amount"], first["capacity"], first["percent"]) == (3000, 5000, 60)

    (session,) = hub.sessions("ann")
    inside = environment(hub, session["id"])
    assert inside["FGPU_SHARES"] == "3"
    assert inside["FGPU_SHARES_PER_GPU"] == "5"
    assert inside["FGPU_PROVIDER"] == "simulated"
    assert inside["FGPU_ENFORCEMENT"] == "memory=none,compute=none,faults=none"
    assert inside["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not hub.container_of(session["id"]).attrs["HostConfig"]["DeviceRequests"]
    assert hub.sub_steps(session["id"])["create"][0][0] == "prepare_gpus"

    hub.launch(hub.add_user("cas"))
    told = wait_for("a reason", lambda: [r["reason"] for r in hub.sessions("cas") if r["reason"]])
    assert "4 are free" in told[0]
    assert "not on one GPU: the most on one GPU is 2" in told[0]
    hub.delete("ben")
    hub.until_ready("cas")
    assert [d["uuid"] for d in devices(hub, "cas")] == [second["uuid"]]
    for name in ("ann", "cas"):
        hub.delete(name)
    wait_for("all to be free", lambda: not hub.held())


def test_more_than_one_gpu_is_whole_ones_and_a_share(hub: Hub) -> None:
    hub.launch(hub.add_user("dan"), {"resources": {**LITTLE, "fgpu": 7.5}})
    hub.until_ready("dan")
    assert sorted(d["amount"] for d in devices(hub, "dan")) == [2500, 5000]
    hub.delete("dan")
    hub.until_over("dan")


def test_what_is_never_given_is_an_error_at_its_field(hub: Hub) -> None:
    user = hub.add_user("eve")
    for amount in (0.15, 11):
        reply = hub.launch(user, {"resources": {**LITTLE, "fgpu": amount}})
        assert reply.status_code == 400
        assert "resources.fgpu" in reply.text
    assert not hub.sessions("eve")


# ---- a driver


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of NVIDIA's library in a fake, and of the file with what it tells."""
    folder = tmp_path_factory.mktemp("driver")
    _build(folder)
    (folder / "nvml.txt").write_text(TWO_GPUS)
    return folder


@pytest.fixture(scope="module")
def gpu_hub(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    rules = [{"model": "*L40S*", "shares_per_gpu": 5, "provider": "advisory"}, {}]
    load = f"import ctypes; ctypes.CDLL({str(driver / 'libnvidia-ml.so.1')!r}, ctypes.RTLD_GLOBAL)"
    with running(
        tmp_path_factory.mktemp("gpu-hub"),
        settings={"BackendAI": {"gpus": rules}},
        extra=load,
        environment={"FAKE_NVML": str(driver / "nvml.txt")},
    ) as hub:
        yield hub


def test_the_gpus_of_a_machine_are_offered(gpu_hub: Hub) -> None:
    (agent,) = gpu_hub.rows("select * from agents")
    assert (agent["fgpu"], agent["gpu"], agent["mig"]) == (5000, 0, 2000)
    found = json.loads(agent["devices"])
    assert [(d["slot"], d["profile"], d["provider"]) for d in found] == [
        ("fgpu", None, "advisory"), ("mig", "1g.10gb", "mig"), ("mig", "3g.40gb", "mig"),
    ]  # fmt: skip
    assert not any(d["verified"] for d in found)


def test_docker_that_cannot_give_gpus(gpu_hub: Hub) -> None:
    """A sentence with what the admin must do, and nothing left behind."""
    gpu_hub.launch(gpu_hub.add_user("fay"), {"resources": {**LITTLE, "fgpu": 0.5}})
    wait_for("it to end", lambda: [r for r in gpu_hub.sessions("fay") if r["ended_at"]])
    (session,) = gpu_hub.sessions("fay")
    assert session["status"] == "ERROR"
    assert "cannot give GPUs to containers" in session["reason"]
    assert "NVIDIA Container Toolkit" in session["reason"]
    wait_for("nothing to be left", lambda: not (gpu_hub.containers() or gpu_hub.volumes()))
    assert not gpu_hub.held()


def test_a_session_without_gpus_is_given_none(gpu_hub: Hub) -> None:
    gpu_hub.launch(gpu_hub.add_user("gus"), {"resources": LITTLE})
    gpu_hub.until_ready("gus")
    (session,) = gpu_hub.sessions("gus")
    attrs = gpu_hub.container_of(session["id"]).attrs
    assert not attrs["HostConfig"]["DeviceRequests"]
    assert environment(gpu_hub, session["id"])["NVIDIA_VISIBLE_DEVICES"] == "void"
    gpu_hub.delete("gus")
    gpu_hub.until_over("gus")


def test_a_gpu_that_is_lost_in_the_middle(gpu_hub: Hub, driver: Path) -> None:
    """Whoever asks for it waits and is told so, the admin reads it in the log; then it is back."""
    told = driver / "nvml.txt"
    (driver / "new").write_text(TWO_GPUS.replace("mode 3", "mode 3\nlost"))
    (driver / "new").replace(told)
    wait_for("it to be noted", lambda: _share(gpu_hub)["available"] is False, 90)
    wait_for("the log to say so", lambda: f"GPU {L40S}" in gpu_hub.log_text())
    reply = gpu_hub.launch(gpu_hub.add_user("hal"), {"resources": {**LITTLE, "fgpu": 0.5}})
    assert reply.status_code == 202, reply.text
    reasons = wait_for(
        "a reason", lambda: [r["reason"] for r in gpu_hub.sessions("hal") if r["reason"]]
    )
    assert reasons == [
        "No GPU of default that works now has 0.5 FGPU; one that does not work may. "
        "The admin has been told."
    ]
    (driver / "new").write_text(TWO_GPUS)
    (driver / "new").replace(told)
    wait_for("it to be back", lambda: _share(gpu_hub)["available"], 90)
    wait_for("its turn", lambda: [r for r in gpu_hub.sessions("hal") if r["ended_at"]], 90)


def _share(hub: Hub) -> dict[str, Any]:
    (agent,) = hub.rows("select devices from agents")
    return dict(next(d for d in json.loads(agent["devices"]) if d["uuid"] == L40S))
