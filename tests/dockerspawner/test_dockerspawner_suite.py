"""Runs DockerSpawner's own tests on our spawner. Nothing of them is kept here: pip fetches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ..archives import unpack
from . import suite

VERSION = "14.0.0"
PASSED = 29
ROOT = Path(__file__).parents[2]
INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = module
asyncio_default_test_loop_scope = module
# The Hub's own, on tests whose helpers DockerSpawner's tests import.
markers = db
    group
    role
    services
    slow
    user
"""

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def theirs(pytestconfig: pytest.Config) -> Path:
    """The folder with DockerSpawner's tests, out of its source distribution."""
    assert pytestconfig.cache is not None
    folder: Path = pytestconfig.cache.mkdir("dockerspawner")
    archive = folder / f"dockerspawner-{VERSION}.tar.gz"
    if not archive.exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--disable-pip-version-check", "--no-binary", ":all:", "--dest", str(folder)),
                f"dockerspawner=={VERSION}",
            ],
            check=True,
        )
    unpack(archive, folder)
    return folder / f"dockerspawner-{VERSION}" / "tests"


def test_all_their_modules_are_run_or_named(theirs: Path) -> None:
    assert {path.name for path in theirs.glob("test_*.py")} == {
        "test_dockerspawner.py",
        "test_deprecations.py",
        *suite.OTHER_CLASSES,
    }


@pytest.mark.timeout(600)
def test_their_tests_pass_on_our_spawner(theirs: Path, tmp_path: Path) -> None:
    ini, outcomes = tmp_path / "pytest.ini", tmp_path / "outcomes.json"
    ini.write_text(INI)
    modules = [p for p in sorted(theirs.glob("test_*.py")) if p.name not in suite.OTHER_CLASSES]
    programs = Path(sys.executable).parent  # the Hub finds its proxy beside itself
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", str(ini), "--rootdir", str(theirs), "-ra"),
            *("-p", "no:cacheprovider", "-p", suite.__name__, "--outcomes", str(outcomes)),
            *map(str, modules),
        ],
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTEST_ADDOPTS": "",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(outcomes.read_text())
    assert {name for name, outcome in found.items() if outcome == "left out"} == {*suite.LEFT_OUT}
    assert Counter(found.values()) == {"passed": PASSED, "left out": len(suite.LEFT_OUT)}
