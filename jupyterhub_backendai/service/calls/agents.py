"""`api/agents`: the machines, for admins; whether sessions are placed on one."""

from __future__ import annotations

import asyncio

from ...site.clock import utcnow
from ...store import NotFound
from ..agents import AgentChange, AgentList, AgentRow, loads
from ..base import Handler, Refused
from ..holders import holders


class AgentsHandler(Handler):
    """All agents."""

    async def get(self) -> None:
        db, store = self.site.db, self.site.store
        agents, holdings, who = await asyncio.gather(
            db(store.agents), db(store.holdings), holders(self.service)
        )
        there = loads(agents, holdings, who)
        self.reply(AgentList(items=[AgentRow.of(each, there[each.name]) for each in agents]))


class AgentHandler(Handler):
    """One agent."""

    async def patch(self, name: str) -> None:
        change = self.read_body(AgentChange)
        if not name.isprintable():  # no database has such names, and not each can be asked for one
            raise _not_found()
        site, by = self.site, self.caller.name
        write = site.store.set_schedulable
        try:
            agent = await site.db(write, name, change.schedulable, by=by, now=utcnow())
        except NotFound:
            raise _not_found() from None
        if agent.schedulable:
            site.log.info("Agent %s takes sessions, as %s says", name, by)
        else:
            site.log.info("Agent %s takes no sessions, as %s says", name, agent.drained_by)
        site.queue.kick()
        holdings, who = await asyncio.gather(site.db(site.store.holdings), holders(self.service))
        self.reply(AgentRow.of(agent, loads([agent], holdings, who)[agent.name]))


def _not_found() -> Refused:
    return Refused(404, "not_found", "There is no such agent.", "name")
