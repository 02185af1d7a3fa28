"""What `docker save` writes of an image, looked through to the bytes of the files in its layers."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 22


def found_in(tar: Path, values: Sequence[str]) -> set[str]:
    """Those of `values` that are anywhere in the archive: in a name, in settings, in a layer, be it
    packed or not."""
    left = {value: value.encode() for value in values}
    overlap = max(map(len, left.values()))
    found: set[str] = set()
    with tarfile.open(tar) as archive:
        for file in _files(archive):
            before = b""
            while chunk := file.read(CHUNK):
                found |= {value for value, raw in left.items() if raw in before + chunk}
                before = chunk[-overlap:]
    return found


def _files(archive: tarfile.TarFile) -> Iterator[IO[bytes]]:
    for member in archive:
        file = archive.extractfile(member)
        if file is None:
            continue
        begins = file.read(4)
        file.seek(0)
        # Nothing is found in what is packed: whoever saves such images is to unpack them here.
        assert not begins.startswith(ZSTD), f"{member.name} is packed with zstd"
        yield gzip.GzipFile(fileobj=file) if begins.startswith(GZIP) else file
