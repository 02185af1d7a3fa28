"""The last look at the image of a session before it starts: nobody gets into somebody else's.

Requests are checked where they come in, by the name of the image. What is on an agent may have any
name: so here its own labels say whose it is.
"""

from __future__ import annotations

from ..engine.base import ImageMissing
from ..engine.docker import DockerHost
from ..engine.images import LABEL_IMAGE_HUB, LABEL_IMAGE_ID, LABEL_IMAGE_OWNER
from ..model.catalog import Catalog, Environment
from ..model.errors import LaunchError
from ..model.images import CustomImage, ImageStatus, is_customized
from ..model.request import SessionRequest
from ..site.runtime import Site


async def own_image(site: Site, owner: str, reference: str) -> CustomImage | None:
    """The owner's image of that reference, if it is one that people make."""
    if not is_customized(reference):
        return None
    images = await site.db(site.store.images_of, owner)
    ready = (one for one in images if one.status is ImageStatus.READY)
    return next((one for one in ready if one.reference == reference), None)


def is_offered(catalog: Catalog, reference: str) -> bool:
    """Whether the site itself offers this image."""
    return any(v.image == reference for e in catalog.environments for v in e.versions)


def environment_of(catalog: Catalog, request: SessionRequest) -> Environment | None:
    """The environment that a request names, which says how its session is started; None where it
    names none. Raises `LaunchError` where it is not offered any more, since the session waited in
    line or was hibernated: another command would be started than its own."""
    if request.environment is None:
        return None
    environment = catalog.environment(request.environment)
    if environment is None:
        raise LaunchError(
            "environment_gone",
            f"Its environment {request.environment} is not offered any more, and without that "
            "nobody knows how to start it. Tell your admin, or start another one.",
        )
    return environment


async def is_there(site: Site, host: DockerHost, own: CustomImage) -> bool:
    """Whether the agent has an own image as it is now.

    Raises `LaunchError` where it should be there and is not: a registry could answer to its name
    with anybody's.
    """
    made = await site.engine.images.find(host.name, own.reference)
    labels = made.labels if made is not None else {}
    is_it = labels.get(LABEL_IMAGE_ID) == own.id and labels.get(LABEL_IMAGE_HUB) == site.hub_id
    if own.agent is None:
        # Another agent may have made it anew since. An engine that keeps images in another way has
        # another id for the same one; its registry's digest is the same everywhere.
        same = made is not None and (made.id == own.engine_id or own.digest in made.digests)
        return is_it and same
    if not is_it:
        raise LaunchError(
            "image_missing",
            f"Your image {own.name} is not on {host.name} any more. Choose an "
            "environment. To have that name again, delete the image.",
        )
    return True


async def check_downloaded(site: Site, host: DockerHost, own: CustomImage) -> None:
    """Raises `LaunchError` where what its registry gave is not the image of its owner's list."""
    if await is_there(site, host, own):
        return
    site.log.warning(
        "%s on %s is not the image that the registry is to have there (%s)",
        own.reference, host.name, own.digest,
    )  # fmt: skip
    raise LaunchError(
        "image_missing",
        f"The registry has another image where your image {own.name} is to be. If it is being made "
        "anew, or that was given up just now, try again in a few minutes; else tell your admin.",
    )


async def check_owner(site: Site, host: DockerHost, owner: str, reference: str) -> None:
    """Raises `ImageMissing` for an image on an agent that somebody else has made, as if it were
    not there."""
    labels = await site.engine.images.labels(host.name, reference)
    made_by = labels.get(LABEL_IMAGE_OWNER)
    hub = labels.get(LABEL_IMAGE_HUB)
    if (made_by in (None, owner)) and hub in (None, site.hub_id):
        return
    site.log.warning(
        "%s asks for %s on %s, which is an image that %s has made. It is refused.",
        owner, reference, host.name, made_by,
    )  # fmt: skip
    raise ImageMissing(f"{reference} on {host.name} is not {owner}'s")
