"""What an image of a session costs: our whole work beside Docker's own `commit` of it.

    python benchmarks/commit.py [--megabytes 300] [--files 10000] [--rounds 9] [--json]

A container of `backendai-demo:latest` with so many bytes and files in its own layer is made into an
image by both in turn, and each image is removed before the next. How long the session stands still
is measured inside of it: a loop notes the time again and again, and the longest gap counts.

With --json the last line is {"ours": ..., "commit": ..., "ratio": ..., "pause": ...,
"commit_pause": ..., "pause_ratio": ...}: medians, in seconds.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # `queue.py` beside this must not be taken for Python's own

import argparse
import asyncio
import io
import json
import platform
import statistics
import struct
import tarfile
import time
import uuid
from collections.abc import Callable

import docker

from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.images import LABEL_IMAGE_HUB, CommitOrder

IMAGE = "backendai-demo:latest"
AGENT = "local"
BEATS = "/home/work/beats"
# Of a session: what there is in its layer, and a loop that notes the time (CLOCK_MONOTONIC is the
# machine's own, inside and outside).
SCRIPT = f"""
import os, random, struct, time
size, count = int(os.environ["BYTES"]), int(os.environ["FILES"])
os.makedirs("/tmp/layer")
for number in range(count):
    if number % 100 == 0:
        os.makedirs(f"/tmp/layer/{{number // 100}}")
    with open(f"/tmp/layer/{{number // 100}}/{{number}}", "wb") as file:
        file.write(random.randbytes(size // count // 2) + bytes(size // count // 2))
with open("{BEATS}", "wb", buffering=0) as file:
    while True:
        file.write(struct.pack("d", time.monotonic()))
        time.sleep(0.001)
"""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}")
    client = docker.APIClient(version="auto", timeout=600)
    print(f"Docker {client.version()['Version']}, {client.info()['Driver']}")
    mark = f"bench{uuid.uuid4().hex[:8]}"
    config = client.create_host_config(binds={f"{mark}-home": {"bind": "/home/work"}})
    container = client.create_container(
        IMAGE, ["python3", "-c", SCRIPT], entrypoint=[], host_config=config,
        environment={"BYTES": str(options.megabytes * 10**6), "FILES": str(options.files)},
    )["Id"]  # fmt: skip
    try:
        client.start(container)
        until_beating(client, container)
        figures = measure(client, container, mark, options.rounds)
    finally:
        client.remove_container(container, force=True, v=True)
        client.remove_volume(f"{mark}-home")
    for name in ("ours", "commit", "pause", "commit_pause"):
        print(f"{name:13}", "  ".join(f"{value:6.3f}" for value in figures[name]))
    found = {name: round(statistics.median(values), 4) for name, values in figures.items()}
    found["ratio"] = round(found["ours"] / found["commit"], 3)
    found["pause_ratio"] = round(found["pause"] / found["commit_pause"], 3)
    print(f"{found['ratio']} of the time, {found['pause_ratio']} of the pause")
    if options.json:
        print(json.dumps(found))


def measure(
    client: docker.APIClient, container: str, mark: str, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each, and seconds that the session stood still; a first round of both is not
    counted."""
    engine = DockerEngine([AgentConfig(AGENT)], mark, "bench")
    reference = f"backendai/{mark}:customized_1"

    def ours() -> str:
        order = CommitOrder(uuid.uuid4().hex, container, reference, {LABEL_IMAGE_HUB: mark})
        asyncio.run(engine.images.make(AGENT, order))
        return reference

    def bare() -> str:
        client.commit(container, repository=mark, tag="1")
        return f"{mark}:1"

    ways: list[tuple[str, str, Callable[[], str]]] = [
        ("ours", "pause", ours), ("commit", "commit_pause", bare),
    ]  # fmt: skip
    figures: dict[str, list[float]] = {name: [] for way in ways for name in way[:2]}
    for number in range(rounds + 1):
        for whole, pause, make in ways if number % 2 else reversed(ways):
            time.sleep(0.5)
            began = time.monotonic()
            image = make()
            ended = time.monotonic()
            time.sleep(0.2)
            if number:
                figures[whole].append(ended - began)
                figures[pause].append(longest_gap(client, container, began, ended))
            client.remove_image(image)
    return figures


def beats(client: docker.APIClient, container: str) -> list[float]:
    """The times that the session has noted."""
    data, _ = client.get_archive(container, BEATS)
    with tarfile.open(fileobj=io.BytesIO(b"".join(data))) as tar:
        file = tar.extractfile("beats")
        assert file is not None
        text = file.read()
    return [value for (value,) in struct.iter_unpack("d", text[: len(text) // 8 * 8])]


def until_beating(client: docker.APIClient, container: str) -> None:
    """Until it has written its layer."""
    while True:
        try:
            if beats(client, container):
                return
        except docker.errors.NotFound:
            time.sleep(0.2)


def longest_gap(client: docker.APIClient, container: str, began: float, ended: float) -> float:
    """How long the session stood still between two moments, in seconds."""
    noted = [at for at in beats(client, container) if began - 1 <= at <= ended + 1]
    return max(later - earlier for earlier, later in zip(noted, noted[1:], strict=False))


if __name__ == "__main__":
    main()
