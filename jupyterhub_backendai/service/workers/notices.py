"""Tells owners ahead that idle checks end their sessions, at the times that the admin wants; and
that hibernated ones are dropped.

Each warning goes out at most once by each channel. It is claimed in the database first, and one of
which nobody knows whether it was taken - the connection broke in the middle, this process was
killed - is not sent again: a warning that is missing is followed by the next one, and the pages
have it in any case, but people who are told the same twice stop reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from ..._within import within
from ...model.errors import shown
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Notice, NoticeKey, NoticeState, Unavailable
from ..dropping import Drops
from ..idle.watch import Watch
from ..notify.channel import Channel, Delivery, NotTaken, Pages
from ..notify.message import Message
from ..notify.rule import Due
from ..notify.subjects import Dropping, Ending, Subject

EVERY = 5.0  # seconds between two looks
AT_ONCE = 8  # messages of one channel on their way
FIRST_PAUSE = 15.0  # seconds before one that was not taken is sent again; doubled each time
LONGEST_PAUSE = 600.0
BATCH = 500  # sessions looked at, at once


class NoticesWorker:
    """The part of the service that warns. `watch` gives what the idle checks know, once there is
    such a thing; `page_of` the address of a session's page; `count` is told of each message: its
    channel, and what became of it."""

    def __init__(
        self,
        site: Site,
        watch: Callable[[], Watch | None],
        channels: Sequence[Channel],
        drops: Drops,
        page_of: Callable[[str], str] = lambda _: "",
        count: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self.site, self.channels, self.drops = site, channels, drops
        self._watch, self._page_of, self._count = watch, page_of, count
        self._known: dict[str, dict[NoticeKey, Notice]] | None = None  # by session
        self._slots = {one.name: asyncio.Semaphore(AT_ONCE) for one in channels}
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}  # by channel and session
        self._again: dict[NoticeKey, float] = {}  # not before, by the monotonic clock
        self.first_pause = FIRST_PAUSE

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                try:
                    await self.once()
                except Unavailable as error:
                    self.site.log.warning("No warning can be sent: %s", error)
                await asyncio.sleep(EVERY)
        finally:
            await self.stop()

    def close(self) -> None:
        """Ends the channels, after the work."""
        for channel in self.channels:
            channel.close()

    async def stop(self) -> None:
        """Breaks off what is on its way."""
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def once(self) -> None:
        """One look at all; what is due is then on its way. Raises `Unavailable`."""
        watch = self._watch()
        if watch is None:
            return
        known = await self._load()
        rests = {
            rest.session_id: Dropping(rest, name, self.drops, self._page_of)
            for rest, name in await self.drops.look(self.site)
        }
        for id in known.keys() - watch.sessions.keys() - rests.keys():
            for key in known.pop(id):
                self._again.pop(key, None)
        for rest in rests.values():
            self._look_at(rest)
        soon = watch.clock.now() + max(self.site.idle.warnings, default=0)
        for number, watched in enumerate(list(watch.sessions.values())):
            if watched.ends_at is not None and watched.ends_at <= soon:
                self._look_at(Ending(self.site, watch, watched, self._page_of))
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)

    def _look_at(self, subject: Subject) -> None:
        for channel in self.channels:
            busy = (channel.name, subject.id) in self._sending
            if not busy and self._due(subject, channel) is not None:
                self._begin(subject, channel)

    def told(self, session_id: str) -> str:
        """Which warning the pages have of a session: the same while it is the same warning. Empty
        where it is not time yet."""
        mine = (self._known or {}).get(session_id, {}).values()
        keys = [one.key for one in mine if one.key.channel == Pages.name]
        return f"{session_id}-{keys[-1].warning}-{keys[-1].ends_at}" if keys else ""

    async def _load(self) -> dict[str, dict[NoticeKey, Notice]]:
        """What was sent, as the database has it at first and this process knows it since."""
        if self._known is None:
            store, now = self.site.store, utcnow()
            if lost := await self.site.db(store.settle_notices, self.site.run_id, now):
                self.site.log.warning("%i warnings may have been lost at a restart", lost)
            found = await self.site.db(store.notices)
            self._known = {}
            for notice in found:
                self._remember(notice)
        return self._known

    def _remember(self, notice: Notice) -> None:
        assert self._known is not None
        mine = self._known.setdefault(notice.key.session_id, {})
        mine.pop(notice.key, None)  # the newest is the last
        mine[notice.key] = notice

    def _due(self, subject: Subject, channel: Channel) -> Due | None:
        """The warning that is to be sent, as it was seen last."""
        mine = (self._known or {}).get(subject.id, {}).values()
        found = subject.due([one for one in mine if one.key.channel == channel.name])
        if found is None or found.earlier is None:
            return found
        return found if self._again.get(found.earlier.key, 0.0) <= time.monotonic() else None

    def _begin(self, subject: Subject, channel: Channel) -> None:
        place = channel.name, subject.id
        task = self.site.background(self._tell(subject, channel))
        self._sending[place] = task
        task.add_done_callback(lambda _: self._sending.pop(place, None))

    async def _tell(self, subject: Subject, channel: Channel) -> None:
        async with self._slots[channel.name]:
            try:
                await self._tell_now(subject, channel)
            except Unavailable as error:
                self.site.log.warning("A warning is sent later: %s", error)

    async def _tell_now(self, subject: Subject, channel: Channel) -> None:
        """One message, if it is true by now. Raises `Unavailable`, and then nothing was sent."""
        subject.look()
        found, ends_at = self._due(subject, channel), subject.ends_at
        if found is None or ends_at is None:
            return
        key = found.earlier.key if found.earlier is not None else NoticeKey(
            subject.id, channel.name, found.warning, round(ends_at)
        )  # fmt: skip
        run, store = self.site.run_id, self.site.store
        notice = await self.site.db(store.claim_notice, key, run, utcnow())
        if notice is None:
            self._remember(Notice(key, NoticeState.UNSURE, 0))  # it is somebody else's
            return
        self._remember(notice)
        # The database may have taken its time, in which its owner came back.
        subject.look()
        message = subject.message(key)
        state, delivery = NoticeState.WAITING, Delivery()
        try:
            if message is not None:
                state = await self._send(channel, message, delivery)
        except asyncio.CancelledError:
            state = NoticeState.UNSURE if delivery.handed else NoticeState.WAITING
            raise
        finally:
            await asyncio.shield(self._note(Notice(key, state, notice.attempts)))

    async def _note(self, notice: Notice) -> None:
        """Notes what became of a message."""
        self._remember(notice)
        if notice.state is NoticeState.WAITING:
            pause = min(LONGEST_PAUSE, self.first_pause * 2.0 ** min(notice.attempts - 1, 20))
            self._again[notice.key] = time.monotonic() + pause
        store, run = self.site.store, self.site.run_id
        try:
            await self.site.db(store.note_notice, notice.key, run, notice.state, utcnow())
        except Unavailable as error:  # it stays claimed by this run, which knows what became of it
            self.site.log.warning("What became of a warning is not noted: %s", error)

    async def _send(self, channel: Channel, message: Message, delivery: Delivery) -> NoticeState:
        """Sends it, and says what became of it."""
        try:
            await within(channel.patience, channel.send(message, delivery))
            state, why = NoticeState.SENT, ""
        except NotTaken as error:
            if error.unwanted:
                self._count(channel.name, "none")
                self.site.log.debug("No warning by %s: %s", channel.name, error)
                return NoticeState.REFUSED
            state = NoticeState.REFUSED if error.for_good else NoticeState.WAITING
            why = str(error)
        except Exception as error:  # of a library, or of the network: whatever it was, it failed
            state = NoticeState.UNSURE if delivery.handed else NoticeState.WAITING
            why = shown(error, 200) or type(error).__name__
        self._count(channel.name, OUTCOMES[state])
        if why:
            self.site.log.warning(
                "Session %s of %s: the warning by %s %s: %s", message.key.session_id,
                message.owner, channel.name, _SAID[state], why,
            )  # fmt: skip
        return state


OUTCOMES = {
    NoticeState.SENT: "sent",
    NoticeState.WAITING: "failed",
    NoticeState.REFUSED: "refused",
    NoticeState.UNSURE: "unsure",
}
_SAID = {
    NoticeState.SENT: "was sent",
    NoticeState.WAITING: "was not taken, and is sent again",
    NoticeState.REFUSED: "was refused",
    NoticeState.UNSURE: "may have been taken, and is not sent again",
}
