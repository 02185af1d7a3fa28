"""Pulls an image and tells how far it is."""

from __future__ import annotations

import asyncio
from typing import Any

from docker.errors import APIError

from ..engine.base import ImageMissing
from ..engine.docker import DockerHost
from ..model.slots import format_bytes
from .story import Story

TELL_EVERY = 1.0  # seconds between two notes on the same download


async def pull_with_progress(host: DockerHost, image: str, story: Story) -> None:
    """Pulls `image` on `host`. Raises `ImageMissing` when it cannot be had."""
    loop = asyncio.get_running_loop()
    repository, _, tag = image.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image, "latest"
    if "@" in image:
        repository, tag = image, ""
    story.tell("image", "Downloading the image", image)
    layers: dict[str, tuple[int, int]] = {}
    last = loop.time()

    def note(line: dict[str, Any]) -> None:
        nonlocal last
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            layers[line["id"]] = (detail.get("current", 0), detail["total"])
        elif line.get("status") == "Download complete" and line.get("id") in layers:
            layers[line["id"]] = (layers[line["id"]][1],) * 2
        if layers and loop.time() - last > TELL_EVERY:
            last = loop.time()
            done = sum(current for current, _ in layers.values())
            whole = sum(total for _, total in layers.values())
            text = f"{format_bytes(done)} of {format_bytes(whole)}"
            story.tell("image", "Downloading the image", text)

    def run(client: Any) -> None:
        for line in client.pull(repository, tag=tag or None, stream=True, decode=True):
            if "error" in line:
                raise ImageMissing(str(line["error"])[:300])
            loop.call_soon_threadsafe(note, line)

    try:
        await host.call(run)
    except APIError as error:
        raise ImageMissing(f"{image} cannot be pulled on {host.name}: {error}") from error
