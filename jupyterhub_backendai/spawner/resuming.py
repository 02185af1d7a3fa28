"""A session that was hibernated, as it is started again: from what was kept of it, and no more."""

from __future__ import annotations

from collections.abc import Collection

from ..engine.images import LABEL_IMAGE_HUB, LABEL_IMAGE_ID
from ..model.errors import LaunchError
from ..model.hibernation import Hibernation
from ..model.request import MountPoint
from ..model.resolve import SessionRequest
from ..model.status import Phase, Result
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Session


async def resumed(
    site: Site, session: Session, request: SessionRequest, groups: Collection[str]
) -> SessionRequest:
    """The request as it is started: of one that was hibernated, from the image that it became, and
    with the folders that its owner has now, who is in these groups.

    Raises `LaunchError` where image or home are not on its agent any more: a registry could answer
    to the image's name with anybody's, and Docker would make an empty home. `EngineError`.
    """
    rest = await site.db(site.store.hibernation, session.id)
    if rest is None:
        return request
    await _check_image(site, session, rest)
    if not await site.engine.has_home(rest.agent, session.id):
        site.log.error("The home of session %s is not on %s", session.id, rest.agent)
        raise LaunchError(
            "home_missing",
            f"The home that was kept of it is not on {rest.agent} any more. Tell your admin before "
            "you end it: what was installed in it is still there.",
        )
    mounts = await _mounts_now(site, session, request, groups)
    return request.model_copy(update={"image": rest.reference, "mounts": mounts})


async def _check_image(site: Site, session: Session, rest: Hibernation) -> None:
    made = await site.engine.images.find(str(session.agent), rest.reference)
    labels = made.labels if made is not None else {}
    ours = labels.get(LABEL_IMAGE_ID) == rest.id and labels.get(LABEL_IMAGE_HUB) == site.hub_id
    if session.agent != rest.agent or not ours:
        site.log.error("What was kept of session %s is not on %s", session.id, session.agent)
        raise LaunchError(
            "image_missing",
            f"The image that was kept of it is not on {rest.agent} any more, so it cannot be "
            "resumed. Tell your admin.",
        )


async def _mounts_now(
    site: Site, session: Session, request: SessionRequest, groups: Collection[str]
) -> tuple[MountPoint, ...]:
    """Those of its folders that are there still and its owner's to use: weeks may have gone by. A
    session without one of them is of more use than none; its history says which."""
    if not request.mounts:
        return request.mounts
    folders = await site.folders.of(session.owner, groups)
    now = {(folder.name, folder.project) for folder in folders}
    mounts = tuple(m for m in request.mounts if m.create or (m.folder, m.project) in now)
    if gone := [m.folder for m in request.mounts if m not in mounts]:
        names = ", ".join(gone)
        message = f"It starts without {names}: not there any more, or not for you any more."
        await site.db(
            site.store.note, session.id, Phase.PREPARE, Result.SUCCESS,
            error_code="folders_gone", message=message, now=utcnow(),
        )  # fmt: skip
    return mounts
