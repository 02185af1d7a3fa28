"""What the making of an image leaves on its way, found by names that nothing inherits.

An image and a container have the labels of what they were made from, whoever made them, so nothing
is ours by its labels alone. Names are given to one thing only; volumes inherit nothing. All calls
are synchronous.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from .base import EngineError
from .freezer import freeze, stands_still, thaw
from .image_config import comment
from .images import LABEL_IMAGE_HUB, LABEL_IMAGE_ORDER

REPOSITORY = "backendai-commit"  # of images that are on their way, and of those that were replaced
LABEL_CONTAINER = "backendai.image.container"  # of the volume that says what stands still
# Of the same: an exec that is never run, where it is Docker that has the container stand still.
# Docker has such things in its memory alone, and so one that is there says that it was not
# restarted, and is still at what it was asked for.
LABEL_WITNESS = "backendai.image.witness"
LABEL_TAG = "backendai.image.tag"  # of the same: what Docker names what it has read
LONGEST = 3600  # seconds that Docker is given to read a container that nobody waits for
LOOK = 0.2  # seconds between two looks at whether it still does
# Seconds in which what froze a container may still tell a Docker that was killed meanwhile: by
# containerd's shim, which tries six times, each a second later than the one before.
TOLD = 16.0
SETTLED = 10.0  # seconds in which Docker, containerd and the kernel come to say the same
_ORDER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Traces:
    """Those of one hub on one host."""

    def __init__(self, client: docker.APIClient, hub_id: str) -> None:
        self.client, self.hub_id = client, hub_id

    # ---- names -----------------------------------------------------------------------------------

    def new_tag(self, order: str) -> str:
        """A tag for an image of that order, different each time: a name that is taken away from an
        image leaves it without one, and then nobody finds it."""
        return f"{self.hub_id}.{order}.{uuid.uuid4().hex[:8]}"

    def container_name(self, order: str) -> str:
        """The name of the container that an order makes on its way."""
        return f"{REPOSITORY}-{self.hub_id}-{order}"

    def _journal(self, order: str) -> str:
        return f"{REPOSITORY}-{self.hub_id}-{order}"

    # ---- what is there ---------------------------------------------------------------------------

    def begin(self, order: str, container: str, stays: bool = False) -> str:
        """Notes which container is going to stand still, before it does; "": none. `stays`: we
        have it do so, and not Docker for as long as it reads. The tag of what is read."""
        if not _ORDER.fullmatch(order):
            raise ValueError(f"{order!r} is no id of an order")
        labels = {
            LABEL_IMAGE_HUB: self.hub_id,
            LABEL_IMAGE_ORDER: order,
            LABEL_CONTAINER: container,
            LABEL_TAG: self.new_tag(order),
        }
        if container and not stays:
            labels[LABEL_WITNESS] = str(self.client.exec_create(container, ["true"])["Id"])
        self.client.create_volume(self._journal(order), driver="local", labels=labels)
        return labels[LABEL_TAG]

    def is_read(self, order: str) -> bool:
        """Whether Docker reads a container for an order, also where nobody waits for that any more.

        It goes on to the end whoever goes away, names what it has made, and then lets the container
        go on.
        """
        for labels in self._noted(order):
            witness = labels.get(LABEL_WITNESS)
            if not witness:
                continue
            try:
                found = self.client.inspect_container(labels[LABEL_CONTAINER])
            except NotFound:
                continue  # its session is over
            if found["State"].get("Paused") and witness in (found.get("ExecIDs") or ()):
                return labels[LABEL_TAG] not in self._tags()
        return False

    def outwait(self, order: str, at: Callable[[], None]) -> None:
        """Until Docker is through with what it reads for an order that nobody waits for; an hour at
        most. `at` is called before each look."""
        until = time.monotonic() + LONGEST
        while self.is_read(order) and time.monotonic() < until:
            at()
            time.sleep(LOOK)

    def orders_of(self, container: str) -> frozenset[str]:
        """Ids of orders that have noted that this container stands still."""
        rows = [row["Labels"] for row in self._volumes()]
        return frozenset(
            str(labels[LABEL_IMAGE_ORDER])
            for labels in rows
            if labels.get(LABEL_CONTAINER) == container
        )

    def orders(self) -> frozenset[str]:
        """Ids of orders that left anything."""
        named = {tag[len(self.hub_id) + 1 :].partition(".")[0] for tag in self._tags()}
        prefix = self.container_name("")
        made = {name[len(prefix) :] for name in self._containers(prefix)}
        noted = {str(row["Labels"][LABEL_IMAGE_ORDER]) for row in self._volumes()}
        return frozenset(named | made | noted | {order for order, _ in self._nameless()})

    def clear(self, order: str, let_go: bool = True) -> bool:
        """Removes what an order left, and lets its container go on; or leaves that standing still,
        and noted. False where an image that lost its name stays because a container has it."""
        if let_go:
            self._let_go(order)
        own = self.container_name(order)
        for name in self._containers(own):
            if name == own:
                self._remove_container(name)
        images = [
            f"{REPOSITORY}:{tag}"
            for tag in self._tags()
            if tag.startswith(f"{self.hub_id}.{order}.")
        ]
        images += [image for found, image in self._nameless() if found == order]
        gone = [self._remove_image(image) for image in images]
        if let_go:
            with suppress(NotFound):
                self.client.remove_volume(self._journal(order))
        return all(gone)

    def _let_go(self, order: str) -> None:
        for labels in self._noted(order):
            container = labels.get(LABEL_CONTAINER, "")
            if not container:
                continue
            # A container that is not there is of a session that is over.
            with suppress(NotFound):
                if self._set_right(container):
                    self._keep_going(container)

    def _set_right(self, container: str) -> bool:
        """Has a container go on, and Docker know that it does, whichever of both is not so.

        Whether it stood still without Docker's knowing. Raises `EngineError`, or what Docker says,
        where it cannot be set right: then what is noted of it has to stay.
        """
        unknown = late = froze = False
        refused: APIError | None = None
        until = time.monotonic() + SETTLED
        while True:
            state = self.client.inspect_container(container)["State"]
            pid = int(state.get("Pid") or 0)
            still = stands_still(container, pid)
            if not state.get("Paused") and not still:
                return unknown
            if late:
                if froze and still:
                    thaw(container, pid)  # Docker is wrong as before, and the session works
                why = refused or "it has not noted that"
                raise EngineError(
                    f"Docker could not be told that container {container[:12]} goes on: {why}. "
                    "Restart its session."
                )
            if state.get("Paused"):
                # What goes on already is not let go on; so it first stands still once more.
                if refused and still is False:
                    froze = freeze(container, pid) or froze
                refused = self._unpause(container, still is not None)
            else:
                unknown = thaw(container, pid) or unknown
            late = time.monotonic() > until
            if refused:
                time.sleep(LOOK)  # Docker may just be told, or be at it itself

    def _unpause(self, container: str, seen: bool) -> APIError | None:
        """What Docker says if it refuses. Raises that where nothing more can be done, as that is
        not `seen` from here of which it knows nothing."""
        try:
            self.client.unpause(container)
        except APIError as error:
            # Docker's own word for what has just gone on.
            if error.status_code in {409, 500} and (seen or "is not paused" in str(error)):
                return error
            raise
        return None

    def _keep_going(self, container: str) -> None:
        """Has Docker know that a container goes on which it did not know to stand still: it may be
        told late that it does, and then refuses all that is asked of it, also to let it go on."""
        until = time.monotonic() + TOLD
        while time.monotonic() < until:
            if self.client.inspect_container(container)["State"].get("Paused"):
                self._set_right(container)
                return
            time.sleep(LOOK)

    def _noted(self, order: str) -> list[dict[str, str]]:
        """What an order has noted, as labels."""
        rows = [dict(row["Labels"]) for row in self._volumes()]
        return [labels for labels in rows if labels[LABEL_IMAGE_ORDER] == order]

    def _volumes(self) -> list[dict[str, Any]]:
        filters = {"label": [f"{LABEL_IMAGE_HUB}={self.hub_id}", LABEL_IMAGE_ORDER]}
        return list(self.client.volumes(filters=filters)["Volumes"] or ())

    def _containers(self, prefix: str) -> list[str]:
        """Names of containers; the filter finds it anywhere in a name."""
        rows = self.client.containers(all=True, filters={"name": prefix})
        names = [name.lstrip("/") for row in rows for name in row.get("Names") or ()]
        return [name for name in names if name.startswith(prefix)]

    def _tags(self) -> list[str]:
        rows = self.client.images(name=REPOSITORY)
        tags = [name.rpartition(":")[2] for row in rows for name in row.get("RepoTags") or ()
                if name.startswith(f"{REPOSITORY}:")]  # fmt: skip
        return [tag for tag in tags if tag.startswith(f"{self.hub_id}.")]

    def _nameless(self) -> list[tuple[str, str]]:
        """Orders and ids of images that Docker had made, but not named yet, when it was killed.

        The last step of their history says that they were made by us. What somebody makes from an
        image of ours has its labels, and another last step.
        """
        filters = {"dangling": True, "label": [f"{LABEL_IMAGE_HUB}={self.hub_id}"]}
        found = []
        for row in self.client.images(filters=filters):
            order = str((row.get("Labels") or {}).get(LABEL_IMAGE_ORDER, ""))
            try:
                steps = self.client.history(row["Id"])
            except (ImageNotFound, NotFound):
                continue
            if order and steps and steps[0].get("Comment") == comment(order):
                found.append((order, str(row["Id"])))
        return found

    def _remove_container(self, name: str) -> None:
        try:
            self.client.remove_container(name, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # 409: it is being removed already
                raise

    def _remove_image(self, image: str) -> bool:
        try:
            self.client.remove_image(image)
        except (ImageNotFound, NotFound):
            return True
        except APIError as error:
            if is_gone(error):
                return True
            if error.status_code != 409:  # 409: a container has it
                raise
            return False
        return True


def is_gone(error: APIError) -> bool:
    """Whether Docker could not remove an image because it was removed at that very moment: of two
    who do so at once, one is told this."""
    return error.status_code == 500 and "unrecognized image ID" in str(error.explanation)
