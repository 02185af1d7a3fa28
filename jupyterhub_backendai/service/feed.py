"""Changes of sessions, read once for everybody and given to all streams that may see them."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator

from .._within import within
from ..site.runtime import Site
from ..store import AgentState, Change, Unavailable
from .agents import AgentEvent
from .schemas import SessionRow

INTERVAL = 0.5  # seconds between two looks, while somebody listens
PATIENCE = 10.0  # seconds for the first look of all
BATCH = 500  # changes of one look
BEHIND = 1000  # events that a slow stream may be behind; then it ends, and the client comes again
HEARTBEAT = 20.0  # seconds of silence that a proxy may take for the end
LIFETIME = 15 * 60.0  # seconds; whoever comes again is asked anew who they are
BEAT = b": still here\n\n"


class Stream:
    """One client's stream; `owner` None is everybody's changes."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.over = False
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._news = asyncio.Event()

    def put(self, seq: int, event: bytes) -> None:
        """An event for this stream; one that is too far behind is ended."""
        if len(self._waiting) >= BEHIND:
            self.end()
        else:
            self._waiting.append((seq, event))
            self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.over = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Events with their numbers; a heartbeat, as number 0, where there is none for a while."""
        while not self.over:
            if not self._waiting:
                try:
                    await within(HEARTBEAT, self._news.wait())
                except asyncio.TimeoutError:
                    yield 0, BEAT
                    continue
            self._news.clear()
            while self._waiting and not self.over:
                yield self._waiting.popleft()


class Feed:
    """The one reader of the change feed and the streams that it serves."""

    def __init__(self) -> None:
        self._streams: defaultdict[str | None, set[Stream]] = defaultdict(set)  # by whose they are
        self._anybody, self._reads = asyncio.Event(), asyncio.Event()
        self._after: int | None = None  # the last change that was told; None while nobody listens
        self._agents_after = 0  # the last of an agent

    def __len__(self) -> int:
        return sum(len(streams) for streams in self._streams.values())

    async def add(self, stream: Stream) -> None:
        """When this returns, the stream is given every change that is yet to come. Raises
        `Unavailable` where nothing can be read."""
        self._streams[stream.owner].add(stream)
        self._anybody.set()
        try:
            await within(PATIENCE, self._reads.wait())
        except asyncio.TimeoutError:
            raise Unavailable("the changes of sessions cannot be read") from None

    def remove(self, stream: Stream) -> None:
        """This stream is given nothing more."""
        streams = self._streams[stream.owner]
        streams.discard(stream)
        if not streams:
            del self._streams[stream.owner]

    def end(self) -> None:
        """Ends all streams."""
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    async def run(self, site: Site) -> None:
        """The endless work. Nothing is read while nobody listens: streams catch up themselves.
        Where it broke off while somebody did, it goes on from there."""
        while True:
            if not self._streams:
                self._after = None
                self._reads.clear()
                self._anybody.clear()
                await self._anybody.wait()
            if self._after is None:
                self._after = self._agents_after = await site.db(site.store.seq)
            self._reads.set()
            changes = await site.db(site.store.changes, self._after, None, BATCH)
            # Read later and told earlier: whoever knows a session's change knows those before it.
            for agent in await site.db(site.store.agent_changes, self._agents_after):
                self._tell_agent(agent)
                self._agents_after = agent.seq
            for change in changes:
                self._tell(change)
                self._after = change.seq
            if len(changes) < BATCH:
                await asyncio.sleep(INTERVAL)

    def _tell(self, change: Change) -> None:
        event: bytes | None = None
        for whose in (change.session.owner, None):
            for stream in self._streams.get(whose, ()):
                event = event or event_of(change)
                stream.put(change.seq, event)

    def _tell_agent(self, agent: AgentState) -> None:
        """Agents are for those who see everybody's sessions."""
        event = agent_event_of(agent)
        for stream in self._streams.get(None, ()):
            stream.put(agent.seq, event)


def event_of(change: Change) -> bytes:
    """A change as a server-sent event."""
    data = SessionRow.of(change.session).model_dump_json()
    return f"event: session\nid: {change.seq}\ndata: {data}\n\n".encode()


def agent_event_of(agent: AgentState) -> bytes:
    """An agent's change as an event. It has no number to go on from, as those of sessions may come
    after it that have a lower one."""
    return f"event: agent\ndata: {AgentEvent.of(agent).model_dump_json()}\n\n".encode()
