"""Has an image downloaded and tells how far it is."""

from __future__ import annotations

from ..engine.docker import DockerHost
from ..model.slots import format_bytes
from .story import Story


async def pull_with_progress(host: DockerHost, image: str, story: Story) -> None:
    """Until `image` is on `host`. Raises `ImageMissing` when it cannot be had."""

    def tell(done: int, whole: int) -> None:
        text = f"{format_bytes(done)} of {format_bytes(whole)}"
        story.tell("image", "Downloading the image", text)

    story.tell("image", "Downloading the image", image)
    await host.downloads.wait(image, tell)
