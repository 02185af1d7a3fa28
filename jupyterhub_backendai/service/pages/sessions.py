"""The list of sessions, which is the service's front page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field

from ...model.hibernation import Hibernation
from ...model.slots import SLOT_NAMES, format_bytes, format_thousandths
from ...model.status import FINAL, LIVE, Status
from ...site.runtime import Site
from ...store import Filter, Session
from ..auth import READ, START, Caller
from ..owners import EVERYBODY, whose
from ..queries import Word
from .base import Page
from .idle import ends_at, warnings_of
from .launcher import FOR
from .lists import ListSettings
from .use import Bar, bars
from .words import session_to

Sort = Literal[
    "submitted_at", "-submitted_at", "name", "-name", "status", "-status", "ended_at", "-ended_at",
    "began_at", "-began_at", "position",
]  # fmt: skip
AGAIN, WARNINGS = "again", "warnings"
PARTS = {
    "list": "backendai/pages/sessions_list.html", AGAIN: "backendai/pages/sessions_again.html",
    WARNINGS: "backendai/pages/warnings.html",
}  # fmt: skip
_WHAT = [("Session", "who", "name"), ("Status", "state", "status"), ("Resources", "has", "")]
_COLUMNS = {  # by state: title, class, what it is sorted by
    "live": [*_WHAT, ("Since", "took", "began_at"), ("Ends", "ends", "")],
    "over": [*_WHAT, ("Ended", "took", "ended_at")],
}
_STATES = {"live": LIVE, "over": FINAL}
_WAITS = frozenset({Status.PENDING})
_SLOTS = {  # what a bar is called, and its unit
    "cpu": ("CPU", " cores"), "mem": ("Memory", ""), "fgpu": ("GPU", " FGPU"),
    "gpu": ("GPU", " whole GPUs"), "mig": ("GPU", " MIG devices"),
}  # fmt: skip


class ListQuery(ListSettings):
    """Which sessions the list shows."""

    state: Literal["live", "over"] = "live"
    name: str | None = Field(default=None, max_length=64)
    type: Literal["interactive", "batch", ""] | None = None
    resource_group: str | None = Field(default=None, max_length=255)
    owner: Word | Literal[""] | None = None
    sort: Sort | None = None

    @property
    def usual_sort(self) -> str:
        return "-submitted_at" if self.state == "live" else "-ended_at"

    def wanted(self, owner: str | None, statuses: frozenset[Status]) -> Filter:
        """The filter of those in some statuses, which are those of one of the two tabs."""
        return Filter(
            owner=owner,
            statuses=statuses,
            type=self.type or None,
            resource_group=self.resource_group or None,
            name=self.name or None,
        )


class SessionsPage(Page):
    """Sessions that one may see: those that are not over, or those that are."""

    async def get(self) -> None:
        site = self.site
        query = self.read_query(ListQuery)
        if self.part == WARNINGS:
            # Every page asks for it: who may not see their own sessions has none to be warned of.
            may = self.caller.is_user and self.caller.may(READ, self.caller.name)
            found = list(warnings_of(self.service, self.caller.name)) if may else []
            drops = await self.service.drops.soon(site, self.caller.name) if may else []
            self.write_page("", PARTS, warnings=found, drops=drops)
            return
        owner = await whose(self.service, self.caller, query.owner or None)
        db, store, rest = site.db, site.store, "over" if query.state == "live" else "live"
        mine = owner == self.caller.name
        if self.part == AGAIN:
            self.write_page("", PARTS, **await self._launches(mine))
            return
        (sessions, total), (_, others), (_, waiting), left, launches = await asyncio.gather(
            db(store.list_sessions, query.wanted(owner, _STATES[query.state]), **query.part()),
            db(store.list_sessions, query.wanted(owner, _STATES[rest]), limit=0),
            db(store.list_sessions, query.wanted(owner, _WAITS), limit=0),
            left_to(site, self.caller) if mine else _nothing(),
            self._launches(mine),
        )  # fmt: skip
        if (last := query.within(total)) != query:
            query = last
            wanted = query.wanted(owner, _STATES[query.state])
            sessions, total = await db(store.list_sessions, wanted, **query.part())
        service = self.hub_auth.base_url
        counts = {query.state: total, rest: others}
        self.write_page(
            "backendai/pages/sessions.html", PARTS,
            query=query, sessions=[session_to(self.caller.name, one) for one in sessions],
            left=left, **query.pages(service, total),
            events=EVERYBODY if owner is None else "" if mine else owner,
            **launches, sees_all=self.caller.may_all(READ), readable=self.readable,
            can_end=query.state == "live" and any(self.may_end(session) for session in sessions),
            may_end=self.may_end,
            groups=[group.name for group in site.catalog.resource_groups],
            start_url=self._start_url(owner),
            filtered=bool(query.name or query.type or query.resource_group),
            unfiltered=ListQuery(state=query.state, owner=query.owner).address(service),
            tabs=list(_tabs(query, service, counts, waiting)),
            columns=list(query.columns(service, _COLUMNS[query.state])),
            environment_of=self.environment_of, server_url=self.server_url,
            idle_end=partial(ends_at, self.service), use_of=self._use_of,
            kept_until=await self._kept(sessions), may_resume=self._may_resume,
        )  # fmt: skip

    async def _kept(self, sessions: Sequence[Session]) -> Callable[[Session], datetime | None]:
        """Until when those that are hibernated are kept."""
        found: list[tuple[Hibernation, str]] = []
        if any(one.status is Status.HIBERNATED for one in sessions):
            find = self.site.store.hibernations_dropping
            found = await self.site.db(find, None)
        until = {rest.session_id: self.service.drops.told(rest).drop_at for rest, _ in found}
        return lambda session: until.get(session.id)

    def _may_resume(self, session: Session) -> bool:
        return self.caller.may(START, session.owner, session.owner_groups)

    def _use_of(self, session: Session) -> list[Bar]:
        return bars(self.service.used(session.id))

    async def _launches(self, mine: bool) -> dict[str, Any]:
        """What leads to the launcher; recent launches beside one's own sessions only."""
        own = await self.site.db(self.site.store.launches, self.caller.name) if mine else []
        return {
            "launch_url": self.launch_url,
            "pinned": [launch for launch in own if launch.pinned],
            "recent": [launch for launch in own if not launch.pinned],
        }

    def _start_url(self, owner: str | None) -> str:
        """Where a session is launched for whom the list is of; empty where that may not be."""
        if owner in (None, self.caller.name):
            return self.launch_url
        return f"{self.launch_url}?{urlencode({FOR: owner})}" if self.acts_for_others else ""


