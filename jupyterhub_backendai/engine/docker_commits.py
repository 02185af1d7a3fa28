"""One image, made of one running container of a Docker host. All of it is synchronous.

A commit alone takes the container's variables, labels and command with it. So what it makes is
never the image: that is made of its layers, and of the settings of the image below.

Docker has two ways to keep images. Its own store takes settings without layers that it has already
(`docker load`); then nothing of the container's settings was ever in the image. The other one
(containerd's, the default from Docker 29 on) wants the layers. There the commit is made with each
of the container's variables unset, a container is made of that and never runs, and it is committed:
its image says of such variables that they are not set, and its history has the session's command.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from traitlets.log import get_logger

from . import image_config
from .base import (
    LABEL_CORES,
    LABEL_HUB,
    LABEL_KERNEL,
    LABEL_SESSION,
    LABEL_USER,
    ContainerGone,
    EngineError,
)
from .commit_traces import REPOSITORY, Traces
from .images import LABEL_IMAGE_ORDER, CommitOrder, CommitRefused, MadeImage

SESSION_LABELS = (LABEL_HUB, LABEL_SESSION, LABEL_USER, LABEL_KERNEL, LABEL_CORES)
# What each session has, and what a command may well name.
_PLAIN = frozenset({"HOME", "PYTHONPATH", "JUPYTER_RUNTIME_DIR", "USER"})
LAYERS = 125  # that Docker lets an image have; each that is made of a session has one more
_SECRET = 8  # characters from which a variable's value is looked for where it should not be


class Stopped(EngineError):
    """Nobody waits for the image any more."""


class Stoppable:
    """What is done step by step. `stop` may be called from another thread; it ends between two
    steps."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Has it end before its next step."""
        self._stopped.set()

    def at(self, step: str) -> None:
        """Between two steps. Raises `Stopped`."""
        if self._stopped.is_set():
            raise Stopped(f"{self._what} is not wanted any more ({step})")


