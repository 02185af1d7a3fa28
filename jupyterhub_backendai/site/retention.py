"""Forgets sessions that were over long ago, so that database and logs do not grow for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from .clock import utcnow

if TYPE_CHECKING:
    from .runtime import Site

INTERVAL = 3600.0  # seconds between two looks
PORTION = 200  # sessions in one transaction; those who wait for the database wait for this many
PAUSE = 0.2  # seconds between two portions, in which the others have their turn


async def run(site: Site) -> None:
    """The endless work: at once, then every hour; one failure does not end it."""
    while site.configuration.history_days:
        try:
            await forget_old(site)
        except Exception:
            site.log.exception("Old sessions could not be removed; it is tried again")
        await asyncio.sleep(INTERVAL)


async def forget_old(site: Site) -> int:
    """Removes all that were over `history_days` ago, and their logs; how many there were."""
    before = utcnow() - timedelta(days=site.configuration.history_days)
    total = 0
    while count := await site.db(site.store.forget, before, PORTION):
        total += count
        await asyncio.sleep(PAUSE)
    await asyncio.to_thread(site.shelf.forget_before, before)
    if total:
        site.log.info("Removed %i sessions that were over before %s", total, before.date())
    return total
