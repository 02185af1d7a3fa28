"""The docs: what they claim is in the code, what they show runs, and what they link to is there."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from jupyterhub_backendai import configuration_registry, setup
from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.engine.base import ImageFacts
from jupyterhub_backendai.engine.settings import SessionFacts, SiteSettings, container_settings
from jupyterhub_backendai.model.catalog import Catalog, Environment
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, resolve
from jupyterhub_backendai.model.spec import SessionSpec, read_spec
from jupyterhub_backendai.service.table import CALLS
from jupyterhub_backendai.site import reach
from jupyterhub_backendai.site.form_rules import LINK_FIELDS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md"] + sorted(
    path
    for path in DOCS.rglob("*.md")
    if not {"_build", "generated"} & set(path.relative_to(DOCS).parts)
)
PAGES = [path for path in FILES if DOCS in path.parents]
CODE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text(page: str) -> str:
    return (DOCS / page).read_text()


def blocks(path: Path, language: str) -> Iterator[str]:
    for found, code in CODE.findall(path.read_text()):
        if found == language:
            yield code


CONFIGURATIONS = [
    pytest.param(code, id=f"{name(path)}-{number}")
    for path in FILES
    for number, code in enumerate(blocks(path, "python"))
    if "c." in code and "open(" not in code
]


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """A configuration as a Hub's file finds it; no Docker is asked for an address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JupyterHub, "_instance", None)
    monkeypatch.setattr(reach, "hub_address", lambda c: {"hub_ip": "172.17.0.1"})
    monkeypatch.setattr(configuration_registry, "password_problem", lambda path: None)
    return Config()


@pytest.mark.parametrize("code", CONFIGURATIONS)
def test_a_configuration_in_the_docs_is_valid(code: str, c: Config) -> None:
    exec(compile(code, "docs", "exec"), {"c": c})
    read_configuration(c)


def test_the_long_form_is_what_setup_does(c: Config) -> None:
    page = text("how-to/install-on-your-hub.md")
    found = re.search(r"<!-- long-form -->\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    c.BackendAI.service = False
    long = Config()
    exec(compile(found[1], "long form", "exec"), {"c": long})
    setup(c)
    assert long.JupyterHub == c.JupyterHub


@pytest.mark.parametrize("path", FILES, ids=name)
def test_json_is_json(path: Path) -> None:
    for code in blocks(path, "json"):
        json.loads(code)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        if re.match(r"https?:|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert file.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(file), link


def anchors(path: Path) -> set[str]:
    """Headings as GitHub and the docs' build turn them into anchors."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_page_is_in_the_contents() -> None:
    contents = "\n".join(re.findall(r"^```{toctree}\n(.*?)^```", text("index.md"), re.M | re.S))
    entries = [line for line in contents.splitlines() if line and not line.startswith(":")]
    for page in PAGES:
        own = page.relative_to(DOCS).with_suffix("")
        assert str(own) == "index" or any(own.match(entry) for entry in entries), own


@pytest.mark.parametrize("path", [p for p in FILES if "```" in p.read_text()], ids=name)
def test_code_has_a_language(path: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", path.read_text(), re.MULTILINE)
    assert all(fences[::2]), path


# ---- the reference -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_reference", DOCS / "generate_reference.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_trait_is_in_the_reference(reference: Any) -> None:
    page = reference.configuration()
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert set(headings) - {"Amounts"} == set(BackendAI.class_trait_names(config=True)) - {"log"}
    assert len(headings) == len(set(headings))


def test_examples_in_the_reference_are_code(reference: Any) -> None:
    page = reference.configuration()
    assert "::" not in page
    for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        compile(code, "reference", "exec")


def test_every_status_and_what_is_put_right_are_in_the_reference(reference: Any) -> None:
    for status in reference.Status:
        assert f"| `{status.value}` |" in reference.statuses()
    assert reference.reconciling().count("\n") >= 7
    for member in (*reference.Phase, *reference.Result, *reference.Step):
        assert f"| `{member.value}` |" in reference.history()


def test_every_call_is_in_the_reference(reference: Any) -> None:
    table = reference.calls()
    for call in CALLS:
        assert f"| `{call.method} {call.path}` |" in table
    page = text("reference/rest-api.md")
    for status in {status for call in CALLS for status in call.all_errors}:
        assert f"| {status} |" in page, status


def test_every_key_of_a_request_is_explained() -> None:
    keys = re.findall(r"^\| `(\w+)` \|", text("reference/session-spec.md"), re.MULTILINE)
    assert keys == list(SessionSpec.model_fields)


def test_examples_of_a_request_are_as_its_schema_says() -> None:
    validator = Draft202012Validator(SessionSpec.model_json_schema())
    examples = [json.loads(code) for code in blocks(DOCS / "reference/session-spec.md", "json")]
    requests = [example for example in examples if "errors" not in example]
    assert requests
    for request in requests:
        validator.validate(request)
        assert read_spec(request)[1] == []


def test_links_may_carry_what_the_reference_says() -> None:
    page = text("reference/session-spec.md")
    said = page.split("may carry", 1)[1].split("It fills", 1)[0]
    assert set(re.findall(r"`(\w+)`", said)) == LINK_FIELDS


def test_every_variable_and_label_is_explained() -> None:
    context = Context(
        user="ada",
        groups=frozenset(),
        admin=False,
        catalog=Catalog(environments=(Environment(name="python", image="python:3"),)),  # type: ignore[call-arg]
        policies=Policies(),
    )
    facts = SessionFacts("id", "name", "ada", "local", resolve({}, context), cores=(1,))
    settings = container_settings(facts, ImageFacts("sha256:1", (), {}), SiteSettings("hub"))
    page = text("reference/inside-a-session.md")
    for name in (*settings.environment, *settings.labels):
        assert f"`{name}`" in page, name


# ---- the build -----------------------------------------------------------------------------------


def test_the_docs_build_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [sys.executable, *command, str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "c.BackendAI.queue_timeout" in (tmp_path / "html/reference/configuration.html").read_text()
    )
