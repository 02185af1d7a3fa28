"""Calls of the store about how sessions are entered: ways (apps that are open beyond their owners'
own sign-in), and SSH keys."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ..model.keys import SshKeys
from . import sessions, ssh_keys, ways
from .base import StoreBase
from .records import OpenWay, Way
from .ways import Limits, Pool, Wanted

LIMITS = Limits()


class WayCalls(StoreBase):
    """See the head of this module. One transaction a call, as with all of the store."""

    def open_way(
        self,
        wanted: Wanted,
        *,
        now: datetime,
        busy: Collection[int] = (),
        limits: Limits = LIMITS,
    ) -> tuple[Way, bool]:
        """Opens a way, and whether it is new: one that is the same is open already, else. A port is
        the preferred one or the next that is free: that no open way has, none had a moment ago, and
        that is not among `busy`, which other programs have. Where all others are in use it is the
        one that was closed first.

        Raises `NotFound`; `RequestError` (`not_running`, `too_many_ways`, `no_port`).
        """
        with self._write() as db:
            self._db.one_by_one(db, "ways")
            session = sessions.locked(db, wanted.session_id)
            way, is_new = ways.open_(db, session, wanted, busy, limits, now)
            if is_new:
                sessions.touch(db, session.id)
            return way, is_new

    def take_another_port(
        self, way_id: str, pool: Pool, busy: Collection[int], *, now: datetime
    ) -> Way:
        """Gives an open way the next port, as another program has its own. Raises `NotFound` where
        it is closed, `RequestError` (`no_port`)."""
        with self._write() as db:
            self._db.one_by_one(db, "ways")
            way = ways.take_another_port(db, way_id, pool, busy, now)
            sessions.touch(db, way.session_id)
            return way

    def close_way(self, way_id: str, *, by: str | None, reason: str, now: datetime) -> None:
        """Closes a way; one that is closed stays as it is. Raises `NotFound`."""
        with self._write() as db:
            sessions.touch(db, ways.close(db, way_id, by, reason, now))

    def ways_of(self, session_id: str) -> list[Way]:
        """The open ways of a session, oldest first."""
        with self._db.query() as db:
            return ways.of_session(db, session_id)

    def open_ways(self) -> list[OpenWay]:
        """All open ways and where they lead, oldest first."""
        with self._db.query() as db:
            return ways.all_open(db)

    def open_way_of(self, way_id: str) -> OpenWay:
        """An open way and where it leads. Raises `NotFound`, also for one that is closed."""
        with self._db.query() as db:
            return ways.one(db, way_id)

    # -- keys

    def ssh_keys(self, owner: str) -> SshKeys | None:
        """A user's SSH keys, if there are some."""
        with self._db.query() as db:
            return ssh_keys.of(db, owner)

    def add_ssh_keys(self, owner: str, keys: SshKeys, now: datetime) -> SshKeys:
        """Notes a user's SSH keys; returns those that were there already, else these."""
        with self._changing(owner) as db:
            return ssh_keys.add(db, owner, keys, now)

    def replace_ssh_keys(self, owner: str, keys: SshKeys, now: datetime) -> SshKeys:
        """Notes a user's SSH keys in place of those that were there."""
        with self._changing(owner) as db:
            return ssh_keys.replace(db, owner, keys, now)
