"""A small image that runs: nothing in it but one program, which counts as long as it may run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import docker

from jupyterhub_backendai.engine.tar import archive

BEAT = "home/work/beat"  # where it counts to, in the home, which is in no image
SOURCE = f"""
#include <fcntl.h>
#include <unistd.h>
int main(void) {{
    long count = 0;
    int file = open("/{BEAT}", O_CREAT | O_WRONLY, 0644);
    for (;;) {{ count++; pwrite(file, &count, sizeof count, 0); usleep(5000); }}
}}
"""


def build_tiny(client: docker.APIClient, name: str, folder: Path) -> str:
    """Makes it, by a C compiler, under that name; its id."""
    source, program = folder / "wait.c", folder / "wait"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-static", "-O1", "-o", str(program), str(source)], check=True)
    repository, _, tag = name.rpartition(":")
    files: list[Any] = [
        (f"{place}/", 0, 0, 0o755, None) for place in ("etc", "opt", "home", "home/work")
    ]
    files += [
        ("wait", 0, 0, 0o755, program.read_bytes()),
        ("etc/passwd", 0, 0, 0o644, b"root:x:0:0::/root:/wait\n"),
        ("etc/group", 0, 0, 0o644, b"users:x:100:\n"),
    ]
    client.import_image_from_data(
        archive(files), repository=repository, tag=tag,
        changes=['CMD ["/wait"]', "ENV BUILT=of-the-image"],
    )  # fmt: skip
    return str(client.inspect_image(name)["Id"])