class Commit(Stoppable):
    """The making of one image."""

    def __init__(self, client: docker.APIClient, hub_id: str, order: CommitOrder) -> None:
        super().__init__(f"The image {order.reference}")
        self.client, self.order = client, order
        self.traces = Traces(client, hub_id)

    def make(self) -> MadeImage:
        """See `Images.make`. What goes wrong on the way leaves nothing, unless Docker ends."""
        order = self.order
        with refusals():
            found = self._made()
            if found and order.stay and self._stands_still():
                return found
            # Also of an earlier one, which could not be cleaned: what it has standing still goes on
            # by itself in the midst of this one.
            for earlier in {order.id, *self.traces.orders_of(order.container)}:
                self.traces.outwait(earlier, partial(self.at, "waits"))
                self.traces.clear(earlier)
            if found and not order.stay:
                return found
            container = running(self.client, order.container)
            base = base_of(self.client, container)
            self.at("begin")
            # What stands still already is somebody else's to let go.
            still = container["State"].get("Paused")
            tag = self.traces.begin(order.id, "" if still else container["Id"], order.stay)
            stays = False
            try:
                self.at("noted")
                if order.stay and not still:
                    self.client.pause(container["Id"])
                    self.at("paused")
                if needs_layers(self.client.info()):
                    self._twice(container, base, tag)
                else:
                    self._at_once(container, base, tag)
                stays = order.stay
            finally:
                self._clear(let_go=not stays)
            found = self._made()
        if found is None:
            raise EngineError(
                f"Docker made an image of {order.container[:12]}, and {order.reference} is not it. "
                "It is tried again; Docker's own log may say more."
            )
        return found

    def _stands_still(self) -> bool:
        try:
            return bool(self.client.inspect_container(self.order.container)["State"].get("Paused"))
        except NotFound as error:
            raise gone(self.order.container) from error

    def _clear(self, let_go: bool) -> None:
        """At the end. What cannot be removed now is found later, and nobody's error is lost."""
        try:
            if self.traces.is_read(self.order.id):
                return  # the connection is lost, and Docker goes on
            self.traces.clear(self.order.id, let_go)
        except (DockerException, requests.exceptions.RequestException, EngineError) as error:
            log = get_logger()
            log.warning("What order %s left is removed later: %s", self.order.id, error)

    def _made(self) -> MadeImage | None:
        """The image of the reference, if this order made it."""
        found = made_image(self.client, self.order.reference)
        return found if found and found.labels.get(LABEL_IMAGE_ORDER) == self.order.id else None

    def _commit(
        self, container: str, tag: str, config: Mapping[str, Any], pause: bool = True
    ) -> dict[str, Any]:
        """Commits a container to an image of that tag, with that `Config` over its own."""
        order = self.order
        try:
            made = self.client.commit(
                container, repository=REPOSITORY, tag=tag, pause=pause, conf=dict(config),
                message=image_config.comment(order.id), author=order.author or None,
            )  # fmt: skip
        except NotFound as error:
            raise gone(container) from error
        return dict(self.client.inspect_image(made["Id"]))

    def _hidden(self, container: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
        """A `Config` in which the session's own variables and labels are not told."""
        unset = image_config.foreign(container, base)
        labels = dict.fromkeys((container["Config"].get("Labels") or {}), "")
        return image_config.override(base, unset, labels | image_config.labels_of(base, self.order))

    def _keep_replaced(self) -> None:
        """Gives an image that is about to lose its name one by which it is found."""
        earlier = made_image(self.client, self.order.reference)
        if earlier is not None:
            self.client.tag(earlier.id, REPOSITORY, self.traces.new_tag(self.order.id))

    # ---- Docker's own store ----------------------------------------------------------------------

    def _at_once(self, container: Mapping[str, Any], base: Mapping[str, Any], tag: str) -> None:
        between = self._commit(container["Id"], tag, self._hidden(container, base))
        self.at("committed")
        image, archive = image_config.archive_of(
            self.order, base, self.client.history(base["Id"]), between["RootFS"]["Layers"],
            datetime.now(timezone.utc),
        )  # fmt: skip
        self._keep_replaced()
        self.at("kept")
        for line in self.client.load_image(archive, quiet=True):
            if why := line.get("error") or line.get("message"):
                raise refused(str(why)) or EngineError(f"Docker did not load an image: {why}")
        self.at("named")
        if self.client.inspect_image(self.order.reference)["Id"] != image:
            raise EngineError(f"{self.order.reference} is not the image that was loaded ({image})")

    # ---- where Docker needs the layers -----------------------------------------------------------

    def _twice(self, container: Mapping[str, Any], base: Mapping[str, Any], tag: str) -> None:
        unset = image_config.foreign(container, base)
        self._commit(container["Id"], tag, self._hidden(container, base))
        self.at("committed")
        labels = image_config.labels_of(base, self.order)
        config = image_config.override(base, unset, labels)
        name = self.traces.container_name(self.order.id)
        made = self.client.create_container_from_config(
            {**config, "Image": f"{REPOSITORY}:{tag}", "HostConfig": {"NetworkMode": "none"}}, name
        )
        self.at("created")
        second = self.traces.new_tag(self.order.id)
        image = self._commit(made["Id"], second, config, pause=False)
        self.at("committed again")
        told = telling(self.client, image, base, unset)
        if told:
            raise CommitRefused(
                "secret",
                "A value of one of this session's variables would be in the image: it is in the "
                "session's command. Start the session without it.",
                f"{told} would be in the image {self.order.reference}",
            )
        self._keep_replaced()
        self.at("kept")
        repository, _, last = self.order.reference.rpartition(":")
        self.client.tag(image["Id"], repository, last, force=True)
        self.at("named")


def needs_layers(info: Mapping[str, Any]) -> bool:
    """Whether this Docker keeps images in containerd's store, as `docker info` says."""
    return any("io.containerd.snapshotter" in str(row) for row in info.get("DriverStatus") or ())


def running(client: docker.APIClient, container: str) -> dict[str, Any]:
    """A container as `inspect` says. Raises `ContainerGone`, and `CommitRefused` where it does not
    run."""
    try:
        found = dict(client.inspect_container(container))
    except NotFound as error:
        raise gone(container) from error
    if not found["State"].get("Running"):
        told = "It does not run. Start it, and make the image while it runs."
        raise CommitRefused("not_running", told)
    return found


def base_of(client: docker.APIClient, container: Mapping[str, Any]) -> dict[str, Any]:
    """The image that a container was made from; its name may be another one's by now. Raises
    `CommitRefused` where no image can be made of it any more."""
    try:
        found = dict(client.inspect_image(container["Image"]))
    except (ImageNotFound, NotFound) as error:
        told = (
            "The image that this session was started from is not on its machine any more, so "
            "no image can be made of it. Start it anew."
        )
        raise CommitRefused("base_gone", told) from error
    layers = len((found.get("RootFS") or {}).get("Layers") or ())
    if layers >= LAYERS:
        raise _too_many_layers(f"{container['Image']} has {layers} layers")
    return found


def made_image(client: docker.APIClient, reference: str) -> MadeImage | None:
    """The image of a reference, or None."""
    try:
        found = client.inspect_image(reference)
        steps = client.history(found["Id"])
    except (ImageNotFound, NotFound):
        return None
    last = steps[0].get("Comment") if steps else None
    own = 0
    for step in steps:
        if step.get("Comment") != last:
            break
        own += int(step.get("Size") or 0)
    labels = (found.get("Config") or {}).get("Labels") or {}
    digests = frozenset(name.partition("@")[2] for name in found.get("RepoDigests") or ())
    return MadeImage(found["Id"], int(found["Size"]), own, labels, digests)


def telling(
    client: docker.APIClient,
    image: Mapping[str, Any],
    base: Mapping[str, Any],
    secret: Mapping[str, str],
) -> str:
    """Where an image tells what only its session may know, in words; empty where nowhere."""
    there = image_config.variables(base.get("Config") or {})
    for place in ("Config", "ContainerConfig"):
        given = image_config.variables(image.get(place) or {})
        told = [name for name, value in given.items() if value and there.get(name) != value]
        if told:
            return f"The variable {told[0]}"
    labels = (image.get("Config") or {}).get("Labels") or {}
    if named := [name for name in SESSION_LABELS if labels.get(name)]:
        return f"The label {named[0]}"
    steps = client.history(image["Id"])[: -len(client.history(base["Id"])) or None]
    text = "\n".join(step.get("CreatedBy") or "" for step in steps)
    values = {
        name: value
        for name, value in secret.items()
        if len(value) >= _SECRET and name not in _PLAIN and not name.startswith("BACKENDAI_")
    }
    return next((f"The value of {name}" for name, value in values.items() if value in text), "")


def gone(container: str) -> ContainerGone:
    """The error of a container that is not there."""
    return ContainerGone(f"There is no container {container[:12]} any more")


def _too_many_layers(why: str) -> CommitRefused:
    told = (
        "Its image has as many layers as Docker allows: each time that it was hibernated, or an "
        "image was made of it, one was added. Copy what you need to a folder, and start another "
        "session."
    )
    return CommitRefused("layers", told, why)


def refused(why: str) -> CommitRefused | None:
    """What Docker says, if another try would change nothing."""
    text = why.lower()
    if "no space left on device" in text or "disk quota exceeded" in text:
        told = (
            "The disk of the session's machine has no room for the image. Delete what the session "
            "does not need outside its home, or ask your admin for room."
        )
        return CommitRefused("no_room", told, why[:1000])
    if "max depth exceeded" in text:
        return _too_many_layers(why[:1000])
    if "not supported" in text or "not implemented" in text:
        told = "No images can be made on the session's machine. Ask your admin."
        return CommitRefused("not_possible", told, why[:1000])
    return None


@contextmanager
def refusals() -> Iterator[None]:
    """Around calls: raises `CommitRefused` and `EngineError` for what Docker refuses."""
    try:
        yield
    except APIError as error:
        why = str(error.explanation or error)
        raise refused(why) or EngineError(f"Docker refused: {why[:1000]}") from error
    except ValueError as error:
        raise EngineError(str(error)) from error
