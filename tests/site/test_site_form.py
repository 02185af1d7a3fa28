"""From form fields and links to a spec: every field, nothing that was not touched, no judgement."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.spec import read_spec
from jupyterhub_backendai.site.form import (
    form_from_link,
    quick_start,
    spec_from_form,
    start_again,
)
from jupyterhub_backendai.site.form_rules import LINK_FIELDS

UNTOUCHED = {
    "type": ["interactive"], "name": [""], "project": [""], "environment": ["pytorch"],
    "version.pytorch": ["2.9"], "version.python": ["3.11"], "image": [""], "resource_group": [""],
    "agent": [""], "preset": [""], "cpu": [""], "mem": [""], "shm": [""], "fgpu": [""], "gpu": [""],
    "mig": [""], "mig_profile": [""],
    "omp": [""], "openblas": [""], "ports": [""], "env_name": ["", ""], "env_value": ["", ""],
    "new_folder": [""], "mount_path.data": [""], "mount_permission.data": ["rw"],
}  # fmt: skip


def test_every_field_of_the_form() -> None:
    form = {
        **UNTOUCHED,
        "name": [" train1 "],
        "project": ["vision"],
        "resource_group": ["lab"],
        "agent": ["gpu-1"],
        "preset": ["small"],
        "cpu": ["2"],
        "mem": ["4"],
        "shm": ["512m"],
        "fgpu": ["0.5"],
        "omp": ["1"],
        "openblas": ["2"],
        "ports": ["8080, 9000:9002"],
        "env_name": ["A", "", "B "],
        "env_value": ["1", "", " two "],
        "mount": ["data", "models"],
        "mount_path.data": ["in"],
        "mount_permission.data": ["ro"],
        "new_folder": ["results", ""],
        "mount_path.results": ["out"],
    }
    assert spec_from_form(form) == {
        "name": "train1",
        "type": "interactive",
        "project": "vision",
        "environment": "pytorch",
        "version": "2.9",
        "resource_group": "lab",
        "agent": "gpu-1",
        "preset": "small",
        "resources": {"cpu": "2", "mem": "4g", "shm": "512m", "fgpu": "0.5"},
        "threads": {"omp": "1", "openblas": "2"},
        "preopen_ports": "8080, 9000:9002",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": " two "}],
        "mounts": [
            {"folder": "data", "path": "in", "permission": "ro"},
            {"folder": "models"},
            {"folder": "results", "path": "out", "create": True},
        ],
    }


def test_what_is_untouched_is_left_out() -> None:
    assert spec_from_form({}) == {}
    assert spec_from_form(UNTOUCHED) == {
        "type": "interactive",
        "environment": "pytorch",
        "version": "2.9",
    }


def test_an_image_by_hand_takes_the_place_of_an_environment() -> None:
    found = spec_from_form({**UNTOUCHED, "image": ["my/image:1"]})
    assert found == {"type": "interactive", "image": "my/image:1"}


def test_the_version_is_the_one_of_the_chosen_environment() -> None:
    form = {"environment": ["python"], "version.pytorch": ["2.9"], "version.python": ["3.11"]}
    assert spec_from_form(form)["version"] == "3.11"
    assert spec_from_form({"environment": ["r"], "version": ["4"]})["version"] == "4"
    assert "version" not in spec_from_form({"environment": ["r"], "version.pytorch": ["2.9"]})


@pytest.mark.parametrize(
    ("typed", "size"),
    [("4", "4g"), ("0.5", "0.5g"), (".5", ".5g"), ("4g", "4g"), ("512m", "512m"), ("x", "x"),
     ("-1", "-1"), ("1e3", "1e3")],
)  # fmt: skip
def test_a_plain_number_of_the_form_is_gigabytes(typed: str, size: str) -> None:
    assert spec_from_form({"mem": [typed], "shm": [typed]})["resources"] == {
        "mem": size,
        "shm": size,
    }


def test_rows_of_variables_keep_together() -> None:
    form = {"env_name": ["A", "", "A"], "env_value": ["1", "2"]}
    assert spec_from_form(form)["env"] == [
        {"name": "A", "value": "1"},
        {"name": "", "value": "2"},
        {"name": "A", "value": ""},
    ]


names = st.sampled_from([*UNTOUCHED, "mount", "version", "mount_path.x", "quick"]) | st.text()
values = st.lists(st.text() | st.sampled_from([b"x", None, {"filename": "x", "body": b""}, 5]))


@given(st.dictionaries(names, values))
def test_whatever_a_form_brings_becomes_something_to_judge(form: dict[str, list[Any]]) -> None:
    spec = spec_from_form(form)
    read_spec(spec)
    assert all(value for value in spec.values())


LINK = {
    "name": ["train1"], "environment": ["pytorch"], "version.pytorch": ["2.9"], "version": ["2"],
    "resource_group": ["lab"], "preset": ["small"], "cpu": ["2"], "mem": ["4"], "shm": ["1"],
    "fgpu": ["1"], "gpu": ["1"], "mig": ["1"], "mig_profile": ["1g.10gb"],
    "project": ["vision"], "ports": ["8080"], "mount": ["data"],
    "mount_path.data": ["in"],
}  # fmt: skip


def test_what_a_link_may_propose() -> None:
    assert form_from_link(LINK) == LINK
    assert {name.partition(".")[0] for name in LINK} == LINK_FIELDS | {"mount_path"}
    spec = spec_from_form(form_from_link(LINK))
    assert set(spec) == {
        "name", "environment", "version", "resource_group", "preset", "resources", "project",
        "preopen_ports", "mounts",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["env_name", "env_value", "env", "image", "new_folder", "type", "quick", "agent", "owner",
     "count", "omp", "openblas", "mount_permission.data", "batch", "command", "_xsrf", "next",
     "mounts", "Name", "", "cpu.x"],
)  # fmt: skip
def test_what_a_link_cannot_carry(name: str) -> None:
    with pytest.raises(KeyError) as caught:
        form_from_link({**LINK, name: ["x"]})
    assert caught.value.args == (name,)


@given(st.dictionaries(names, st.lists(st.text())))
def test_no_link_makes_a_folder_or_sets_a_variable(query: dict[str, list[str]]) -> None:
    try:
        spec = spec_from_form(form_from_link(query))
    except KeyError:
        return
    assert not {"env", "image", "type", "agent", "threads"} & set(spec)
    for mount in spec.get("mounts", []):
        assert not mount.get("create")
        assert "permission" not in mount


def test_a_quick_start_is_what_its_button_says_and_a_folder() -> None:
    """Whatever stands in the fields of the form, which the last options have filled."""
    new = {"folder": "keep", "create": True}
    form = {**UNTOUCHED, "env_name": ["A"], "quick_folder": ["keep"]}
    stored = {"name": "a", "preset": "small", "env": {"B": "1"}, "mounts": [{"folder": "data"}]}
    kept = copy.deepcopy(stored)
    assert quick_start({**form, "quick": ["default"]}, stored) == {"mounts": [new]}
    assert quick_start({**form, "quick": ["last"]}, stored) == {
        "preset": "small", "env": {"B": "1"}, "mounts": [{"folder": "data"}, new],
    }  # fmt: skip
    assert stored == kept
    assert quick_start({"quick": ["last"], "quick_folder": [""]}, {"cpu": 1}) == {"cpu": 1}
    assert quick_start({"quick": ["last"], "quick_folder": ["x"]}, {"mounts": "no"}) == {
        "mounts": [{"folder": "x", "create": True}]
    }
    assert quick_start({"quick": ["default"]}, stored) == {}
    assert quick_start(form, stored) is None
    assert quick_start({**form, "quick": ["other"]}, stored) is None


def test_another_start_has_another_name() -> None:
    assert start_again({"name": "a", "preset": "small"}) == {"preset": "small"}
    for nothing in (None, [], "x", {}):
        assert start_again(nothing) == {}
