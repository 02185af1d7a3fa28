"""GPUs on a Docker engine that cannot give any: what is said, and that nothing stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import running, wait_for

pytestmark = pytest.mark.docker
GPU = "GPU-00000000-0000-4000-8000-000000000001"
REQUESTS = {
    "nvidia": {"driver": "nvidia", "device_ids": [GPU], "capabilities": [["gpu"]]},
    "cdi": {"driver": "cdi", "device_ids": [f"nvidia.com/gpu={GPU}"]},
}


@pytest.mark.parametrize("driver", REQUESTS)
def test_an_engine_without_gpus(driver: str, tmp_path: Path) -> None:
    """The admin's own request goes through, where sessions have no GPUs of ours."""
    request = {"device_requests": [REQUESTS[driver]]}
    with running(tmp_path, settings={"DockerSpawner": {"extra_host_config": request}}) as hub:
        user = hub.add_user("alice")
        reply = hub.launch(user)
        assert reply.status_code == 503, reply.text
        told = reply.json()["message"]
        assert "Docker on local cannot give GPUs to containers" in told
        assert "NVIDIA Container Toolkit" in told
        wait_for("nothing to be left", lambda: not hub.containers() and not hub.held())
        assert not hub.volumes()
        (session,) = hub.sessions(user)
        assert (session["status"], session["reason_code"]) == ("ERROR", "gpu")
        assert "could not select device driver" in hub.log_text()
        assert "Traceback" not in hub.log_text()
