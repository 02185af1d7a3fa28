"""Archives as the engine unpacks them in a container that it has created."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable

# Path, uid, gid, mode, content; content None is a directory.
Entry = tuple[str, int, int, int, "bytes | None"]
_END = bytes(2 * tarfile.BLOCKSIZE)


def archive(entries: Iterable[Entry], after: bytes = b"") -> bytes:
    """A tar of these files and directories, which come after the `members` of another."""
    return after + members(entries) + _END


def members(entries: Iterable[Entry]) -> bytes:
    """A tar without its end, so that others can follow."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, uid, gid, mode, content in entries:
            info = tarfile.TarInfo(path)
            info.uid, info.gid, info.mode, info.mtime = uid, gid, mode, int(time.time())
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        end = tar.offset
    return buffer.getvalue()[:end]
