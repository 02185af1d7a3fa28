"""Reads from the Hub's own database which servers it has."""

from __future__ import annotations

import json

from jupyterhub import orm
from sqlalchemy import literal_column, select
from sqlalchemy.orm import Session

from ..site.hub_servers import HubServers


def hub_servers(db: Session) -> HubServers:
    """What the Hub has now. To be called on the Hub's event loop, as all that uses `db`.

    A server is in the Hub's database from before its start to after its end.
    """
    with db.no_autoflush:  # what a request has not finished yet is not for us to write
        rows = db.execute(
            select(orm.User.name, orm.Spawner.name, literal_column("spawners.state"))
            .join(orm.Spawner, orm.Spawner.user_id == orm.User.id)
            .where(orm.Spawner.server_id.is_not(None))
        ).all()
        users = db.scalars(select(orm.User.name)).all()
    return HubServers(
        servers=frozenset((owner, name) for owner, name, _ in rows),
        sessions=frozenset(
            str(json.loads(state or "{}").get("session_id", "")) for _, _, state in rows
        ),
        users=frozenset(users),
    )
