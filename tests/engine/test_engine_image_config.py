"""The settings of an image that is made of a session, from what Docker says of the one below."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import datetime, timezone
from typing import Any

import pytest

from jupyterhub_backendai.engine.image_config import (
    archive_of,
    foreign,
    history,
    labels_of,
    override,
)
from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_BASE_DIGEST,
    LABEL_IMAGE_BASE_ID,
    LABEL_IMAGE_NAME,
    LABEL_IMAGE_ORDER,
    CommitOrder,
)

MADE = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
ORDER = CommitOrder("o1", "c1", "backendai/python:customized_1", {LABEL_IMAGE_NAME: "mine"}, "ada")
BASE: dict[str, Any] = {
    "Id": "sha256:base",
    "Architecture": "arm64",
    "Variant": "v8",
    "Os": "linux",
    "RootFS": {"Layers": ["sha256:a", "sha256:b"]},
    "Config": {
        "Hostname": "builder",
        "Image": "sha256:older",
        "Env": ["PATH=/bin", "EMPTY="],
        "Cmd": None,
        "Entrypoint": None,
        "Labels": {"org.example": "1", "backendai.hub": "forged", "backendai.image.name": "old"},
    },
}


def step(text: str, size: int = 0) -> dict[str, Any]:
    return {"CreatedBy": text, "Size": size, "Created": 1_700_000_000, "Comment": ""}


# In the order of a build; Docker tells the newest first.
BUILT = [
    step("/bin/sh -c #(nop) ADD file:1 in / ", 100),
    step('/bin/sh -c #(nop)  CMD ["bash"]'),
    step("ENV A=1"),
    step("WORKDIR /work"),
    step("RUN /bin/sh -c true"),
    step("/bin/sh -c touch /x", 5),
    step("USER work"),
]


@pytest.mark.parametrize(
    ("layers", "full"),
    [(2, {0, 5}), (3, {0, 3, 5}), (4, {0, 3, 4, 5}), (5, {0, 1, 3, 4, 5})],
)
def test_steps_that_made_a_layer_are_as_many_as_there_are_layers(
    layers: int, full: set[int]
) -> None:
    found = history(BUILT[::-1], layers)
    assert [one.get("created_by") for one in found] == [one["CreatedBy"] for one in BUILT]
    assert {n for n, one in enumerate(found) if not one.get("empty_layer")} == full
    assert found[0]["created"] == "2023-11-14T22:13:20Z"


def test_a_history_that_is_too_short_is_made_as_long_as_its_layers() -> None:
    found = history([step("only", 1)], 3)
    assert [one.get("created_by") for one in found] == [None, None, "only"]
    assert not any(one.get("empty_layer") for one in found)
    assert len(history([], 2)) == 2


def test_the_archive_is_the_layers_with_the_settings_of_the_image_below() -> None:
    layers = ["sha256:a", "sha256:b", "sha256:new"]
    image, data = archive_of(ORDER, BASE, [step("b", 1), step("a", 1)], layers, MADE)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        texts = {name: json.loads(file.read()) for name, file in files.items() if file}
    [manifest] = texts.pop("manifest.json")
    config = texts[manifest["Config"]]
    assert manifest["Config"] == f"{image.removeprefix('sha256:')}.json"
    assert manifest["RepoTags"] == [ORDER.reference]
    assert len(manifest["Layers"]) == len(layers)
    assert config["rootfs"] == {"type": "layers", "diff_ids": layers}
    assert (config["architecture"], config["variant"], config["os"]) == ("arm64", "v8", "linux")
    assert config["history"][-1] == {
        "created": "2026-11-23T12:00:00Z", "author": "ada", "comment": "Backend.AI image o1",
    }  # fmt: skip
    assert config["config"]["Env"] == BASE["Config"]["Env"]
    assert not {"Hostname", "Image"} & set(config["config"])


def test_labels_are_its_own_and_those_of_the_image_below_that_are_not_ours() -> None:
    assert labels_of(BASE, ORDER) == {
        "org.example": "1", LABEL_IMAGE_NAME: "mine",
        LABEL_IMAGE_BASE_ID: "sha256:base", LABEL_IMAGE_ORDER: "o1",
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"backendai\.hub"):
        labels_of(BASE, CommitOrder("o1", "c1", "r:1", {"backendai.hub": "h"}))


def test_the_base_is_the_same_image_by_its_name_its_id_and_its_digest() -> None:
    def made(of: str, config: dict[str, Any], *digests: str) -> dict[str, str]:
        order = CommitOrder("o1", "c1", "r:1", {LABEL_IMAGE_BASE: of, LABEL_IMAGE_BASE_ID: ""})
        return labels_of({**BASE, "Config": {"Labels": config}, "RepoDigests": digests}, order)

    name = "quay.io:443/lab/torch:1"
    digests = ["a.example/torch@sha256:1", "quay.io:443/lab/torch@sha256:1", "torch@sha256:1"]
    first = made(name, {}, *digests)
    assert first[LABEL_IMAGE_BASE_ID] == "sha256:base"
    assert first[LABEL_IMAGE_BASE_DIGEST] == digests[1]
    assert made("renamed:1", {}, *digests)[LABEL_IMAGE_BASE_DIGEST] == digests[0]
    assert LABEL_IMAGE_BASE_DIGEST not in made("built-here:1", {})
    # An image of an image tells what both are made from.
    below = {**first, LABEL_IMAGE_BASE_ID: "sha256:torch"}
    second = made(name, below, "mine.example/torch@sha256:2")
    assert second[LABEL_IMAGE_BASE_ID] == "sha256:torch"
    assert second[LABEL_IMAGE_BASE_DIGEST] == digests[1]
    # Where an admin offers somebody's image it is that one, whatever that was made from.
    offered = made("lab/torch:customized", below, "mine.example/torch@sha256:2")
    assert offered[LABEL_IMAGE_BASE_ID] == "sha256:base"
    assert offered[LABEL_IMAGE_BASE_DIGEST] == "mine.example/torch@sha256:2"


def test_what_a_container_has_beside_its_image_is_unset() -> None:
    container = {"Config": {"Env": ["PATH=/mine:/bin", "EMPTY=", "TOKEN=a=b", "EMPTIER="]}}
    unset = foreign(container, BASE)
    assert unset == {"PATH": "/mine:/bin", "TOKEN": "a=b", "EMPTIER": ""}
    config = override(BASE, unset, {})
    assert config["Env"] == ["PATH=/bin", "EMPTY=", "EMPTIER", "TOKEN"]
    assert config["Cmd"] == ["jupyterhub-singleuser"], "what it would start anyway"
    assert (config["User"], config["WorkingDir"], config["Entrypoint"]) == ("root", "/", [])
    entry = {**BASE, "Config": {**BASE["Config"], "Entrypoint": ["/init"]}}
    assert override(entry, unset, {})["Cmd"] == []
