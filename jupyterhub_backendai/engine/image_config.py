"""The settings of an image that is made of a session: those of the image below it, and no more.

Pure functions on what Docker says. The archive is of the kind that `docker save` writes, without
its layers: Docker has them already, and takes each by the digests in the settings.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from docker.utils import parse_repository_tag

from .images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_BASE_DIGEST,
    LABEL_IMAGE_BASE_ID,
    LABEL_IMAGE_ORDER,
    LABEL_IMAGE_PREFIX,
    CommitOrder,
)
from .settings import DEFAULT_COMMAND

OURS = "backendai."  # in front of labels that are not taken over from the image below
# Steps of a build that make no layer, as Docker writes them.
_NO_LAYER = re.compile(
    r"(?:/bin/sh -c )?(?:#\(nop\)\s+)?(?:ENV|CMD|LABEL|EXPOSE|USER|ENTRYPOINT|VOLUME|ARG|MAINTAINER"
    r"|STOPSIGNAL|HEALTHCHECK|SHELL|ONBUILD)\b"
)


def comment(order_id: str) -> str:
    """What the history of an image says of the work that made it."""
    return f"Backend.AI image {order_id}"


def labels_of(base: Mapping[str, Any], order: CommitOrder) -> dict[str, str]:
    """All labels of the image. Raises ValueError for one that is not ours to give."""
    strange = [name for name in order.labels if not name.startswith(LABEL_IMAGE_PREFIX)]
    if strange:
        raise ValueError(f"{strange[0]!r} is no label of an image")
    kept = (base.get("Config") or {}).get("Labels") or {}
    return {
        **{name: value for name, value in kept.items() if not name.startswith(OURS)},
        **order.labels,
        **_base_labels(base, order),
        LABEL_IMAGE_ORDER: order.id,
    }


def _base_labels(base: Mapping[str, Any], order: CommitOrder) -> dict[str, str]:
    """Which image the reference of the base was. The image below may itself be made from that."""
    name = order.labels.get(LABEL_IMAGE_BASE, "")
    below = (base.get("Config") or {}).get("Labels") or {}
    if name and below.get(LABEL_IMAGE_BASE) == name and below.get(LABEL_IMAGE_BASE_ID):
        known = (LABEL_IMAGE_BASE_ID, LABEL_IMAGE_BASE_DIGEST)
        return {label: below[label] for label in known if below.get(label)}
    found = {LABEL_IMAGE_BASE_ID: str(base["Id"])}
    # One image may be in several registries, its own first.
    own, _ = parse_repository_tag(name)
    given = base.get("RepoDigests") or ()
    digests = sorted(given, key=lambda one: (one.partition("@")[0] != own, one))
    return found | ({LABEL_IMAGE_BASE_DIGEST: digests[0]} if digests else {})


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """The variables in a `Config` of Docker's."""
    return dict(line.partition("=")[::2] for line in config.get("Env") or ())


def foreign(container: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, str]:
    """Variables of a container that its image has not, or not so."""
    there = variables(base.get("Config") or {})
    given = variables(container.get("Config") or {})
    return {name: value for name, value in given.items() if there.get(name) != value}


def archive_of(
    order: CommitOrder,
    base: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    layers: Sequence[str],
    made: datetime,
) -> tuple[str, bytes]:
    """The image's id, and what makes Docker have it when it is loaded.

    `base`: the image below, as `inspect` says; `steps`: its history, the newest first; `layers`:
    the digests of all its layers, of which the last ones are new.
    """
    below = list((base.get("RootFS") or {}).get("Layers") or ())
    at = made.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    new = [
        {"created": at, "author": order.author, "comment": comment(order.id)}
        for _ in layers[len(below) :]
    ]
    config: dict[str, Any] = {
        "architecture": base["Architecture"],
        "os": base["Os"],
        "created": at,
        "author": order.author,
        "config": clean_config(base, labels_of(base, order)),
        "rootfs": {"type": "layers", "diff_ids": list(layers)},
        "history": [*history(steps, len(below)), *new],
    }
    names = {"variant": "Variant", "os.version": "OsVersion"}
    config |= {name: base[there] for name, there in names.items() if base.get(there)}
    text = json.dumps(config).encode()
    digest = hashlib.sha256(text).hexdigest()
    manifest = {
        "Config": f"{digest}.json",
        "RepoTags": [order.reference],
        "Layers": [f"{number}/layer.tar" for number in range(len(layers))],
    }
    return f"sha256:{digest}", _tar(
        {f"{digest}.json": text, "manifest.json": json.dumps([manifest]).encode()}
    )


def clean_config(base: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """The `Config` of an image that starts as the one below it does."""
    config = dict(base.get("Config") or {})
    for name in ("Hostname", "Domainname", "Image"):  # of the container that it was built in
        config.pop(name, None)
    return {**config, "Labels": dict(labels)}


def history(steps: Sequence[Mapping[str, Any]], layers: int) -> list[dict[str, Any]]:
    """The history in an image's settings, the oldest first, from what Docker tells of it.

    Docker does not tell which steps made a layer. Those with bytes did; of the others as many as
    are lacking, steps that are known to make none last. What goes in front of a history that is too
    short has nothing in it.
    """
    ordered = list(reversed(steps))
    full = {n for n, step in enumerate(ordered) if step.get("Size")}
    empty = [n for n in range(len(ordered)) if n not in full]
    empty.sort(key=lambda n: bool(_NO_LAYER.match(ordered[n].get("CreatedBy") or "")))
    full |= set(empty[: max(0, layers - len(full))])
    made = [_entry(step, n not in full) for n, step in enumerate(ordered)]
    return [{"created": "1970-01-01T00:00:00Z"} for _ in range(layers - len(full))] + made


def _entry(step: Mapping[str, Any], empty: bool) -> dict[str, Any]:
    at = datetime.fromtimestamp(max(0, int(step.get("Created") or 0)), timezone.utc)
    found = {
        "created": at.isoformat().replace("+00:00", "Z"),
        "created_by": step.get("CreatedBy") or "",
        "comment": step.get("Comment") or "",
    }
    found = {name: value for name, value in found.items() if value}
    return {**found, "empty_layer": True} if empty else found


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


# ---- where Docker needs the layers to load an image ----------------------------------------------


def override(
    base: Mapping[str, Any], unset: Collection[str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """A `Config` that is over all of a container's own, when that is committed or another one is
    created: Docker adds what is not named here, so each variable that is to go is named without a
    value, which means that it is not set."""
    config = clean_config(base, labels)
    command, entry = config.get("Cmd") or [], config.get("Entrypoint") or []
    there = list(config.get("Env") or ())
    return {
        **config,
        "Env": [*there, *sorted(set(unset) - variables(config).keys())],
        "Cmd": command or ([] if entry else list(DEFAULT_COMMAND)),
        "Entrypoint": entry,
        "User": config.get("User") or "root",
        "WorkingDir": config.get("WorkingDir") or "/",
    }
