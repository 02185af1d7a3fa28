"""A slow look at all agents: what the making of images left there is removed."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from datetime import timedelta

from ...engine.base import AgentUnreachable, EngineError
from ...engine.images import LABEL_IMAGE_ID, LABEL_IMAGE_ORDER, ImageInUse, Images
from ...model.images import CommitStatus
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import NotFound

KEPT = timedelta(days=30)  # that it is known how the making of an image ended


async def sweep(
    site: Site, images: Images, busy: Collection[str], agents: Collection[str]
) -> frozenset[str]:
    """Cleans what is left on these agents of work that is over, and forgets what was over long ago.
    `busy`: ids of the work that this process is at. The agents that did not answer. Raises
    `Unavailable`."""
    away = set()
    await site.engine.agents()  # by which it is known which of them are one machine
    for agent in agents:
        try:
            await _clean(site, images, agent, busy)
            await _remove(site, images, agent, busy)
        except EngineError as error:
            site.log.warning("Agent %s cannot be swept of images: %s", agent, error)
            if isinstance(error, AgentUnreachable):
                away.add(agent)
    await site.db(site.store.forget_commits, utcnow() - KEPT)
    return frozenset(away)


async def _clean(site: Site, images: Images, agent: str, busy: Collection[str]) -> None:
    left = await images.leftovers(agent)
    over = await site.db(site.store.commits_over, left) - frozenset(busy)
    for order in sorted(over):
        # It may be there still after this: what a session runs from stays as long as that does.
        site.warn_once(f"What was left of the image {order} on {agent} is removed")
        await _alone(site, images.clean(agent, order), f"What the image {order} left on {agent}")


async def _remove(site: Site, images: Images, agent: str, busy: Collection[str]) -> None:
    """Removes whole images that are nobody's. What nothing is known of stays, and is told."""
    listed = await images.listed(agent)
    orders = frozenset(labels.get(LABEL_IMAGE_ORDER, "") for labels in listed.values())
    # Read after what is there, so that what is being made is under way here.
    over = await site.db(site.store.commits_over, orders) - frozenset(busy)
    known = {
        image.id: (image.reference, image.agent) for image in await site.db(site.store.all_images)
    }
    # A reference of these is never made anew: wherever that lies, it is what is kept.
    known |= {r.id: (r.reference, None) for r in await site.db(site.store.hibernations)}
    for reference, labels in listed.items():
        if labels.get(LABEL_IMAGE_ORDER) not in over:
            continue
        if await _is_nobodys(site, agent, reference, labels, known):
            # A container may have it for long: it is tried again each time, and told once.
            site.warn_once(f"The image {reference} on {agent} is nobody's, and is removed")
            work = images.remove(agent, reference)
            await _alone(site, work, f"The image {reference} on {agent}")


async def _alone(site: Site, work: Awaitable[None], what: str) -> None:
    """Work on one of many, which keeps no other from being done. Raises `AgentUnreachable`."""
    try:
        await work
    except AgentUnreachable:
        raise
    except ImageInUse as error:
        site.log.debug("%s stays for now: %s", what, error)
    except EngineError as error:
        site.log.warning("%s stays for now: %s", what, error)


async def _is_nobodys(
    site: Site,
    agent: str,
    reference: str,
    labels: Mapping[str, str],
    known: Mapping[str, tuple[str, str | None]],
) -> bool:
    """`known`: reference and agent of what there is to be, by its id; None: any agent may have
    it."""
    found, place = known.get(labels.get(LABEL_IMAGE_ID, ""), ("", None))
    if found == reference:
        # Made anew elsewhere since; of what is in a registry any agent may have a copy.
        return place is not None and not site.engine.may_be_on(place, agent)
    try:
        commit = await site.db(site.store.commit, labels[LABEL_IMAGE_ORDER])
    except NotFound:
        commit = None
    ends = (CommitStatus.FAILED, CommitStatus.CANCELLED)
    if commit is not None and commit.reference == reference and commit.status in ends:
        return True
    site.warn_once(f"Nothing is known of the image {reference} on {agent}. Remove it by hand.")
    return False
