"""Idle checks on pages: what a session's say, keeping it, and warnings of what ends soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...scheduling.idle import earliest
from ...store import Session
from ..auth import START
from ..base import Refused
from ..calls.sessions import find
from ..idle.keeping import keep
from ..idle.views import keeps_for, view_of, warnings_due
from ..idle.words import METRIC_TITLES, TITLES, fate, number, reason_ahead, what_stays
from .base import Page
from .words import said_to

if TYPE_CHECKING:
    from ..app import Service


@dataclass(frozen=True, slots=True)
class Warned:
    """A session that ends soon. `keep`: for how many seconds its owner may keep it; 0: not. `tell`:
    which warning it is, for the browser to tell it once; empty where it is too early. `fate`: what
    it will be, `stays` what there is of it then."""

    id: str
    name: str
    ends_at: datetime
    why: str
    keep: float
    tell: str
    fate: str
    stays: str


def warnings_of(service: Service, owner: str) -> Iterator[Warned]:
    """The sessions of a user that are to be warned of, the nearest first."""
    watch = None if service.idle is None else service.idle.watch
    if watch is None:
        return
    site = service.parts.site
    ahead, now = max(site.idle.warnings, default=0.0), watch.clock.now()
    mine = (one for one in watch.sessions.values() if one.session.owner == owner)
    ending = [(one.ends_at, one) for one in mine if one.ends_at is not None]
    for ends_at, one in sorted(ending, key=lambda pair: pair[0]):
        first = earliest(one.verdicts)
        if ends_at - now > ahead or first is None or not warnings_due(site, one, now):
            continue
        yield Warned(
            one.session.id, one.session.name, watch.told(ends_at), reason_ahead(first, one.why_not),
            keeps_for(site, one, now),
            service.notices.told(one.session.id) if service.notices is not None else "",
            fate(first.check, one.why_not), what_stays(first.check, one.why_not),
        )  # fmt: skip


def ends_at(service: Service, session: Session) -> datetime | None:
    """When idle checks end a session, as they were judged last; None where no end is in sight. It
    is asked anew for the next look."""
    watch = None if service.idle is None else service.idle.watch
    watched = None if watch is None else watch.sessions.get(session.id)
    if watch is None or watched is None or watched.ends_at is None:
        return None
    watched.shown = True
    return watch.told(watched.ends_at)


class IdlePage(Page):
    """What a page needs to show a session's idle checks."""

    async def idle(self, session: Session) -> dict[str, Any]:
        """The context of `session_idle.html`."""
        may_keep = self.caller.may(START, session.owner, session.owner_groups)
        found: dict[str, Any] = {
            "session": session, "idle": None, "told": "",
            "keep_url": self.page_of(session, "keep") if may_keep else "",
            "check_title": TITLES.__getitem__, "metric_title": _metric_title, "percent": number,
        }  # fmt: skip
        try:
            watch, watched = await self.service.idle_of(session)
        except Refused as error:
            return {**found, "told": str(error)}
        view = view_of(self.site, watch, watched)
        why_not = said_to(self.caller.name, view.why_not, session.owner)
        return {**found, "idle": view, "why_not": why_not}


def _metric_title(name: str) -> str:
    title = METRIC_TITLES[name]
    return title[:1].upper() + title[1:]


class KeepPage(IdlePage):
    """Keeps a session, without any script."""

    async def get(self, id: str) -> None:
        session = await find(self.site, self.caller, id, START)
        self.show("backendai/pages/keep.html", self.caller, **await self.idle(session))

    async def post(self, id: str) -> None:
        session = await find(self.site, self.caller, id, START)
        watch, watched = await self.service.idle_of(session)
        await keep(self.site, watch, watched, None, self.caller.name)
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url)
