"""The wheel: built, installed into an empty environment, and a session launched from there."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .harness import Hub, running, wait_for
from .visitor import sign_in

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
NAME = "jupyterhub-backendai"
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

    The packages are those of the tests' environment, which pip would only copy, but no more of
    them than were asked for: only so does a dependency that the wheel forgets show.
    """
    prefix = tmp_path_factory.mktemp("empty") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", prefix, cwd=prefix.parent)
    python = prefix / "bin" / "python"
    pip = [sys.executable, *PIP[:2], "--python", python, *PIP[2:]]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=prefix.parent)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", code, cwd=prefix).strip())
    (own,) = importlib.metadata.distributions(name=NAME, path=[str(site)])
    for distribution in asked_for(own):
        link(distribution, site, prefix)
    run(*pip, "check", cwd=prefix)
    return python


def asked_for(first: Distribution) -> list[Distribution]:
    """What a distribution needs, and what that needs, and so on, from the tests' environment."""
    found: dict[str, Distribution] = {}
    seen, waiting = set(), [(first, "")]
    while waiting:
        of, extra = waiting.pop()
        for requirement in map(Requirement, of.requires or ()):
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            found[name] = importlib.metadata.distribution(name)
            for wanted in {(name, each) for each in ("", *requirement.extras)} - seen:
                seen.add(wanted)
                waiting.append((found[name], wanted[1]))
    return list(found.values())


def link(distribution: Distribution, site: Path, prefix: Path) -> None:
    """Its modules and its data files; scripts would start the Python that they came with."""
    for file in distribution.files or ():
        there = Path(distribution.locate_file(file)).resolve()
        if file.parts[0] != "..":
            here, there = site / file.parts[0], Path(distribution.locate_file(file.parts[0]))
        elif "share" in file.parts:
            here = prefix.joinpath(*file.parts[file.parts.index("share") :])
        else:
            continue
        if file.parts[0] != "__pycache__" and not here.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(there)


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
    folders = (name, "templates", "share/static", "share/jupyter-config")
    tracked = run("git", "ls-files", *folders, cwd=ROOT).splitlines()
    expected = set()
    for path in tracked:
        for source, data in (
            ("templates", f"share/{name}/templates"),
            ("share/static", f"share/{name}/static"),
            ("share/jupyter-config", "etc/jupyter/jupyter_server_config.d"),
        ):
            if path.startswith(f"{source}/"):
                path = data + path.removeprefix(source)
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
