"""`GET api/events`: server-sent events of all that one may see.

`session` tells a session as it is now; its id is the number to go on from (`Last-Event-ID`).
`agent`, in the stream of everybody's, tells an agent; it has no id, and may come twice.
`begin` is the first, with the number from which on nothing is missed; where what a client knows
cannot be brought up to date it is `reset`, and the client reads its list again.
"""

from __future__ import annotations

import asyncio

from tornado.iostream import StreamClosedError

from ..base import Handler
from ..feed import BATCH, LIFETIME, Stream, agent_event_of, event_of
from ..owners import whose
from ..places import Places
from ..queries import StreamQuery

MOST_STREAMS = 5000  # of everybody
MOST_OWN = 30  # of one user; more tabs than anybody reads


def stream_places() -> Places:
    """Room for streams of events."""
    told = "Close some of your other pages first."
    return Places(MOST_OWN, MOST_STREAMS, "too_many_streams", told)


class EventsHandler(Handler):
    """One client's stream of events."""

    _stream: Stream | None = None

    async def get(self) -> None:
        query = self.read_query(StreamQuery)
        owner = await whose(self.service, self.caller, query.owner)
        with self.service.streams.one(self.caller.name):
            await self._tell(owner)

    async def _tell(self, owner: str | None) -> None:
        self._stream = stream = Stream(owner)
        loop = asyncio.get_running_loop()
        ending = loop.call_later(LIFETIME, stream.end)
        try:
            await self.service.feed.add(stream)
            self.set_header("Content-Type", "text/event-stream")
            self.set_header("X-Accel-Buffering", "no")
            sent = await self._begin(owner)
            async for seq, event in stream:
                if seq > sent or seq == 0:
                    self.write(event)
                    await self.flush()
        except StreamClosedError:
            return
        finally:
            ending.cancel()
            self.service.feed.remove(stream)

    async def _begin(self, owner: str | None) -> int:
        """Brings the client up to date; the number of the last change that it knows then."""
        db, store = self.site.db, self.site.store
        latest = await db(store.seq)
        given = self.request.headers.get("Last-Event-ID", "")
        known = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        kind = "begin" if not given else "reset"
        if known is None or known > latest:
            await self._write(f"event: {kind}\nid: {latest}\ndata: {{}}\n\n".encode())
            return latest
        agents_known = known
        while True:
            changes = await db(store.changes, known, owner, BATCH)
            # In the order of `Feed.run`, for the same reason.
            agents = [] if owner else await db(store.agent_changes, agents_known)
            for agent in agents:
                await self._write(agent_event_of(agent))
                agents_known = agent.seq
            for change in changes:
                await self._write(event_of(change))
                known = change.seq
            if len(changes) < BATCH:
                await self._write(b": up to date\n\n")
                return known

    async def _write(self, event: bytes) -> None:
        self.write(event)
        await self.flush()

    def on_connection_close(self) -> None:
        if self._stream is not None:
            self._stream.end()
