"""Images that users make: their names, and that nobody but their owner can name one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_samples import CATALOG, TORCH_28, context, granted, places

from jupyterhub_backendai.model.errors import Problem
from jupyterhub_backendai.model.images import (
    COMMIT_TRANSITIONS,
    CommitStatus,
    CustomImage,
    ImageStatus,
    check_image_name,
    is_customized,
    reference_of,
    room_left,
    with_images,
)
from jupyterhub_backendai.model.policy import Policies, Policy
from jupyterhub_backendai.model.request import Context
from jupyterhub_backendai.model.rules import check_image

ID = "0123456789abcdef" * 2
IMAGE = CustomImage(
    id=ID, owner="ana", name="mine", reference=reference_of(TORCH_28, ID), environment="pytorch",
    version="2.8", base=TORCH_28, base_id="sha256:1", engine_id="sha256:2", agent="deep",
    digest=None, size=10, own=1, status=ImageStatus.READY, reason="",
    made_at=datetime(2026, 12, 1, tzinfo=timezone.utc), used_at=None,
)  # fmt: skip
BY_HAND = Policies(default=Policy(manual_image=True))


def own(*images: CustomImage, **more: Any) -> Context:
    return context(catalog=with_images(CATALOG, images), images=images, **more)


@pytest.mark.parametrize("name", ["abcd", "A_b-9", "x" * 32, "----", "1234"])
def test_names(name: str) -> None:
    assert check_image_name(name) == name


@pytest.mark.parametrize("name", ["", "abc", "x" * 33, "a.bc", "a bc", "abcd\n", "äbcd", "a/bc"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(Problem) as error:
        check_image_name(name)
    assert error.value.code == "bad_name"


@given(
    st.from_regex(r"([a-z0-9]{1,9}(\.[a-z]{1,5})?(:[0-9]{2,4})?/)?[a-z0-9]{1,200}(:[\w.]{1,9})?",
                  fullmatch=True),
    st.sampled_from(["", "registry.example.org/own", "127.0.0.1:5000"]),
)  # fmt: skip
def test_every_full_name_is_one_that_an_engine_takes(base: str, prefix: str) -> None:
    reference = reference_of(base, ID, prefix)
    assert check_image(reference) == reference
    assert reference.startswith(f"{prefix or 'backendai'}/")
    assert is_customized(reference)
    assert is_customized(f"{reference}@sha256:{'a' * 64}")


@pytest.mark.parametrize("image", [TORCH_28, "a/customized_x", f"a:customized_{ID}x", "a:2.9"])
def test_other_images_are_not_taken_for_one(image: str) -> None:
    assert not is_customized(image)


def test_it_is_chosen_under_its_environment() -> None:
    found = granted({"environment": "pytorch", "version": "Customizedmine"}, own(IMAGE))
    assert (found.image, found.agent, found.version) == (IMAGE.reference, "deep", "Customizedmine")
    assert found.resource_group == "default"
    assert granted({"image": IMAGE.reference}, own(IMAGE)) == found
    everywhere = replace(IMAGE, agent=None)
    assert granted({"image": IMAGE.reference}, own(everywhere)).agent is None


def test_the_default_stays_what_it_was() -> None:
    assert granted({"environment": "pytorch"}, own(IMAGE)).version == "2.9"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"agent": "wide"}, ("agent", "not_there")),
        ({"resource_group": "lab"}, ("resource_group", "not_there")),
    ],
)
def test_it_runs_where_it_is(options: dict[str, object], error: tuple[str, str]) -> None:
    asked = {"image": IMAGE.reference, **options}
    assert places(asked, own(IMAGE)) == [error]


def test_one_whose_agent_is_gone_says_so() -> None:
    asked = {"image": IMAGE.reference}
    gone = replace(IMAGE, agent="gone")
    assert places(asked, own(gone)) == [("image", "no_agent")]


@pytest.mark.parametrize("policies", [Policies(), BY_HAND], ids=["by choice", "by hand"])
@pytest.mark.parametrize("suffix", ["", f"@sha256:{'a' * 64}"])
def test_nobody_names_what_is_not_theirs(policies: Policies, suffix: str) -> None:
    for reference in (IMAGE.reference, reference_of("other", "f" * 32)):
        asked = {"image": reference + suffix}
        assert places(asked, own(policies=policies)) == [("image", "unknown")]
    asked = {"environment": "pytorch", "version": "Customizedmine"}
    assert places(asked, own(policies=policies)) == [("version", "unknown")]


def test_one_that_is_being_deleted_is_not_offered() -> None:
    deleting = replace(IMAGE, status=ImageStatus.DELETING)
    assert places({"image": IMAGE.reference}, own(deleting)) == [("image", "unknown")]


def test_one_whose_environment_is_withdrawn_says_so() -> None:
    withdrawn = replace(IMAGE, environment="old")
    asked = {"image": IMAGE.reference}
    assert places(asked, own(withdrawn, policies=BY_HAND)) == [("image", "withdrawn")]


def test_one_that_was_named_by_hand_is_named_by_hand() -> None:
    by_hand = replace(IMAGE, environment=None, version=None)
    asked = {"image": IMAGE.reference}
    assert places(asked, own(by_hand)) == [("image", "not_allowed")]
    assert granted(asked, own(by_hand, policies=BY_HAND)).agent == "deep"


def test_the_steps_of_the_making() -> None:
    assert {s for s in CommitStatus if s.is_final} == {
        CommitStatus.DONE, CommitStatus.FAILED, CommitStatus.CANCELLED,
    }  # fmt: skip
    assert all(CommitStatus.FAILED in to for to in COMMIT_TRANSITIONS.values() if to)


def test_room() -> None:
    assert room_left(free=30, whole=100, promised=0, copies=1) == 25
    assert room_left(free=30, whole=100, promised=5, copies=1) == 20
    assert room_left(free=30, whole=100, promised=5, copies=2) == 7
    assert room_left(free=3, whole=100, promised=0, copies=1) == 0
