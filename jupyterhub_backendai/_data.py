"""Where the templates and static files are: installed as data, or in a source checkout."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_SHARE = Path("share") / "jupyterhub_backendai"


def _candidates() -> Iterator[tuple[Path, Path]]:
    here = Path(__file__).resolve().parent
    # A source checkout (also one installed in editable mode) has them beside the package.
    yield here.parent / "templates", here.parent / "share" / "static"
    # An installed wheel has them below its prefix, wherever pip put the package.
    roots = [Path(sysconfig.get_path("data")), Path(sys.prefix), *here.parents]
    for root in roots:
        yield root / _SHARE / "templates", root / _SHARE / "static"


def data_paths() -> tuple[str, str]:
    """The directories of templates and of static files. Raises FileNotFoundError."""
    for templates, static in _candidates():
        if (templates / "backendai").is_dir() and static.is_dir():
            return str(templates), str(static)
    raise FileNotFoundError(
        "the templates of jupyterhub_backendai are not installed; install its wheel with pip"
    )
