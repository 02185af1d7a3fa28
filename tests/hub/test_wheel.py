"""The wheel: built, installed into an empty environment, and a session launched from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Hub, running, wait_for
from .visitor import sign_in

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
FACTS = """\
import importlib.metadata, pathlib
import jupyterhub_backendai
from jupyterhub_backendai._data import data_paths
(spawner,) = importlib.metadata.entry_points(group="jupyterhub.spawners", name="backendai")
print(pathlib.Path(jupyterhub_backendai.__file__).parent)
print(*data_paths(), sep="\\n")
print(spawner.load().__name__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; its errors are in the failure. No checkout is on its path."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, *PIP, "wheel", "--no-deps", "-w", directory, ROOT, cwd=directory)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with nothing in it but the wheel and what the wheel asks for.

    Nothing is borrowed from the environment of the tests but the versions: only so does a
    dependency that the wheel forgets show.
    """
    directory = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", directory / "venv", cwd=directory)
    frozen = run(sys.executable, *PIP, "freeze", "--exclude-editable", cwd=directory)
    (directory / "versions").write_text(
        "".join(f"{line}\n" for line in frozen.splitlines() if "==" in line)
    )
    python = directory / "venv" / "bin" / "python"
    run(python, *PIP, "install", "--no-compile", "-c", directory / "versions", wheel, cwd=directory)
    return python


@pytest.fixture(scope="module")
def hub(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub of that environment; only its proxy comes from elsewhere."""
    directory = tmp_path_factory.mktemp("hub")
    path = os.pathsep.join(
        [str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    with running(
        directory,
        settings={"BackendAI": {"folder_root": str(directory / "folders")}},
        command=[str(python), "-m", "jupyterhub"],
        environment={"PATH": path, "PYTHONPATH": ""},
    ) as started:
        yield started


def test_everything_is_in_the_wheel(wheel: Path) -> None:
    """Each file of the checkout that is not Python code is in it, and so is all of the code."""
    name = "jupyterhub_backendai"
    tracked = run("git", "ls-files", name, "templates", "share/static", cwd=ROOT).splitlines()
    expected = set()
    for path in tracked:
        for source, data in (("templates", "templates"), ("share/static", "static")):
            if path.startswith(f"{source}/"):
                path = f"share/{name}/{data}{path.removeprefix(source)}"
        expected.add(path)
    with zipfile.ZipFile(wheel) as archive:
        found = {path.rpartition(".data/data/")[2] for path in archive.namelist()}
    assert f"{name}/py.typed" in found  # it says "Typed" of itself
    assert {path for path in expected if (ROOT / path).exists()} <= found
    assert expected - found <= {path for path in tracked if not (ROOT / path).exists()}
    assert not [path for path in found if path.startswith(("tests/", "examples/", "docs/"))]


def test_what_is_installed_is_what_is_found(python: Path, tmp_path: Path) -> None:
    package, templates, static, spawner = run(python, "-c", FACTS, cwd=tmp_path).splitlines()
    prefix = python.parents[1]
    for path in (package, templates, static):
        assert Path(path).is_relative_to(prefix), path
    assert (Path(templates) / "backendai" / "options_form.html").is_file()
    assert (Path(static) / "backendai" / "launcher.css").is_file()
    assert (Path(package) / "store" / "migrations" / "env.py").is_file()
    assert (Path(package) / "singleuser" / "imports").is_dir()
    assert spawner == "DockerSessionSpawner"


def test_a_session_of_the_installed_wheel(hub: Hub) -> None:
    user = hub.add_user("alice")
    page = sign_in(hub.url, user).get(f"{hub.url}/hub/spawn", timeout=30)
    assert page.status_code == 200
    assert 'id="backendai-view"' in page.text
    assert hub.launch(user, {"mounts": [{"folder": "data", "create": True}]}).ok
    hub.until_ready(user)
    (session,) = hub.sessions(user)
    support = hub.run_inside(session["id"], "ls", "/opt/backendai/import", "/home/work")
    assert "rfc3987_syntax" in support
    assert "data" in support.split()
    hub.delete(user)
    wait_for("it to be over", lambda: not hub.containers() and not hub.held())
