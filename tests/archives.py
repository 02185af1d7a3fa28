"""Archives, unpacked as safely as this Python can."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

# Python before 3.11.4, as Debian 12 has it, has no filters of archives.
_SAFELY: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, which is made."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **_SAFELY)
