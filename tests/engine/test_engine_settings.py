"""Container settings: golden files, and what holds whatever a user asks for."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import Any

import pytest
from golden_cases import CASES, CONTEXT, GOLDEN, IMAGE, SITE, WITH_FOLDERS, session, text
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.engine.base import ImageFacts
from jupyterhub_backendai.engine.settings import (
    HOME,
    IMPORT_DIR,
    MAX_PART,
    SessionFacts,
    container_settings,
    folder_path,
    path_part,
)
from jupyterhub_backendai.model import rules
from jupyterhub_backendai.model.resolve import MountPoint


@pytest.mark.parametrize("name", CASES)
def test_settings_are_the_golden_ones(name: str) -> None:
    kept = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert text(CASES[name]) == kept, "see tests/engine/golden_cases.py"


def test_each_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CASES)


# ---- variables -----------------------------------------------------------------------------------


env_values = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
env_names = st.sampled_from(
    ["HOME", "USER", "home", "JUPYTERHUB_API_TOKEN", "BACKENDAI_SESSION_ID", "LD_PRELOAD",
     "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "LOCAL_USER_ID", "JUPYTER_RUNTIME_DIR",
     "PYTHONPATH", "PATH", "OMP_NUM_THREADS", "NPROC", "MY_VAR", "__x"]
) | st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)  # fmt: skip


def with_env(env: dict[str, str]) -> SessionFacts:
    """A session whose request came from a time when every name was allowed."""
    facts = session({})
    return replace(facts, request=facts.request.model_copy(update={"env": env}))


@given(st.dictionaries(env_names, env_values, max_size=8))
def test_a_user_never_overrides_what_is_reserved(env: dict[str, str]) -> None:
    plain = container_settings(session({}), IMAGE, SITE).environment
    found = container_settings(with_env(env), IMAGE, SITE).environment
    for name in {*env, *plain}:
        if rules.is_reserved_env(name):
            assert found.get(name) == plain.get(name)
        elif name == "PYTHONPATH":
            assert found[name].split(":", 1)[0] == IMPORT_DIR
            assert found[name].removeprefix(IMPORT_DIR).removeprefix(":") == env.get(name, "")
        else:
            assert found[name] == env.get(name, plain.get(name))


def test_what_is_ours_is_reserved_or_may_be_set() -> None:
    plain = container_settings(session({}), IMAGE, SITE).environment
    free = {name for name in plain if not rules.is_reserved_env(name)}
    assert free == {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC", "PYTHONPATH"}


@pytest.mark.parametrize(
    ("users", "images", "found"),
    [
        (None, {}, IMPORT_DIR),
        (None, {"PYTHONPATH": "/img"}, f"{IMPORT_DIR}:/img"),
        ("/mine", {"PYTHONPATH": "/img"}, f"{IMPORT_DIR}:/mine"),
        ("", {"PYTHONPATH": "/img"}, IMPORT_DIR),
    ],
)
def test_the_path_of_imports(users: str | None, images: dict[str, str], found: str) -> None:
    options: dict[str, Any] = {} if users is None else {"env": {"PYTHONPATH": users}}
    image = ImageFacts("x", (), images)
    assert container_settings(session(options), image, SITE).environment["PYTHONPATH"] == found


# ---- folders -------------------------------------------------------------------------------------

anybody = st.text(max_size=40) | st.sampled_from(["", ".", "..", "/", "a/b", "../..", "a\x00", "~"])


@given(anybody, anybody)
def test_a_name_is_one_step_of_a_path_and_no_two_share_one(one: str, other: str) -> None:
    part = path_part(one)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", part)
    assert part not in {".", ".."}
    assert len(part) <= MAX_PART
    assert (part == path_part(other)) == (one == other)


def test_names_that_are_easily_confused() -> None:
    names = [
        "", ".", "..", "a", "A", "a.b", "a/b", "a.2eb", ".2e", "._", "é", "e\u0301", "a b", "a+b",
        "a" * 200, "a" * 201, "a" * 202, "ü" * 34, "ü" * 35, "ü" * 300, "ü" * 301, "\ud800",
    ]  # fmt: skip
    parts = [path_part(name) for name in names]
    assert len(set(parts)) == len(parts)
    assert all(len(part) <= MAX_PART for part in parts)


folder_names = st.from_regex(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)


@given(anybody, st.none() | anybody, folder_names)
def test_a_folder_is_below_the_root_and_its_owners(
    owner: str, project: str | None, folder: str
) -> None:
    path = folder_path("/srv/folders", owner, project, folder)
    assert posixpath.normpath(path) == path
    kind, whose = ("users", owner) if project is None else ("projects", project)
    assert path.split("/") == ["", "srv", "folders", kind, path_part(whose), folder]


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "group/.", "x/", "a\x00b"])
def test_a_folders_name_leads_nowhere_else(name: str) -> None:
    with pytest.raises(ValueError, match="no folder's name"):
        folder_path("/srv/folders", "alice", None, name)


@given(anybody, st.none() | anybody, folder_names, st.sampled_from(["ro", "rw"]))
def test_mounts_never_point_outside_the_root(
    owner: str, project: str | None, folder: str, permission: str
) -> None:
    name = folder if project is None else f"{project}/{folder}"
    place = MountPoint(folder=name, project=project, target="/data", permission=permission)
    facts = session({}, owner=owner)
    request = facts.request.model_copy(update={"mounts": (place,)})
    scratch, bind = container_settings(replace(facts, request=request), IMAGE, SITE).mounts
    assert (scratch["Type"], scratch["Target"]) == ("volume", HOME)
    assert bind["Type"] == "bind"
    assert bind["Source"].startswith("/srv/folders/")
    assert ".." not in bind["Source"].split("/")
    assert bind["ReadOnly"] == (permission == "ro")
    assert bind["BindOptions"] == {"Propagation": "rprivate"}


def test_a_folder_inside_another_comes_after_it() -> None:
    mounts = [
        {"folder": "lab/shared", "path": "/x/y"},
        {"folder": "data", "path": "b"},
        {"folder": "papers", "path": "a"},
    ]
    found = container_settings(session({"mounts": mounts}, WITH_FOLDERS), IMAGE, SITE).mounts
    targets = [mount["Target"] for mount in found]
    assert targets[0] == HOME
    assert targets[1:] == sorted(targets[1:])


# ---- the rest ------------------------------------------------------------------------------------


@given(anybody, st.sampled_from(["main1", "sub2"]))
def test_labels_are_always_there(owner: str, kernel: str) -> None:
    found = container_settings(session({}, owner=owner, kernel=kernel), IMAGE, SITE)
    labels = {
        "backendai.hub": "hub1",
        "backendai.session": "0123456789abcdef0123456789abcdef",
        "backendai.user": owner,
    }
    own = {"backendai.kernel": kernel, "backendai.cores": ""}  # none is left to the image
    assert found.labels == {**labels, **own}
    assert found.mounts[0]["VolumeOptions"]["Labels"] == labels
    assert found.mounts[0]["Source"] == found.scratch_volume
    assert "hub1" in found.scratch_volume


@given(st.integers(10, 512_000), st.integers(64 * 2**20, 2**45))
def test_limits_are_what_was_granted(cpu: int, mem: int) -> None:
    facts = session({})
    request = facts.request.model_copy(update={"cpu": cpu, "mem": mem, "shm": mem // 2})
    found = container_settings(replace(facts, request=request), IMAGE, SITE)
    assert found.cpu_quota * 1000 == cpu * found.cpu_period
    assert found.memory == found.memory_swap == mem
    assert found.shm == mem // 2
    assert found.cpuset == ""
    assert int(found.environment["NPROC"]) == -(-cpu // 1000)


def test_the_same_session_has_the_same_settings() -> None:
    for case in CASES.values():
        assert case.settings == case.settings


def test_the_users_id_is_stable_and_of_this_hub() -> None:
    def user_id(owner: str, hub: str) -> str:
        site = replace(SITE, hub_id=hub)
        return container_settings(session({}, owner=owner), IMAGE, site).environment[
            "BACKENDAI_USER_UUID"
        ]

    assert user_id("alice", "hub1") == user_id("alice", "hub1")
    assert len({user_id("alice", "hub1"), user_id("bob", "hub1"), user_id("alice", "hub2")}) == 3


def test_nothing_of_a_request_is_a_template() -> None:
    braces = "{username} {} {0.__class__} {{x}} %s $(id) `id`"
    facts = session({"env": {"A": braces}}, CONTEXT, owner=braces, name=braces)
    found = container_settings(facts, IMAGE, SITE)
    assert found.environment["A"] == braces
    assert found.environment["BACKENDAI_USER_NAME"] == braces
    assert found.labels["backendai.user"] == braces