async def _nothing() -> list[Any]:
    return []


async def left_to(site: Site, caller: Caller) -> list[dict[str, Any]]:
    """What of its limits a user has not in use, slot by slot; nothing where nothing limits it."""
    limits = site.policies.of(caller.name, caller.groups).limits
    used, sessions = await site.db(site.store.used, caller.name)
    bars = []
    for name in SLOT_NAMES:
        most = getattr(limits, name)
        if most:
            bars.append(slot_bar(name, getattr(used, name), most, "left"))
    most = limits.sessions
    if most:
        bars.append({
            "label": "Sessions", "used": sessions, "most": most, "kind": "",
            "text": f"{max(0, most - sessions)} of {most} left",
        })  # fmt: skip
    return bars


def slot_bar(name: str, used: int, most: int, rest: str) -> dict[str, Any]:
    """A bar of one slot, and how much of it is not in use; `rest` is the word for that."""
    left = max(0, most - used)
    told = format_bytes if name == "mem" else format_thousandths
    label, unit = _SLOTS[name]
    return {
        "label": label, "used": used, "most": most, "kind": name,
        "text": f"{told(left)} of {told(most)}{unit} {rest}",
    }  # fmt: skip


def _tabs(
    query: ListQuery, service: str, counts: dict[str, int], waiting: int
) -> Iterator[dict[str, Any]]:
    for state, title in (("live", "Current"), ("over", "Finished")):
        yield {
            "title": title, "count": counts[state], "here": state == query.state,
            "waiting": waiting if state == "live" else 0,
            "href": query.address(service, state=state, page=1, sort=None),
        }  # fmt: skip
